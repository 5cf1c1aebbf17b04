"""Lesson 10's training data: a toy English whose entropy is known exactly, and the characters of a
text.

Letters in shapes: `B` batch, `T` tokens, `V` vocabulary. Losses are in nats per word.
"""

import math
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

# A language with few states ---------------------------------------------------------------------

MOST_BELIEFS = 5_000
Rules = Mapping[str, Sequence[tuple[float, Sequence[str], str]]]


class Grammar:
    """A language in which each word depends on a state, which depends on the words so far.

    The number of states is small, so two lowest possible losses can be computed: one for any model,
    and one for models that see only the previous word.

    Args:
        rules: for each state, its choices, each a probability, equally likely words, and a next
            state. The probabilities of a state sum to 1, and each word occurs in only one choice.

    Raises:
        ValueError: the probabilities of a state don't sum to 1, two of the state's choices share a
            word, or a next state has no rules.

    Attributes:
        states, words: names of the S states and the V words, in the order of the rules.
        probability: `(S, V)` float64, the probability of each word in each state.
        after: `(S, V)`, the state after each word in each state.
        often: `(S,)` float64, the frequency of each state in a long text.
    """

    def __init__(self, rules: Rules) -> None:
        _check_rules(rules)
        self.states = list(rules)
        choices = [choice for of_state in rules.values() for choice in of_state]
        self.words = list(dict.fromkeys(word for _, words, _ in choices for word in words))
        S, V = len(self.states), len(self.words)
        self.probability = torch.zeros(S, V, dtype=torch.float64)
        self.after = torch.zeros(S, V, dtype=torch.int64)
        for state, of_state in enumerate(rules.values()):
            for share, words, next_state in of_state:
                ids = [self.words.index(word) for word in words]
                self.probability[state, ids] = share / len(words)
                self.after[state, ids] = self.states.index(next_state)

        # moves[state, word, next state]: the probability of a word together with the next state.
        into = F.one_hot(self.after, S)  # (S, V) -> (S, V, S)
        self._moves = self.probability[:, :, None] * into
        self.often = _stationary(self._moves.sum(dim=1))

    def draw(self, B: int, T: int, seed: int, start: str | None = None) -> Tensor:
        """Draw random texts.

        Args:
            B, T: the number of texts, and the number of words in each.
            seed: a number that determines the texts.
            start: the texts' first state. By default, each text is a window that begins anywhere
                in an endless text.

        Returns:
            Int64 ids `(B, T)`, which are indices into `words`.
        """
        generator = torch.Generator().manual_seed(seed)
        if start is None:
            state = torch.multinomial(self.often, B, replacement=True, generator=generator)  # (B,)
        else:
            state = torch.full((B,), self.states.index(start))
        columns = []
        for _ in range(T):
            word = torch.multinomial(self.probability[state], 1, generator=generator)[:, 0]  # (B,)
            columns.append(word)
            state = self.after[state, word]  # (B,)
        return torch.stack(columns, dim=1)  # T of (B,) -> (B, T)

    def next_word(self, ids: Tensor) -> Tensor:
        """The best possible model's prediction: the probability of each word after each prefix.

        The forward algorithm (Rabiner 1989, section III.A) updates the probability of each state
        after each word. Texts may begin in any state.

        Args:
            ids: word ids `(B, T)`.

        Returns:
            Probabilities `(B, T, V)`, float64; `[b, t]` depends on the words up to and including t.

        Raises:
            ValueError: the grammar doesn't generate a text.
        """
        belief = self.often.expand(len(ids), -1)  # (B, S)
        columns = []
        for word in ids.T:  # T of (B,)
            moves = self._moves[:, word]  # (S, B, S)
            belief = torch.einsum("bs, sbn -> bn", belief, moves)
            likely = belief.sum(dim=1, keepdim=True)  # (B, 1)
            if (likely == 0).any():
                row = int((likely[:, 0] == 0).nonzero()[0])
                text = " ".join(self.words[id] for id in ids[row])
                raise ValueError(f"the grammar doesn't generate {text!r}")
            belief = belief / likely
            columns.append(belief @ self.probability)  # (B, S) @ (S, V) -> (B, V)
        return torch.stack(columns, dim=1)

    def uniform_loss(self) -> float:
        """The loss of a model that considers all words equally likely, log V."""
        return math.log(len(self.words))

    def unigram_loss(self) -> float:
        """The loss of a model that knows only the frequency of each word."""
        return float(_entropy(self.often @ self.probability))

    def pairs(self) -> Tensor:
        """The probability of each pair of neighbouring words in an endless text, `(V, V)`."""
        return torch.einsum("s, svn, nw -> vw", self.often, self._moves, self.probability)

    def bigram_loss(self) -> float:
        """The loss of the best model that sees only the previous word."""
        pairs = self.pairs()
        return float(_entropy(pairs.flatten()) - _entropy(pairs.sum(dim=1)))

    def least_loss(self, T: int) -> float:
        """The lowest possible mean loss on windows of T words that begin anywhere.

        The value is exact, averaged over the T - 1 words that follow another word. Early in a
        window, the state is still unknown, so this loss is above the grammar's
        entropy rate.

        Raises:
            ValueError: T is less than 2, or the words reveal the state so slowly that there are too
                many cases.
        """
        if T < 2:
            raise ValueError(f"windows of {T} have no word to predict: T must be at least 2")
        belief, share = self.often[None], torch.ones(1, dtype=torch.float64)  # (K, S) and (K,)
        losses = []
        for _ in range(T):
            losses.append(float(share @ _entropy(belief @ self.probability)))
            # Each belief leads to one new belief per word; if the words reveal the state, there are
            # only a few distinct beliefs.
            belief = torch.einsum("ks, svn -> kvn", belief, self._moves).flatten(0, 1)  # (K V, S)
            likely = belief.sum(dim=1)  # (K V,)
            share = share.repeat_interleave(len(self.words)) * likely
            heard = likely > 0
            belief = (belief[heard] / likely[heard, None]).round(decimals=12)
            belief, same = belief.unique(dim=0, return_inverse=True)
            share = share.new_zeros(len(belief)).index_add(0, same, share[heard])
            if len(belief) > MOST_BELIEFS:
                raise ValueError(
                    f"more than {MOST_BELIEFS} different beliefs about the state within windows of "
                    f"{T}: too many to count"
                )
        return sum(losses[1:]) / (T - 1)

    def levels(self, T: int) -> dict[str, float]:
        """Four named losses that a training curve passes on the way, for windows of T words."""
        return {
            "log V": self.uniform_loss(),
            "unigram": self.unigram_loss(),
            "bigram": self.bigram_loss(),
            "floor": self.least_loss(T),
        }


