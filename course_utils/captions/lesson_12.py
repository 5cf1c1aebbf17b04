CAPTIONS = {
    "shifted rows": (
        "Each input is the label before it; the first is <bos>",
        "Two rows of boxes. Inputs: <bos> and the words of a French sentence. Targets below them: "
        "the same words and <eos>, one place earlier. An arrow leads from each input to its "
        "target.",
    ),
    "training": (
        "The loss falls while the steps are long, and comes to rest while they are short",
        "Line chart of the loss against steps of training. It begins near log V at 3.8, falls "
        "within 100 steps to a tenth of that, and ends near 0.",
    ),
    "beam": (
        "The text that is behind in step four wins by its end",
        "A tree of texts, two of which are kept in each step. Step four keeps la petite fille "
        "noire, at -2.8, and la petite fille mange, at -3.3. With the end of the text they are at "
        "-4.1 and -3.4, so the second wins.",
    ),
    "families": (
        "All of it, what came before, or both: three ways to look",
        "Three masks of six tokens by six. Encoder: nothing is hidden. Decoder: each token sees "
        "itself and those before it. Encoder-decoder: the first three, the source, see the source; "
        "the last three, the target, see all of the source, themselves, and the targets before "
        "them.",
    ),
}
