CAPTIONS = {
    "waves": (
        "Fast waves on the left, slow ones on the right",
        "Heat map of 24 positions by 16 channels, from -1 to 1. Channels 0 and 1 swing through "
        "nearly four whole waves, channels 2 and 3 through a good one; from channel 8 on a column "
        "hardly changes: sines stay near 0, cosines near 1.",
    ),
    "how alike": (
        "Neighbours are alike by training, or by construction",
        "Three heat maps of 24 by 24 positions. Learned, at first: 1 on the diagonal, chance "
        "elsewhere. Learned, trained: a band of high cosines along the diagonal, "
        "negative ones far from it. Waves: stripes, each diagonal of one colour.",
    ),
    "clock hands": (
        "Fast hands tell neighbours apart, slow hands far places",
        "Four dials with hands for positions 0, 1, 10 and 100. Channels 0 and 1, 1 radian a token: "
        "all four apart. Channels 2 and 3, 0.1: 0 and 1 close together, 10 a radian further. "
        "Channels 4 and 5, 0.01: 0, 1 and 10 close together, 100 a radian further. Channels 6 and "
        "7, 0.001: all close together, 100 a little ahead.",
    ),
    "scores": (
        "Rotated, each diagonal has one colour",
        "Two heat maps of scores of one query and one key at 12 positions. Waves added: the "
        "diagonals change from place to place. Rotated: each diagonal has one colour, and those "
        "below the middle differ from those above it.",
    ),
    "beyond": (
        "Beyond 16 tokens: no row, wrong words, fine for a few",
        "Line chart of the share of right words by position, for models trained on positions 0 to "
        "15. All three are right up to 15. Learned ends there. Sinusoidal falls at 16 "
        "and is down at chance, 1 in 12, by 19. Rotary stays right at 16 and a few places on, then "
        "falls part of the way.",
    ),
}
