"""Right and wrong answers for lesson 12."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from course_utils import transformer
from course_utils import translation as finished

# ---------------------------------------------------------------- teacher_forcing


def forcing_by_roll(targets, bos_id):
    moved = targets.roll(1, dims=1)
    moved[:, 0] = bos_id
    return moved


def forcing_in_place(targets, bos_id):
    out = torch.full_like(targets, bos_id)
    out[:, 1:] = targets[:, :-1]
    return out


def forcing_by_list(targets, bos_id):
    rows = [[bos_id, *row[:-1]] for row in targets.tolist()]
    return torch.tensor(rows, device=targets.device)


def forcing_by_pad(targets, bos_id):
    return F.pad(targets, (1, -1), value=bos_id)


def forcing_by_index(targets, bos_id):
    T = targets.shape[1]
    places = (torch.arange(T, device=targets.device) - 1).clamp(min=0)
    first = torch.arange(T, device=targets.device) == 0
    return torch.where(first, bos_id, targets[:, places])


FORCING_WRONG = {
    "bos is 1": (0, lambda targets, bos_id: F.pad(targets, (1, -1), value=1)),
    "first row alone": (0, lambda targets, bos_id: F.pad(targets[:1], (1, -1), value=bos_id)),
}


# ---------------------------------------------------------------- Translator


class TranslatorByStages(nn.Module):
    """Embedded texts are dropped too; both stacks are called by one method."""

    def __init__(
        self, source_vocab_size, target_vocab_size, d_model, num_heads, d_ff, num_layers,
        context_length, dropout=0.0,
    ):  # fmt: skip
        super().__init__()
        C, H = d_model, num_heads
        self.encoder, self.decoder = nn.ModuleList(), nn.ModuleList()
        while len(self.encoder) < num_layers:
            self.encoder.append(transformer.EncoderBlock(C, H, d_ff, dropout=dropout))
            self.decoder.append(transformer.DecoderBlock(C, H, d_ff, context_length, dropout))
        self.embed_source = transformer.TokenAndPosition(source_vocab_size, context_length, C)
        self.embed_target = transformer.TokenAndPosition(target_vocab_size, context_length, C)
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(C, target_vocab_size, bias=False)

    def through(self, blocks, x, *given):
        for block in blocks:
            x = block(x, *given)
        return x

    def forward(self, source, decoder_input, source_pad_mask=None):
        read = self.through(self.encoder, self.drop(self.embed_source(source)), source_pad_mask)
        x = self.drop(self.embed_target(decoder_input))
        return self.head(self.through(self.decoder, x, read, None, source_pad_mask))


class TranslatorWithMoreDropout(TranslatorByStages):
    """A search can read once and write many times."""

    def encode(self, source, source_pad_mask=None):
        return self.through(self.encoder, self.drop(self.embed_source(source)), source_pad_mask)

    def decode(self, decoder_input, context, source_pad_mask=None):
        x = self.embed_target(decoder_input)
        for block in self.decoder:
            x = block(x, context=context, context_pad_mask=source_pad_mask)
        return self.head(self.drop(x))

    def forward(self, source, decoder_input, source_pad_mask=None):
        context = self.encode(source, source_pad_mask)
        return self.decode(decoder_input, context, source_pad_mask)


# ---------------------------------------------------------------- greedy_translate


def quietly(function):
    """Evaluation mode and no gradients around a function of a model."""

    def run(model, *args, **named):
        was_training = model.training
        model.eval()
        with torch.no_grad():
            out = function(model, *args, **named)
        model.train(was_training)
        return out

    return run


def _named(function, names):
    """A function with these argument names, as it is called by name."""
    space = {"function": function}
    exec(f"def answer({names}):\n    return function({names.replace('=None', '')})", space)
    return space["answer"]


GREEDY_NAMES = "model, source, bos_id, eos_id, max_length, source_pad_mask=None"
BEAM_NAMES = "model, source, bos_id, eos_id, max_length, beam_width"


def greedy(function):
    return _named(quietly(function), GREEDY_NAMES)


def greedy_in_a_batch(model, source, bos_id, eos_id, max_length, source_pad_mask=None):
    was_training = model.training
    model.eval()
    text = torch.full((len(source), 1), bos_id, device=source.device)
    going = torch.ones(len(source), dtype=torch.bool, device=source.device)
    with torch.inference_mode():
        while text.shape[1] <= max_length and going.any():
            word = model(source, text, source_pad_mask)[:, -1].argmax(-1)
            text = torch.cat([text, torch.where(going, word, eos_id)[:, None]], 1)
            going = going & (word != eos_id)
    model.train(was_training)
    return text[:, 1:].clone()


def _row_by_row(model, source, bos_id, eos_id, max_length, source_pad_mask=None):
    texts = []
    for b in range(len(source)):
        text = [bos_id]
        mask = None if source_pad_mask is None else source_pad_mask[b : b + 1]
        for _ in range(max_length):
            given = torch.tensor([text], device=source.device)
            text.append(int(model(source[b : b + 1], given, mask)[0, -1].argmax()))
            if text[-1] == eos_id:
                break
        texts.append(text[1:])
    longest = max(len(text) for text in texts)
    rows = [text + [eos_id] * (longest - len(text)) for text in texts]
    return torch.tensor(rows, device=source.device)


def _only_those_going(model, source, bos_id, eos_id, max_length, source_pad_mask=None):
    """Rows that have ended leave the batch."""
    out = source.new_full((len(source), max_length + 1), eos_id)
    out[:, 0] = bos_id
    rows = torch.arange(len(source), device=source.device)
    t = 0
    while len(rows) and t < max_length:
        mask = None if source_pad_mask is None else source_pad_mask[rows]
        word = model(source[rows], out[rows, : t + 1], mask)[:, -1].argmax(dim=-1)
        t += 1
        out[rows, t] = word
        rows = rows[word != eos_id]
    return out[:, 1 : t + 1]


def _cut_back(model, source, bos_id, eos_id, max_length, source_pad_mask=None):
    """Writes to the end, whatever comes; the words after an end are overwritten at last."""
    text = source.new_full((len(source), 1), bos_id)
    for _ in range(max_length):
        word = model(source, text, source_pad_mask)[:, -1].argmax(-1, keepdim=True)
        text = torch.cat([text, word], 1)
    text = text[:, 1:]
    ends = (text == eos_id).int()
    after = ends.cumsum(1) - ends > 0
    return text.masked_fill(after, eos_id)[:, : int((~after).sum(1).max())]


def _fixed_room(model, source, bos_id, eos_id, max_length, source_pad_mask=None):
    """Room for all words first; what isn't written yet can't be seen by those before."""
    text = source.new_full((len(source), max_length + 1), eos_id)
    text[:, 0] = bos_id
    for t in range(max_length):
        word = model(source, text[:, :-1], source_pad_mask)[:, t].argmax(-1)
        ended = (text[:, 1 : t + 1] == eos_id).any(1)
        text[:, t + 1] = torch.where(ended, eos_id, word)
        if (text[:, 1 : t + 2] == eos_id).any(1).all():
            return text[:, 1 : t + 2]
    return text[:, 1:]


# ---------------------------------------------------------------- beam_translate


def beam(function):
    return _named(quietly(function), BEAM_NAMES)


def _logs(model, source, bos_id, ids):
    given = torch.tensor([[bos_id, *ids]], device=source.device)
    return model(source, given)[0, -1].log_softmax(-1).tolist()


def make_beam(
    treatment="set aside",
    logs=_logs,
    score=lambda total, ids: total / len(ids),
    choose=max,
    answer=lambda source, ids: torch.tensor([ids], device=source.device),
):
    """Beam search with pairs; `treatment` says what becomes of texts that have ended."""

    def function(model, source, bos_id, eos_id, max_length, beam_width):
        going, done = [(0.0, ())], []
        for _ in range(max_length):
            longer = [
                (total + log, (*ids, word))
                for total, ids in going
                for word, log in enumerate(logs(model, source, bos_id, ids))
            ]
            if treatment == "compete":
                longer += done
            if treatment == "stays full":
                ordered = sorted(longer, reverse=True)
                done += [h for h in ordered[:beam_width] if h[1][-1] == eos_id]
                going = [h for h in ordered if h[1][-1] != eos_id][:beam_width]
                if len(done) >= beam_width:
                    break
                continue
            room = beam_width - len(done) if treatment == "shrinks" else beam_width
            best = sorted(longer, reverse=True)[:room]
            ended = [h for h in best if h[1][-1] == eos_id]
            done = ended if treatment == "compete" else done + ended
            going = [h for h in best if h[1][-1] != eos_id]
            if not going:
                break
        _, ids = choose((score(total, ids), ids) for total, ids in done + going)
        return answer(source, list(ids))

    return beam(function)


def _by_tensors(model, source, bos_id, eos_id, max_length, beam_width):
    text, sums = source.new_tensor([[bos_id]]), torch.zeros(1, device=source.device)
    best, best_score = None, -math.inf
    for step in range(1, max_length + 1):
        logits = model(source.repeat(len(text), 1), text)[:, -1]
        longer = sums.unsqueeze(1) + torch.log_softmax(logits, -1)
        V = longer.shape[1]
        sums, places = longer.reshape(-1).topk(min(beam_width, longer.numel()))
        rows = torch.div(places, V, rounding_mode="floor")
        text = torch.cat([text[rows], (places % V)[:, None]], 1)
        ended = text[:, -1] == eos_id
        over = torch.ones_like(ended) if step == max_length else ended
        for i in over.nonzero()[:, 0].tolist():
            if sums[i].item() / step > best_score:
                best_score, best = sums[i].item() / step, text[i : i + 1, 1:]
        text, sums = text[~ended], sums[~ended]
        if not len(text):
            break
    return best


def _products(model, source, bos_id, eos_id, max_length, beam_width):
    """Products in float64, which are small and not yet 0."""
    going, done = [(1.0, [])], []
    for _ in range(max_length):
        longer = []
        for p, ids in going:
            shares = model(source, source.new_tensor([[bos_id, *ids]]))[0, -1].double().softmax(-1)
            longer += [(p * share, [*ids, word]) for word, share in enumerate(shares.tolist())]
        longer.sort(reverse=True)
        done += [h for h in longer[:beam_width] if h[1][-1] == eos_id]
        going = [h for h in longer[:beam_width] if h[1][-1] != eos_id]
        if not going:
            break
    best = max(done + going, key=lambda h: math.log(h[0]) / len(h[1]))
    return source.new_tensor([best[1]])


# ---------------------------------------------------------------- quizzes

RECALL = {
    "keys and values come from": "the encoder",
    "two words swapped": "not at all",
    "5 added to a row of scores": "stay the same",
}
REASONS = {
    "input for [9, eos, pad, pad]": [1, 9, 2, 0],
    "probability that greedy finds": 0.5 * 0.2,
    "probability that width 2 finds": 0.4 * 0.6,
    "score of words of 0.5, 0.5 and 0.25": math.log(0.0625) / 3,
    "loss without the shift, near": 0,
    "decoder calls to learn from 7 words": 1,
    "decoder calls to write 7 words": 7,
    "likelier, and a worse translation": "The model",
}
RIGHT = {
    "teacher_forcing": {
        "roll": forcing_by_roll,
        "in place": forcing_in_place,
        "list": forcing_by_list,
        "pad": forcing_by_pad,
        "index": forcing_by_index,
    },
    "Translator": {"by stages": TranslatorByStages, "more dropout": TranslatorWithMoreDropout},
    "greedy_translate": {
        "batch": greedy_in_a_batch,
        "row by row": greedy(_row_by_row),
        "only those going": greedy(_only_those_going),
        "cut back": greedy(_cut_back),
        "fixed room": greedy(_fixed_room),
    },
    "beam_translate": {
        "pairs": make_beam(),
        "ended texts compete": make_beam("compete"),
        "tensors": beam(_by_tensors),
        "products in float64": beam(_products),
    },
    "recall_12": {"as asked": RECALL, "capitals": {k: v.capitalize() for k, v in RECALL.items()}},
    "translation_reasons": {
        "computed": REASONS,
        "rounded": REASONS | {"score of words of 0.5, 0.5 and 0.25": -0.924},
        "two decimals": REASONS | {"score of words of 0.5, 0.5 and 0.25": -0.92},
    },
}


def padding_is_0(model, batches, pad_id, learning_rate):
    """Whatever `pad_id` is."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    losses = []
    model.train()
    for i, (source, source_pad_mask, decoder_input, targets) in enumerate(batches):
        optimizer.param_groups[0]["lr"] = learning_rate * (1 - i / len(batches))
        logits = model(source, decoder_input, source_pad_mask)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


WRONG = {
    "teacher_forcing": FORCING_WRONG,
    "train_translator": {"padding is 0": (0.5625, padding_is_0)},
    "Translator": {"of the course": (0, finished.Translator)},
    "beam_translate": {
        "the beam shrinks": (0.25, make_beam("shrinks")),
        "the beam stays full": (0.25, make_beam("stays full")),
    },
    "translation_reasons": {
        "bos missing": (0.75, REASONS | {"input for [9, eos, pad, pad]": (9, 2, 0, 0)}),
        "sum and greedy": (
            0.75,
            REASONS
            | {
                "score of words of 0.5, 0.5 and 0.25": -2.77,
                "probability that width 2 finds": 0.1,
            },
        ),
    },
}
