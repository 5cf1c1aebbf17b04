"""Families of wrong answers that are right for special inputs: none passes anywhere.

Each is an edit of the right answer, tried in every exercise in which it can occur.
"""

import pytest

from tools.matrix import SEED, Cell
from whywrong.hosting import catalogue

COURSE = catalogue()
MODE = [("model.eval()", "model.training = False")]
BACK = [("model.train(was_training)", "model.training = was_training")]
BY_HAND = [("with torch.no_grad():", "torch.set_grad_enabled(False)\n    if True:")]
ON_AGAIN = "torch.set_grad_enabled(True)\n    return"
WRITERS = ["generate", "greedy_translate", "beam_translate", "patient_h"]


def edited(id, *edits):
    source = COURSE.find(id).right.source
    for old, new in edits:
        assert old in source, (id, old)
        source = source.replace(old, new)
    return source


def squeezed(id):
    """The right answer without the dimensions of size 1 in its result."""
    e = COURSE.find(id)
    head, inner = "def squeezed(*args, **named):", f"{id}(*args, **named)"
    if e.kind == "class":
        head = f"class Squeezed({id}):\n    def forward(self, *args, **named):"
        inner = "super().forward(*args, **named)"
    return f"{e.right.source}\n\n{head}\n        return {inner}.squeeze()\n"


TENSORS = [
    e.id
    for e in COURSE
    if e.kind != "quiz" and e.returns == "Tensor" and e.id not in ("make_mha", "next_token_loss")
]
KEPT = (
    "query = self.query(x)",
    "self.kept = self.kept if hasattr(self, 'kept') else self.query.weight.clone()\n"
    "        query = x @ self.kept.T",
)

FAMILIES = {
    **{f"a stray squeeze, {id}": (id, squeezed(id)) for id in TENSORS},
    **{f"one module's mode, {id}": (id, edited(id, *MODE)) for id in WRITERS},
    **{f"one module's mode back, {id}": (id, edited(id, *BACK)) for id in WRITERS},
    **{
        f"training for one module, {id}": (
            id,
            edited(id, ("model.train()", "model.training = True")),
        )
        for id in ("training_step", "patient_d")
    },
    **{
        f"gradients switched on at the end, {id}": (id, edited(id, *BY_HAND, ("return", ON_AGAIN)))
        for id in ("generate", "greedy_translate", "patient_h")
    },
    **{
        f"causal where {where}": (
            "CrossAttention",
            edited(
                "CrossAttention",
                (
                    "weights = attention.safe_masked_softmax(scores, hidden)",
                    f"if {condition}:\n"
                    "            hidden = hidden | attention.causal_mask(scores.shape[-1])\n"
                    "        weights = attention.safe_masked_softmax(scores, hidden)",
                ),
            ),
        )
        for where, condition in (
            ("T = S", "scores.shape[-1] == scores.shape[-2]"),
            ("both texts are one", "x is context"),
        )
    },
    "a square mask taken for the causal one": (
        "sdpa_attention",
        "def sdpa_attention(query, key, value, hidden=None):\n"
        "    if hidden is not None and hidden.shape[-1] == hidden.shape[-2]:\n"
        "        return F.scaled_dot_product_attention(query, key, value, is_causal=True)\n"
        "    seen = None if hidden is None else ~hidden\n"
        "    return F.scaled_dot_product_attention(query, key, value, attn_mask=seen)\n",
    ),
    **{
        f"padding ignored where there is one text, {id}": (
            id,
            edited(id, (f"{mask} is not None:", f"{mask} is not None and len(x) > 1:")),
        )
        for id, mask in (
            ("PaddedCausalSelfAttention", "pad_mask"),
            ("MultiHeadAttention", "pad_mask"),
            ("CrossAttention", "context_pad_mask"),
        )
    },
    **{
        f"padding handed on to several texts alone, {id}": (
            id,
            edited(id, ("pad_mask)", "pad_mask if len(x) > 1 else None)")),
        )
        for id in ("MultiHeadAttentionWrapper", "TransformerBlock", "EncoderBlock")
    },
    "angles in the dtype of x": (
        "apply_rope",
        edited("apply_rope", ('"dtype": torch.float64', '"dtype": x.dtype')),
    ),
    "top_p ignored beside top_k": (
        "next_token_probabilities",
        edited(
            "next_token_probabilities",
            ("if top_p is not None:", "if top_p is not None and top_k is None:"),
        ),
    ),
    "windows looked up by value": (
        "sliding_windows",
        "def sliding_windows(ids, length, stride):\n"
        "    values = ids.tolist()\n"
        "    firsts = [values.index(v) for v in values[: len(ids) - length : stride]]\n"
        "    inputs = torch.stack([ids[s : s + length] for s in firsts])\n"
        "    targets = torch.stack([ids[s + 1 : s + 1 + length] for s in firsts])\n"
        "    return inputs, targets\n",
    ),
    "the first group alone": (
        "training_step",
        edited(
            "training_step",
            (
                "optimizer.zero_grad()",
                "for p in optimizer.param_groups[0]['params']:\n        p.grad = None",
            ),
        ),
    ),
    "parameters kept from the first call": (
        "CausalSelfAttention",
        edited("CausalSelfAttention", KEPT),
    ),
    "length to the power of 0.7": (
        "beam_translate",
        edited("beam_translate", ("text[1] / len(text[0])", "text[1] / len(text[0]) ** 0.7")),
    ),
}


@pytest.mark.parametrize("id, source", FAMILIES.values(), ids=FAMILIES)
def test_none_passes(id, source):
    exercise = COURSE.find(id)
    space = dict(exercise.right.names.values)
    known = set(space)
    exec(compile(source, "<answer>", "exec"), space)
    answer = [value for name, value in space.items() if name not in known][-1]
    report = Cell(exercise, answer, "family", id, "wrong").with_seed(SEED)  # without naming
    assert not report.passed and report.behaviours, report
