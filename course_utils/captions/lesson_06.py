CAPTIONS = {
    "what the heads look at": (
        "The mask never arrives: both heads look at padding",
        "Four heat maps of 5 queries by 5 keys. In the two published ones the rows of 'a', 'short' "
        "and 'text' have weight in the two columns of <pad>. In the two masked ones those columns "
        "are hatched, and the first two rows see nothing.",
    ),
}
