CAPTIONS = {
    "training": (
        "The losses pass the bigram line",
        "Line chart of the loss against 400 steps of training. It begins a little above ln V at "
        "3.40, falls past the bigram at 2.39, and goes on falling slowly, from step to step up and "
        "down.",
    ),
    "jobs": (
        "One job is taken, the others are nobody's",
        "Heat map of eight heads and five jobs, and a last row for even weights. A head of layer 0 "
        "puts most of its weight on the one before, and others of that layer some more than even "
        "weights would. In the other columns all scores are near those of even weights.",
    ),
}
