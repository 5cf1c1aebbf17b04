CAPTIONS = {
    "before and after": (
        "Masked after the softmax, early rows stay pale: their sums are below 1",
        "Masked after the softmax, early rows stay pale: their sums are below 1. Only the last "
        "row, which hides nothing, is the same with the mask before and after.",
    ),
}