def _check_rules(rules: Rules) -> None:
    for state, choices in rules.items():
        total = sum(share for share, _, _ in choices)
        if abs(total - 1) > 1e-9:
            raise ValueError(f"the probabilities of {state!r} sum to {total:g}, not to 1")
        words = [word for _, words, _ in choices for word in words]
        twice = sorted({word for word in words if words.count(word) > 1})
        if twice:
            raise ValueError(f"{state!r} has {twice[0]!r} in two of its choices")
        for _, _, next_state in choices:
            if next_state not in rules:
                raise ValueError(f"{next_state!r}, the next state after {state!r}, has no rules")


def _stationary(moves: Tensor) -> Tensor:
    """The stationary distribution `(S,)` of a transition matrix `(S, S)`."""
    S = len(moves)
    equations = moves.T - torch.eye(S, dtype=moves.dtype)
    equations[-1] = 1.0  # replaces a redundant equation: the probabilities sum to 1
    right = torch.zeros(S, dtype=moves.dtype)
    right[-1] = 1.0
    return torch.linalg.solve(equations, right).clamp(min=0)


def _entropy(probabilities: Tensor) -> Tensor:
    """The entropy of each distribution in nats: `(…, V)` to `(…)`."""
    return torch.special.entr(probabilities).sum(dim=-1)


