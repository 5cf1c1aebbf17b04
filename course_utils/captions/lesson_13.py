CAPTIONS = {
    "against length": (
        "By hand, time and memory grow with T²; the built-in keeps what grows with T",
        "Two line charts against the number of tokens, 128 to 2,048, both axes logarithmic, for "
        "naive attention and for SDPA, beside a dotted line that grows as T². Left: time of "
        "forward and backward, as measured. Right: the memory kept for backward. That of the naive "
        "way runs along the dotted line; that of SDPA is half as steep.",
    ),
    "bill": (
        "The same numbers, four prices",
        "Two bar charts for wrapper, split, sdpa, torch and sdpa with autocast, each as a multiple "
        "of split. Left: time of forward and backward, as measured. Right: memory kept for "
        "backward. Diamonds show what was measured once on one core: time 1.40, 1, 0.67, 0.68, "
        "0.55; memory 1.87, 1, 0.31, 0.31, 0.15.",
    ),
    "square and strip": (
        "Without a cache, a square each time; with one, a strip that grows by one",
        "Pictures for tokens 2, 4, 6 and 8. Above, without a cache: all scores, a square of T rows "
        "and T columns, its last row marked. Below, with a cache: T kept keys and T kept values, "
        "the last of each marked, and one row of T scores.",
    ),
    "a token's time": (
        "Without a cache, each token takes longer than the last",
        "Line chart of the milliseconds for one more token against the tokens written so far, 16 "
        "to 512, both axes logarithmic. Without a cache the line rises, the steeper the longer the "
        "text; with a cache it stays nearly level.",
    ),
}
