CAPTIONS = {
    "additions": (
        "Twice the tokens, four times the additions",
        "Line chart: twice the tokens, four times the additions. Additions a channel against "
        "tokens T from 8 to 512, beside a line that grows as T to the power 2.",
    ),
    "who hears whom": (
        "A token is heard by itself and by later tokens",
        "A token is heard by itself and by later tokens: row t holds 1 / (t + 1) in columns 0 to "
        "t, and 0 in all columns after t.",
    ),
}