# The toy English --------------------------------------------------------------------------------

NUMBERS = ("one", "many")
NOUNS = {
    "one": ["cat", "dog", "king", "child"],
    "many": ["cats", "dogs", "kings", "children"],
}
VERBS = {"one": ["sleeps", "sings", "runs"], "many": ["sleep", "sing", "run"]}
VERBS_WITH_OBJECT = {"one": ["sees", "likes"], "many": ["see", "like"]}
ADJECTIVES, PLACES, ADVERBS = ["old", "small"], ["near", "behind"], ["here", "again"]
END = "."


def _rules() -> Rules:
    rules: dict[str, list[tuple[float, Sequence[str], str]]] = {
        "sentence": [(1.0, ["the"], "subject")],
        "subject": [
            (0.25, ADJECTIVES, "subject noun"),
            *((0.375, NOUNS[n], f"subject of {n}") for n in NUMBERS),
        ],
        "subject noun": [(0.5, NOUNS[n], f"subject of {n}") for n in NUMBERS],
        "object": [(1.0, ["the"], "object noun")],
        "object noun": [(0.5, NOUNS[n], "end or adverb") for n in NUMBERS],
        "end or adverb": [(0.7, [END], "sentence"), (0.3, ADVERBS, "end")],
        "end": [(1.0, [END], "sentence")],
    }
    for n in NUMBERS:  # the subject's number, with which its verb must agree, near or far
        rules[f"subject of {n}"] = [
            (0.25, VERBS[n], "end or adverb"),
            (0.15, VERBS_WITH_OBJECT[n], "object"),
            (0.35, PLACES, f"place of {n}"),
            (0.25, ["that"], f"that of {n}"),
        ]
        rules[f"place of {n}"] = [(1.0, ["the"], f"noun at the place of {n}")]
        rules[f"noun at the place of {n}"] = [(0.5, NOUNS[m], f"verb of {n}") for m in NUMBERS]
        rules[f"that of {n}"] = [(1.0, ["the"], f"noun in that of {n}")]
        rules[f"noun in that of {n}"] = [(0.5, NOUNS[m], f"{m} in that of {n}") for m in NUMBERS]
        for m in NUMBERS:
            rules[f"{m} in that of {n}"] = [(1.0, VERBS_WITH_OBJECT[m], f"verb of {n}")]
        rules[f"verb of {n}"] = [
            (0.7, VERBS[n], "end or adverb"),
            (0.3, VERBS_WITH_OBJECT[n], "object"),
        ]
    return rules


toy_english = Grammar(_rules())


def agreement_prefixes() -> tuple[Tensor, Tensor, int, int]:
    """Every text like ". the dogs near the cat", whose nearest noun suggests the wrong verb.

    Returns: Ids `(N, 6)` of `toy_english`; a bool mask `(N, 2, V)` of the verbs that agree with the
        subject and of those that don't; and the positions of the subject and of the nearer noun.
    """
    prefixes, verbs = [], []
    for number, other in (NUMBERS, NUMBERS[::-1]):
        of_number, of_other = (
            [word in VERBS[n] + VERBS_WITH_OBJECT[n] for word in toy_english.words]
            for n in (number, other)
        )
        for subject in NOUNS[number]:
            for place in PLACES:
                for nearer in NOUNS[other]:
                    words = [END, "the", subject, place, "the", nearer]
                    prefixes.append([toy_english.words.index(word) for word in words])
                    verbs.append([of_number, of_other])
    return torch.tensor(prefixes), torch.tensor(verbs), 2, 5


# From text to ids and back ----------------------------------------------------------------------


