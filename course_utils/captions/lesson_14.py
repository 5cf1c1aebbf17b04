CAPTIONS = {
    "loudness": (
        "The first tokens come out as a whisper",
        "Line chart of how long the output of patient E is, against the place of the token. It "
        "rises from near 0 at the first token to about 4 at the last.",
    ),
    "slow": (
        "The longer the text, the longer each word takes",
        "Line chart of seconds against the number of words that are written. The line bends up.",
    ),
    "losses": (
        "Three patients learn better than the language allows",
        "Line chart of losses against steps of training, with the floor of the language at 1.23. A "
        "sound model and patient C come down to the floor. D ends at 0, E near 0.2 and G near 0.4.",
    ),
}
