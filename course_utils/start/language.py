"""A tiny English, made up as it goes, in which a verb agrees with a noun that may be far away.

"the dogs near the cat sleep": who guesses the verb must look past "cat" at "dogs". Every sentence
is drawn word by word from `NEXT_PARTS`, so the probability of each is known, and with it the least
loss that any model can reach (the entropy).
"""

from __future__ import annotations

import math
import random

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
LONGEST = 13  # words: "the old dogs that the old cat sees follow the old king ."


class Sentence:
    """A sentence in the making: its words, and how likely each was given those before."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.words: list[str] = []
        self.log_probability = 0.0  # natural logarithm, of all choices so far

    def choose(self, *options: tuple[str, float]) -> str:
        """One of the options, each with its probability."""
        names, weights = zip(*options, strict=True)
        (name,) = self.chance.choices(names, weights)
        self.log_probability += math.log(dict(options)[name])
        return name

    def say(self, words: list[str]) -> None:
        self.words.append(self.choose(*((word, 1 / len(words)) for word in words)))


def _noun_phrase(sentence: Sentence, depth: int) -> str:
    """Say "the old dogs near the cat" or "the dogs that the cat sees"; its number."""
    sentence.say(["the"])
    if sentence.choose(("plain", 0.75), ("adjective", 0.25)) == "adjective":
        sentence.say(ADJECTIVES)
    number = sentence.choose(("one", 0.5), ("many", 0.5))
    sentence.say(NOUNS[number])
    if depth == 0:
        return number
    more = sentence.choose(("nothing", 0.3), ("place", 0.4), ("that", 0.3))
    if more == "place":
        sentence.say(PLACES)
        _noun_phrase(sentence, depth - 1)
    elif more == "that":
        sentence.say(["that"])
        who = _noun_phrase(sentence, 0)
        sentence.say(VERBS_WITH_OBJECT[who])
    return number


def draw(chance: random.Random) -> Sentence:
    """One sentence, ending in "."."""
    sentence = Sentence(chance)
    number = _noun_phrase(sentence, depth=1)
    if sentence.choose(("alone", 0.7), ("object", 0.3)) == "object":
        sentence.say(VERBS_WITH_OBJECT[number])
        _noun_phrase(sentence, 0)
    else:
        sentence.say(VERBS[number])
        if sentence.choose(("end", 0.7), ("adverb", 0.3)) == "adverb":
            sentence.say(ADVERBS)
    sentence.words.append(END)
    return sentence
