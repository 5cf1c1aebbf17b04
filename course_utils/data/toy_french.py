"""Lesson 12's training data: a toy English and a toy French with a different word order.

In French, adjectives of size come before the noun and those of colour after it, and articles and
adjectives agree with the noun. "not" becomes two words around the verb. A question begins with
"est-ce que", or with "est-ce qu'" before "un" and "une".
"""

import random
from collections.abc import Collection, Sequence
from typing import NamedTuple

from . import Tokenizer

PAD, BOS, EOS = "<pad>", "<bos>", "<eos>"

# Pairs (English, French): a French noun is masculine or feminine; an adjective has both forms.
NOUNS = {
    "cat": ("chat", "m"),
    "dog": ("chien", "m"),
    "boy": ("garçon", "m"),
    "girl": ("fille", "f"),
    "cow": ("vache", "f"),
    "mouse": ("souris", "f"),
}
ARTICLES = {"the": {"m": "le", "f": "la"}, "a": {"m": "un", "f": "une"}}
SIZES = {
    "small": {"m": "petit", "f": "petite"},
    "big": {"m": "grand", "f": "grande"},
    "pretty": {"m": "joli", "f": "jolie"},
}
COLOURS = {
    "black": {"m": "noir", "f": "noire"},
    "white": {"m": "blanc", "f": "blanche"},
    "green": {"m": "vert", "f": "verte"},
    "grey": {"m": "gris", "f": "grise"},
}
# With "I", after "not" and in questions, an English verb has no s; the French verb is unchanged.
VERBS = {"sing": "chante", "dance": "danse", "jump": "saute", "eat": "mange", "play": "joue"}
VERBS_WITH_OBJECT = {
    "watch": "regarde",
    "carry": "porte",
    "find": "trouve",
    "push": "pousse",
    "wash": "lave",
}
THIRD_PERSON = {
    verb: {"watch": "watches", "carry": "carries", "push": "pushes", "wash": "washes"}.get(
        verb, f"{verb}s"
    )
    for verb in (*VERBS, *VERBS_WITH_OBJECT)
}

QUESTIONS = 0.25  # the fraction of questions

# Pairs that the training data leaves out: an adjective and its noun, or "not" and its verb.
UNSEEN = frozenset(
    {
        ("black", "cat"),
        ("small", "dog"),
        ("grey", "boy"),
        ("white", "girl"),
        ("big", "cow"),
        ("green", "mouse"),
        ("not", "jump"),
        ("not", "find"),
    }
)


class Pair(NamedTuple):
    """A sentence in both languages, with the word combinations that it contains."""

    english: str
    french: str
    combinations: frozenset[tuple[str, str]]

    @property
    def unseen(self) -> bool:
        """Whether the pair contains a combination that the training data leaves out."""
        return not self.combinations.isdisjoint(UNSEEN)


class SentenceTokenizer(Tokenizer):
    """A tokenizer for lower-case words and "I", without a final full stop or question mark. The
    ending of a verb is a separate piece, as in "sing -s".

    >>> english.decode(english.encode("The black cat watches a mouse."))
    'the black cat watches a mouse'
    >>> french.decode(french.encode("est-ce qu'un chat danse ?"))
    "est-ce qu'un chat danse"
    """

    def _split(self, text: str) -> list[str]:
        words = [
            "I" if word == "i" else word
            for word in text.lower().rstrip(" .?").replace("'", "' ").split()
        ]
        return [piece for word in words for piece in _PIECES.get(word, [word])]

    def _join(self, pieces: list[str]) -> str:
        text = " ".join(pieces)
        for word, (verb, ending) in _PIECES.items():
            text = text.replace(f"{verb} {ending}", word)
        return text.replace("' ", "'")


ENDING = "-s"
_PIECES = {said: [verb, ENDING] for verb, said in THIRD_PERSON.items()}


def _forms(adjectives: dict[str, dict[str, str]]) -> list[str]:
    return [form for forms in adjectives.values() for form in forms.values()]


