CAPTIONS = {
    "shifted rows": (
        "Each input is the label before it; the first is <bos>",
        "Two rows of boxes. Inputs: <bos> and the words of a French sentence. Targets below them: "
        "the same words and <eos>, one place earlier. An arrow leads from each input to its target.",
    ),
    "training": (
        "The loss falls while the steps are long, and comes to rest while they are short",
        "Line chart of the loss against steps of training. It begins near log V at 3.8, falls "
        "within 100 steps to a tenth of that, and ends near 0.",
    ),
    "beam": (
        "Two texts are followed at once",
        "A tree.",
    ),
    "families": (
        "All of it, what came before, or both: three ways to look",
        "Three masks of six tokens by six. Encoder: nothing is hidden. Decoder: each token sees "
        "itself and those before it. Encoder-decoder: the first three, the source, see the source; "
        "the last three, the target, see all of the source, themselves, and the targets before "
        "them.",
    ),
}
