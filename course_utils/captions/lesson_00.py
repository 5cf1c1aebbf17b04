CAPTIONS = {
    "column and row": (
        "Every entry of the column meets every entry of the row",
        "A column of 0, 10, 20 plus a row of 1, 2, 3, 4 gives three rows of four numbers: 1 to 4, "
        "11 to 14, 21 to 24.",
    ),
}