class Tokenizer:
    """A map from pieces of text to ids; an id is a piece's index in `vocabulary`.

    Args:
        vocabulary: the distinct pieces.
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self.vocabulary = list(vocabulary)
        self._ids = {piece: id for id, piece in enumerate(self.vocabulary)}

    def encode(self, text: str) -> Tensor:
        """Return the `(T,)` int64 ids of a text.

        Raises:
            ValueError: a piece of the text is not in the vocabulary.
        """
        pieces = self._split(text)
        unseen = sorted(set(pieces) - self._ids.keys())
        if unseen:
            known = " ".join(map(repr, self.vocabulary[:5]))
            raise ValueError(
                f"never seen: {' '.join(map(repr, unseen[:5]))}{' …' if len(unseen) > 5 else ''}; "
                f"the vocabulary has {len(self.vocabulary)} pieces: {known} …"
            )
        return torch.tensor([self._ids[piece] for piece in pieces], dtype=torch.int64)

    def decode(self, ids: Tensor) -> str:
        """Return the text of `(T,)` ids.

        Raises:
            ValueError: an id is not in the vocabulary.
        """
        numbers = ids.tolist()
        beyond = [id for id in numbers if not 0 <= id < len(self.vocabulary)]
        if beyond:
            limit = len(self.vocabulary) - 1
            raise ValueError(f"ids must be between 0 and {limit}, got {beyond[0]}")
        return self._join([self.vocabulary[id] for id in numbers])

    def _split(self, text: str) -> list[str]:
        raise NotImplementedError

    def _join(self, pieces: list[str]) -> str:
        raise NotImplementedError


class WordTokenizer(Tokenizer):
    """A tokenizer for words in lower case, with the full stop as a separate word.

    >>> words = WordTokenizer(toy_english.words)
    >>> words.decode(words.encode("The dogs near the cat sleep."))
    'the dogs near the cat sleep.'
    """

    def _split(self, text: str) -> list[str]:
        return text.lower().replace(END, f" {END} ").split()

    def _join(self, pieces: list[str]) -> str:
        return " ".join(pieces).replace(f" {END}", END)


class CharacterTokenizer(Tokenizer):
    """A tokenizer for characters; its vocabulary is the sorted characters of a text.

    Args:
        text: the text that contains the characters.

    Raises:
        ValueError: the text is empty.

    >>> CharacterTokenizer("banana").encode("nab").tolist()
    [2, 0, 1]
    """

    def __init__(self, text: str) -> None:
        if not text:
            raise ValueError("the text is empty: there are no characters to make a vocabulary of")
        super().__init__(sorted(set(text)))

    def _split(self, text: str) -> list[str]:
        return list(text)

    def _join(self, pieces: list[str]) -> str:
        return "".join(pieces)


def read_text(path: str | PathLike[str] | None = None) -> str:
    """Return the text of your file, or the language reference that comes with Python.

    Args:
        path: a text file in UTF-8. The default is the text of `help("topics")`, half a million
            characters, which differs slightly between versions of Python.

    Raises:
        ValueError: the file is empty, or isn't UTF-8.
    """
    if path is None:
        from pydoc_data.topics import topics  # half a megabyte of text, loaded only if needed

        return "\n\n".join(topics[name].strip() for name in sorted(topics))
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not text in UTF-8: byte {error.start} is 0x{error.object[error.start]:02x}"
        ) from None
    if not text.strip():
        raise ValueError(f"{path} is empty: a text of at least some thousand characters is needed")
    return text


def train_and_held_out(ids: Tensor, share: float = 0.1) -> tuple[Tensor, Tensor]:
    """Split a text into training text and held-out text.

    The held-out text is the end of the text, which the model never sees in training.

    Args:
        ids: the ids of the text, `(N,)`.
        share: the fraction of the text that is held out.

    Raises:
        ValueError: the share is not between 0 and 1, or leaves one part empty.
    """
    if not 0 < share < 1:
        raise ValueError(f"share must be between 0 and 1, got {share}")
    held_out = round(len(ids) * share)
    if not 0 < held_out < len(ids):
        raise ValueError(f"{len(ids)} ids can't be cut in two at a share of {share}")
    return ids[:-held_out], ids[-held_out:]
