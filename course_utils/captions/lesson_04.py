CAPTIONS = {
    "projections": (
        "With W_q, a verb and an article look at nouns",
        "Heat map of 5 words. 'chased' and each 'the' give 0.44 to 'cat' and to 'mouse', "
        "both nouns "
        "give 0.44 to each 'the', and everything else is 0.04.",
    ),
    "lookup": (
        "With three matrices each kind looks at the next one",
        "Two heat maps of 6 kinds. Q = K: each kind looks most at itself, and a little at both "
        "neighbours. Three: each kind gives nearly all of its weight to the next kind, F to A.",
    ),
    "spread": (
        "Dot products spread with √D; divided by √D, all spread alike",
        "Histograms of dot products. Standard deviations as they are: 2.0 for D = 4, 7.9 for "
        "D = 64, 32.9 for D = 1024. Divided by √D: 1.0 for each.",
    ),
    "saturation": (
        "Not scaled, one key takes all and the gradient vanishes",
        "Two line charts for D = 4 to 1024. The largest of 8 weights rises from 0.47 to 1.00 when "
        "not scaled, and stays near 0.33 divided by √D. The gradient of a row falls from "
        "0.3 to two "
        "millionths when not scaled, and stays near 0.3 divided by √D.",
    ),
}
