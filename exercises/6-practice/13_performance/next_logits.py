"""How an answer to `next_logits` is judged."""

from functools import partial

import torch
from torch import Tensor

from course_utils.language_model import TinyLM
from exercises.shared.models import model_case, model_oracle
from exercises.shared.pairs import as_pair, kind_of
from whywrong import Case, Draw, Observation, fresh, near, same, set_seed, true_of
from whywrong.probing import class_name, inject

PAIR = "a pair, (logits, caches)"


def cases(seed):
    made = partial(model_case, Draw(seed))

    def case(name, *args, rotary=False, **kwargs):
        """A text whose tokens are given one by one."""
        model = made(name, *args, **kwargs)
        inputs = {"model": f"a TinyLM of {model.options['layers']} blocks"}
        inputs |= {"ids": model["ids"], "caches": "those of the call before", "rotary": rotary}
        options = {n: model.options[n] for n in ("heads", "layers", "dtype", "weights")}
        options |= {"made_of": model.options["args"], "rotary": rotary}
        return Case(name, inputs, options=options, roles=model.roles)

    return [
        case("learned positions, two blocks", (3, 6, 11, 2, 5, 9, 2), roles="typical"),
        case("rotary positions, two blocks", (3, 6, 11, 2, 6, 9, 2), rotary=True, roles="rotary"),
        case("one text, one block", (1, 4, 7, 3, 4, 5, 1), roles="small"),
        case("rotary, one token", (2, 1, 7, 1, 6, 5, 3), rotary=True, roles="small"),
        case(
            "float64, as many tokens as fit",
            (2, 8, 7, 3, 4, 8, 3),
            dtype=torch.float64,
            roles="small",
        ),
        case("float64, rotary", (4, 5, 9, 3, 4, 7, 2), rotary=True, dtype=torch.float64),
    ]


def model_of(case):
    """A model with the weights of a case; it knows nothing of `rotary`."""
    V, C, H, context, L = case.options["made_of"]
    model = TinyLM(V, C, H, context, L).to(case.options["dtype"]).eval()
    inject(model, case.options["weights"])
    return model


def probe(answer, case):
    """The logits of each call, the tokens that it pushed, and two ways on from the same caches."""
    observed, pushed = Observation(), []
    model = model_of(case)
    one = len(case["ids"]) * model.head.weight.shape[1]  # a token of each text, in any shape
    for part in (model.embed.token, *(block.feed_forward for block in model.blocks)):
        part.register_forward_hook(lambda _, given, out: pushed.append(max(1, out.numel() // one)))
    ids, rotary = case["ids"], case["rotary"]
    caches, logits, kept = [], [], []

    def call(tokens, caches):
        set_seed(1)
        with torch.no_grad():
            result = answer(model, tokens, caches, *([True] if rotary else []))
        if isinstance(result, tuple | list) and len(result) == 2 and isinstance(result[0], Tensor):
            return result
        if result is None or result is ...:
            return result, None
        return kind_of("one tensor" if isinstance(result, Tensor) else class_name(result)), None

    for t in range(ids.shape[1]):
        before, copied = caches, fresh_caches(caches)
        out, caches = call(fresh(ids[:, t : t + 1]), caches)
        if not isinstance(out, Tensor):
            observed.put("out", out)
            return as_pair(observed, PAIR, "out")
        kept.append(same(copied, before) if t else True)
        logits.append(out)
    shapes = {tuple(out.shape) for out in logits}
    observed.put("out", torch.stack(logits, dim=1) if len(shapes) == 1 else logits[-1])
    observed.facts["traits"] = {
        "pushed": sorted(set(pushed)),
        "kept": all(kept),
        "caches": len(caches) if isinstance(caches, list | tuple) else 0,
    }
    return as_pair(observed, PAIR, "out")


def fresh_caches(caches):
    """A copy, to see whether a call writes into what it was given."""
    if not isinstance(caches, list | tuple):
        return caches
    return [
        tuple(t.clone() if isinstance(t, Tensor) else t for t in pair)
        if isinstance(pair, list | tuple)
        else pair
        for pair in caches
    ]


def expect(case):
    """All tokens at once, in float64."""
    weights = {name: value.double() for name, value in case.options["weights"].items()}
    with torch.no_grad():
        out = model_oracle(case, weights, case["ids"])
    return {"out": out.to(case.options["dtype"])}


@true_of("The first token's logits are right", credit=True)
def first(case, observed, expected):
    out = observed.tensors["out"]
    return near(out[:, 0], expected["out"][:, 0]) if out.dim() == 3 else None


@true_of("A new token attends to those before it", credit=True, gate=True, role="typical")
def listens(case, observed, expected):
    """The same token after another beginning has other logits."""
    out = observed.tensors["out"]
    alone = model_oracle(case, case.options["weights"], case["ids"][:, -1:])
    return not near(out[:, -1], alone[:, -1]) if out.dim() == 3 else None


@true_of("With learned positions, each call gives what the whole text gives", credit=True)
def learned(case, observed, expected):
    return None if case["rotary"] else near(observed.tensors["out"], expected["out"])


@true_of("With rotary positions, each call gives what the whole text gives", credit=True)
def rotary(case, observed, expected):
    return near(observed.tensors["out"], expected["out"]) if case["rotary"] else None


@true_of("Only the newest token goes through the model", credit=True, role="typical")
def one_token(case, observed, expected):
    return observed.traits["pushed"] == [1]


@true_of("There is one cache for each block", role="typical")
def one_cache_each(case, observed, expected):
    return bool(observed.traits["caches"] == case.options["layers"])


@true_of("The caches that came in stay as they were", secondary=True, role="typical")
def kept(case, observed, expected):
    return observed.traits["kept"]


properties = (listens, first, learned, rotary, one_token, one_cache_each, kept)
