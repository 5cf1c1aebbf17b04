CAPTIONS = {
    "two rows": (
        "One window, six predictions: each word is asked for the next",
        "Two rows of boxes. Inputs: . the dogs near the cat. Targets below them: the dogs near the "
        "cat sleep. An arrow leads from each input to its target.",
    ),
    "training": (
        "It passes three lines and comes to rest on the fourth",
        "Line chart of the loss against 300 steps of training. It begins near log V at 3.30, falls "
        "past the unigram at 2.82 and the bigram at 1.56, and ends a little above the floor at "
        "1.22.",
    ),
    "overfitting": (
        "On its own texts far below the floor, on fresh ones ever worse",
        "Line chart of two losses against steps. On the 24 texts it falls from 3.4 below the floor "
        "of 1.24 to nearly 0. On fresh texts it falls to about 2 within the first steps, then "
        "rises to more than 3.",
    ),
    "one layer or two": (
        "One layer never learns it; two learn it all at once",
        "Line chart of accuracy against steps. One layer stays below a third. Two layers wait for "
        "100 steps, then rise to 1 within 100 more.",
    ),
    "jobs": (
        "Three heads have a job, and one job is nobody's",
        "Heat map of four heads and three jobs. Layer 0 head 1 gives 0.98 to the word before. "
        "Layer 1 heads 0 and 1 give 0.93 and 0.99 to the word after the same one. No head gives "
        "more than 0.07 to the same word itself.",
    ),
}
