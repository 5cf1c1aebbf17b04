"""Right and wrong answers for lesson 17."""

from collections import Counter
from itertools import pairwise

import torch
import torch.nn.functional as F

from course_utils.data import real_text as finished
from course_utils.experiments import real_text as measured


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


def train_on_lists(pieces, num_merges):
    """Counts in a plain dict; the finished `merged`."""
    words, merges = [list(piece) for piece in pieces], {}
    while len(merges) < num_merges:
        counts = {}
        for ids in words:
            for i in range(len(ids) - 1):
                pair = ids[i], ids[i + 1]
                counts[pair] = counts.get(pair, 0) + 1
        if not counts:
            return merges
        best = max(counts, key=lambda pair: counts[pair])
        merges[best] = 256 + len(merges)
        words = [finished.merged(ids, best, merges[best]) for ids in words]
    return merges


def encode_into_a_new_list(piece, merges):
    ids = list(piece)
    for pair, new in sorted(merges.items(), key=lambda merge: merge[1]):
        out = []
        for id in ids:
            # The last id of `out` is old unless it was merged in this round.
            if out and (out[-1], id) == pair:
                out[-1] = new
            else:
                out.append(id)
        ids = out
    return ids


def decode_from_a_list(ids, merges):
    tokens = [bytes([i]) for i in range(256)]
    for (left, right), _ in sorted(merges.items(), key=lambda merge: merge[1]):
        tokens.append(tokens[left] + tokens[right])
    return b"".join(map(tokens.__getitem__, ids))


def bits_row_by_row(logits, targets, lengths):
    nats = F.cross_entropy(logits.mT, targets, reduction="none").sum()
    return (nats / lengths[targets].sum() / torch.log(torch.tensor(2.0))).item()


def scores_by_einsum(weights, pairs):
    chosen = torch.zeros_like(weights[0, 0])
    for query, key in pairs:
        chosen[query, key] = 1
    return torch.einsum("lhqk,qk->lh", weights, chosen) / len(pairs)


def scores_by_flattening(weights, pairs):
    T = weights.shape[-1]
    places = torch.tensor([query * T + key for query, key in pairs], device=weights.device)
    return weights.flatten(2).index_select(2, places).mean(2)


RIGHT = {
    "bracket_scores": {"by einsum": scores_by_einsum, "flattened": scores_by_flattening},
    "train_bpe": {"tuples": train_on_tuples, "a plain dict": train_on_lists},
    "encode": {"by popping": encode_by_popping, "into a new list": encode_into_a_new_list},
    "decode": {"by recursion": decode_by_recursion, "from a list": decode_from_a_list},
    "bits_per_byte": {"bit by bit": bits_of_each, "row by row": bits_row_by_row},
}

WRONG = {
    "bracket_scores": {"of the course": (0, measured.bracket_scores)},
    "train_bpe": {"of the course": (0, finished.train_bpe)},
    "encode": {"of the course": (0, finished.encode)},
    "decode": {"of the course": (0, finished.decode)},
    "bits_per_byte": {"of the course": (0, finished.bits_per_byte)},
}
