CAPTIONS = {
    "heads of tokens": (
        "Each row of a head is one token",
        "Three tables with a shade for each token. Tokens: 1 to 4, 5 to 8, 9 to 12. Head 0: 1 2, "
        "5 6, 9 10. Head 1: 3 4, 7 8, 11 12. Every row has one shade.",
    ),
    "viewed at once": (
        "Viewed at once, the heads hold pieces of other tokens",
        "Three tables with a shade for each token. Head 0 holds 1 2, 3 4, 5 6: two rows of token "
        "0, one of token 1. Head 1 holds 7 8, 9 10, 11 12: one row of token 1, two of token 2.",
    ),
    "what heads cost": (
        "Many narrow heads: time grows side by side, memory in either style",
        "Two line charts against the number of heads, 1 to 16, for A, side by side, and B, split. "
        "Left: time of forward and backward, as measured. Right: the memory kept for backward "
        "grows with the heads, in both styles alike.",
    ),
}
