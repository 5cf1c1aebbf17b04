"""A tiny random English, in which a verb agrees with a noun that may be far away.

In "the dogs near the cat sleep", a model must attend past "cat" to "dogs" to predict the verb.
Every sentence is drawn word by word (`training/start_model.py`), so the probability of each word is
known, and so is the lowest loss that any model can reach (the entropy).
"""

from __future__ import annotations

END = "."
NOUNS = {
    "one": ["cat", "dog", "bird", "child", "teacher", "king", "mouse", "friend"],
    "many": ["cats", "dogs", "birds", "children", "teachers", "kings", "mice", "friends"],
}
VERBS = {
    "one": ["sleeps", "sings", "runs", "laughs"],
    "many": ["sleep", "sing", "run", "laugh"],
}
VERBS_WITH_OBJECT = {"one": ["sees", "likes", "follows"], "many": ["see", "like", "follow"]}
ADJECTIVES = ["old", "small", "happy", "quiet"]
PLACES = ["near", "behind", "with"]
ADVERBS = ["here", "again"]

WORDS = [
    END,
    "the",
    "that",
    *ADJECTIVES,
    *PLACES,
    *ADVERBS,
    *[
        word
        for kind in (NOUNS, VERBS, VERBS_WITH_OBJECT)
        for words in kind.values()
        for word in words
    ],
]
LONGEST = 13  # words, as in "the old dogs that the old cat sees follow the old king ."
