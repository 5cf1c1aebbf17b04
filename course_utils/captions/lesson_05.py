CAPTIONS = {
    "rows or columns": (
        "With rows hidden, 'cats' and 'sleep' still listen to padding",
        "Two heat maps of the rows of 'cats' and 'sleep'. Rows hidden: 'cats' gives half of its "
        "weight to the three paddings. Columns hidden: the columns of the padding are hatched, and "
        "only 'cats' and 'sleep' have weight.",
    ),
    "behind": (
        "Padding behind a text lies in the future of its tokens",
        "Three masks of 5 by 5. cats sleep: row 0 sees 0, rows 1 to 4 see 0 and 1. the "
        "dog chased a "
        "ball: each row sees itself and what comes before. she reads books: row 0 sees 0, row 1 "
        "sees 0 and 1, rows 2 to 4 see 0, 1 and 2.",
    ),
    "sees nothing": (
        "The first row sees nothing",
        "Mask of 3 by 3. The row of <pad> sees nothing, the row of cats sees cats, the "
        "row of sleep "
        "sees cats and sleep.",
    ),
}