english = SentenceTokenizer(
    [
        PAD,
        *ARTICLES,
        "I",
        *("do", "does", "not"),
        *NOUNS,
        *SIZES,
        *COLOURS,
        *THIRD_PERSON,
        ENDING,
    ]
)
french = SentenceTokenizer(
    [
        *(PAD, BOS, EOS),
        *_forms(ARTICLES),
        *("je", "ne", "pas", "est-ce", "que", "qu'"),
        *(noun for noun, _ in NOUNS.values()),
        *_forms(SIZES),
        *_forms(COLOURS),
        *VERBS.values(),
        *VERBS_WITH_OBJECT.values(),
    ]
)
PAD_ID, BOS_ID, EOS_ID = map(french.vocabulary.index, (PAD, BOS, EOS))


def _draw_noun(draw: random.Random) -> tuple[list[str], list[str], set[tuple[str, str]]]:
    """A noun phrase in both languages."""
    article, noun = draw.choice(list(ARTICLES)), draw.choice(list(NOUNS))
    of_noun, gender = NOUNS[noun]
    size = draw.choice(list(SIZES)) if draw.random() < 0.4 else None
    colour = draw.choice(list(COLOURS)) if draw.random() < 0.5 else None
    adjectives = [adjective for adjective in (size, colour) if adjective]
    before = [SIZES[size][gender]] if size else []
    behind = [COLOURS[colour][gender]] if colour else []
    return (
        [article, *adjectives, noun],
        [ARTICLES[article][gender], *before, of_noun, *behind],
        {(adjective, noun) for adjective in adjectives},
    )


def _draw_pair(draw: random.Random) -> Pair:
    if draw.random() < 0.25:
        subject, sujet, combinations, first = ["I"], ["je"], set[tuple[str, str]](), True
    else:
        (subject, sujet, combinations), first = _draw_noun(draw), False
    verb, verbe = draw.choice([*VERBS.items(), *VERBS_WITH_OBJECT.items()])
    do, kind = "do" if first else "does", draw.random()
    if kind < 0.35:
        says, dit = [*subject, do, "not", verb], [*sujet, "ne", verbe, "pas"]
        combinations.add(("not", verb))
    elif kind < 0.35 + QUESTIONS:
        says, dit = (
            [do, *subject, verb],
            ["est-ce", "qu'" if sujet[0][0] == "u" else "que", *sujet, verbe],
        )
    else:
        says, dit = [*subject, verb if first else THIRD_PERSON[verb]], [*sujet, verbe]
    if verb in VERBS_WITH_OBJECT:
        object, objet, more = _draw_noun(draw)
        says, dit, combinations = says + object, dit + objet, combinations | more
    return Pair(" ".join(says), " ".join(dit).replace("' ", "'"), frozenset(combinations))


def draw_pairs(
    count: int, seed: int, unseen: bool = False, without: Collection[Pair] = ()
) -> list[Pair]:
    """Draw distinct random sentences.

    Args:
        count: the number of sentences.
        seed: a number that determines the sentences, on any machine.
        unseen: whether every sentence contains a combination in `UNSEEN`; otherwise, none does.
        without: sentences to leave out.
    """
    draw, taken = random.Random(seed), set(without)
    pairs: list[Pair] = []
    while len(pairs) < count:
        pair = _draw_pair(draw)
        if pair.unseen == unseen and pair not in taken:
            taken.add(pair)
            pairs.append(pair)
    return pairs


def three_sets(
    training: int = 6_000, held_out: int = 1_000
) -> tuple[Sequence[Pair], Sequence[Pair], Sequence[Pair]]:
    """Draw training sentences, unseen sentences with the same combinations, and unseen
    combinations."""
    trained_on = draw_pairs(training, 0)
    unseen_sentences = draw_pairs(held_out, 1, without=trained_on)
    return trained_on, unseen_sentences, draw_pairs(held_out, 2, unseen=True)
