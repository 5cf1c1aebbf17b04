CAPTIONS = {
    "two masks": (
        "A triangle hides words that are there already",
        "Two grids of 6 target words by 4 source words. Left: nothing is hidden. Right: a triangle "
        "hides all but I from <bos>, all but I and am from je, and home from suis; from à on "
        "nothing is hidden.",
    ),
    "rectangle": (
        "Each row asks for the word to be written next",
        "Heat map of 7 target words by 7 source pieces. <bos> looks at the, le at small, petit at "
        "cat, chat at find, and une at girl, each with more than 0.8; trouve half at a and half at "
        "girl. The last row, fille, looks at nothing with more than half of its weight.",
    ),
    "encoder and decoder": (
        "Two streams, and one way across: the decoder asks what the encoder made",
        "",
    ),
}
