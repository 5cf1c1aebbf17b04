CAPTIONS = {
    "who hears whom": (
        "A token is heard by itself and by later tokens",
        "A token is heard by itself and by later tokens: row t holds 1 / (t + 1) in columns 0 to "
        "t, and 0 in all columns after t.",
    ),
}
