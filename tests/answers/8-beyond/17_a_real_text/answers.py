"""Right and wrong answers for lesson 17."""

from collections import Counter
from itertools import pairwise

import torch
import torch.nn.functional as F

from course_utils.data import real_text as finished


def train_on_tuples(pieces, num_merges):
    """Each distinct piece as a tuple of ids, with its count; the merge by hand."""
    words = Counter(tuple(piece) for piece in pieces)
    merges = {}
    while len(merges) < num_merges:
        pairs = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                pairs[pair] += count
        if not pairs:
            break
        best, new = pairs.most_common(1)[0][0], 256 + len(merges)
        merges[best], shorter = new, Counter()
        for word, count in words.items():
            ids = []
            for id in word:
                if ids and (ids[-1], id) == best:
                    ids[-1] = new
                else:
                    ids.append(id)
            shorter[tuple(ids)] += count
        words = shorter
    return merges


def encode_by_popping(piece, merges):
    ids = list(piece)
    while True:
        found = [(merges[pair], pair) for pair in pairwise(ids) if pair in merges]
        if not found:
            return ids
        new, (left, right) = min(found)
        i = 0
        while i < len(ids) - 1:
            if ids[i] == left and ids[i + 1] == right:
                ids[i] = new
                del ids[i + 1]
            i += 1


def decode_by_recursion(ids, merges):
    pairs = {new: pair for pair, new in merges.items()}

    def spelled(id):
        return bytes([id]) if id < 256 else b"".join(map(spelled, pairs[id]))

    return b"".join(map(spelled, ids))


def bits_of_each(logits, targets, lengths):
    V = logits.shape[-1]
    nats = F.nll_loss(logits.log_softmax(-1).view(-1, V), targets.view(-1), reduction="none")
    bits = nats / torch.log(torch.tensor(2.0))
    return bits.sum().item() / lengths[targets].sum().item()


RIGHT = {
    "train_bpe": {"tuples": train_on_tuples},
    "encode": {"by popping": encode_by_popping},
    "decode": {"by recursion": decode_by_recursion},
    "bits_per_byte": {"bit by bit": bits_of_each},
}

WRONG = {
    "train_bpe": {"of the course": (0, finished.train_bpe)},
    "encode": {"of the course": (0, finished.encode)},
    "decode": {"of the course": (0, finished.decode)},
    "bits_per_byte": {"of the course": (0, finished.bits_per_byte)},
}
