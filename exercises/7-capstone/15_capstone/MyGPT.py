"""How an answer to `MyGPT` is judged."""

import contextlib
from functools import partial

import torch
from torch import Tensor

from exercises.shared.blocks import block_oracle, network_oracle, norm_oracle, under
from exercises.shared.heads import BUILT_IN
from exercises.shared.many_heads import side_by_side, wrapper_oracle
from exercises.shared.models import (
    ROUNDING,
    TEXT_PROPERTIES,
    TEXTS,
    model_case,
    model_oracle,
    seven_sizes,
)
from whywrong import (
    MODULE_PROPERTIES,
    Draw,
    ModuleProbe,
    Property,
    expect_module,
    fresh,
    near,
    set_seed,
    true_of,
)
from whywrong.probing import part

forbidden = BUILT_IN


def cases(seed):
    draw = Draw(seed)
    case = partial(model_case, draw, state_dict=True)
    return [
        case("three tokens, one head", (1, 3, 5, 1, 9, 3, 1), roles="small", once=True),
        case("random tokens", seven_sizes(draw, layers=2), roles="typical"),
        with_low_scores(
            case("float64, made by name", dtype=torch.float64, by_name=True, once=True)
        ),
        case("as many tokens as fit", (3, 7, 11, 2, 5, 7, 2), roles="small", once=True),
        case("30 texts, four layers", (30, 3, 50, 2, 6, 7, 4), roles="small", once=True),
        case("a long text", (1, 1030, 11, 2, 12, 1031, 1), roles="small", once=True),
        with_small_tokens(case("small tokens", (4, 6, 11, 2, 5, 8, 2), roles="small", once=True)),
    ]


def with_small_tokens(case):
    """Tokens so small that a norm's `eps` counts."""
    for name in ("embed.token.weight", "embed.position.weight"):
        case.options["weights"][name] *= 0.01
    return case


def with_low_scores(case):
    """All scores of block 0 are near -100, so that a mask needs a number below that."""
    weights, heads = case.options["weights"], case.options["heads"]
    weights["blocks.0.norm1.scale"].fill_(1)
    weights["blocks.0.norm1.shift"].fill_(1)  # channels of the normed stream sum to C
    for name, sign in (("query", 1), ("key", -1)):
        weight = weights[f"blocks.0.attention.{name}.weight"]  # (C, C)
        weight += sign * 10 / (len(weight) / heads) ** 0.25 / len(weight)
    return case


# ---------------------------------------------------------------- evidence


def see(make, case, observed):
    """Each part by itself, where it has the course's name; what a new model begins with."""
    if "typical" not in case.roles:
        return
    set_seed(1)  # a parameter too many has the same value in each
    model = make()
    for name, (x, _) in parts_of(case).items():
        alone = part(model, name)
        with contextlib.suppress(Exception), torch.no_grad():
            observed.put_judged(name, alone(fresh(x)))
    with contextlib.suppress(Exception):
        see_names(model, case, observed)
    with contextlib.suppress(Exception):
        see_beginning(type(model)(*case.options["args"]), case, observed)


def kept(model, case):
    """Weights by the course's names, as far as attributes or the state dict give them."""
    state, found = model.state_dict(), {}
    for name in case.options["weights"]:
        value = part(model, name)
        value = value if isinstance(value, Tensor) else state.get(name)
        if isinstance(value, Tensor):
            found[name] = value.detach()
    return found


def see_names(model, case, observed):
    found = kept(model, case)
    for name, weight in case.options["weights"].items():
        if name not in found or not torch.equal(found[name].cpu(), weight):
            observed.facts["not_given_back"] = name
            return


def see_beginning(new, case, observed):
    values = kept(new, case)
    for kind in ("scale", "shift"):
        found = [value.cpu() for name, value in values.items() if name.endswith(f".{kind}")]
        if found:
            observed.put_judged(kind, torch.cat(found))
    tables = [p.detach() for p in new.parameters() if p.dim() > 1]
    if tables:
        observed.put_judged("largest", max(p.abs().max() for p in tables))


probe = ModuleProbe(gradients=(), watch=False, more={"typical": TEXTS}, extra=see)
expect = expect_module(model_oracle, gradients=())


# ---------------------------------------------------------------- what is right of a part


def parts_of(case):
    """By name, what a part is tried on, and what is right for its weights. Every second token is so
    small that a norm's `eps` counts."""
    ids, C, H = case["ids"], case.options["args"][1], case.options["heads"]
    T = ids.shape[1]
    x = torch.randn(2, T, C, generator=torch.Generator().manual_seed(T))
    small = x * torch.where(torch.arange(T) % 2 == 0, 1.0, 0.01)[:, None]
    return {
        "embed": (ids, lambda w: w["token.weight"][ids] + w["position.weight"][:T]),
        **{name: (small, lambda w: norm_oracle(w, small)) for name in NORMS},
        "blocks.0.attention": (x, lambda w: wrapper_oracle(case, side_by_side(w, H), x)),
        "blocks.0.feed_forward": (x, lambda w: network_oracle(w, x)),
        "blocks.0": (x, lambda w: block_oracle(case, w, x)),
        "head": (x, lambda w: x @ w["weight"].mT),
    }


def parts_right(case, observed, *names):
    """Which of these parts are right, of those that could be tried."""
    return [
        near(observed.tensors[f"judged:{name}"], right(under(case.options["weights"], name)), 2e-5)
        for name, (_, right) in parts_of(case).items()
        if name in names and f"judged:{name}" in observed.tensors
    ]


NORMS = ("norm", "blocks.0.norm1", "blocks.0.norm2")
IN_BLOCK = (*NORMS[1:], "blocks.0.attention", "blocks.0.feed_forward")
EVERY = ("embed", *IN_BLOCK, "blocks.0", "norm", "head")
ALONE = "tried by itself, gives what the course's gives"


def right_alone(id, text, *names, but=()):
    """That parts with these names are right by themselves; told only where the whole is wrong.

    Args:
        but: parts that must be right for it to be told.
    """

    def holds(case, observed, expected):
        if near(observed.tensors["out"], expected["out"], 1e-5):
            return None  # then it doesn't matter how the model is cut into parts
        if not all(parts_right(case, observed, *but)):
            return None
        found = parts_right(case, observed, *names)
        return all(found) if found else None

    return Property(id, text, holds, secondary=True, role="typical")


@true_of(
    "Its parts are right by themselves, and joined as they should be",
    secondary=True,
    role="typical",
    breaks="Each part is right by itself, so the mistake is in `MyGPT`'s own `forward`, or in what "
    "it does with the list of blocks",
)
def well_joined(case, observed, expected):
    if near(observed.tensors["out"], expected["out"], 1e-5):
        return None
    found = parts_right(case, observed, *EVERY)
    return False if len(found) == len(EVERY) and all(found) else None


@true_of(
    "In an untrained model norms have a `scale` of 1 and a `shift` of 0, and not all weights are 0",
    secondary=True,
    role="typical",
)
def begins(case, observed, expected):
    for kind, wanted in (("scale", 1.0), ("shift", 0.0)):
        found = observed.tensors.get(f"judged:{kind}")
        if found is not None and not near(found, torch.full_like(found, wanted)):
            return f"have another `{kind}`"
    largest = observed.tensors.get("judged:largest")
    return "have nothing but zeros" if largest is not None and largest == 0 else True


@true_of(
    "The last token does not affect the first",
    gate=True,
    role="typical",
    breaks="The last token affects the first",
)
def hides(case, observed, expected):
    """A mask that begins a column too late does that as well."""
    return near(observed.tensors["long again"][:, 0], observed.tensors["changed"][:, 0])


properties = (
    *TEXT_PROPERTIES,
    hides,
    right_alone("embed_alone", f"Your `embed`, {ALONE}", "embed"),
    right_alone(
        "norms_alone", "Your norms, tried by themselves, give what the course's give", *NORMS
    ),
    right_alone("attention_alone", f"Your `attention`, {ALONE}", "blocks.0.attention"),
    right_alone("network_alone", f"Your `feed_forward`, {ALONE}", "blocks.0.feed_forward"),
    right_alone(
        "block_alone", "Your block joins its parts as the course's does", "blocks.0", but=IN_BLOCK
    ),
    right_alone("head_alone", f"Your `head`, {ALONE}", "head"),
    well_joined,
    begins,
    *MODULE_PROPERTIES,
)


def notes(cases, observed):
    told = [(o.facts.get("not_given_back"), c) for c, o in zip(cases, observed, strict=False)]
    lost = next((name for name, c in told if name in c.options.get("weights", {})), None)
    if lost is None:
        return []
    return [
        f"Your model takes weights by the course's names and doesn't give `{lost}` back: its "
        "`state_dict()` has no such entry, or another value. It costs nothing here. In section 7 "
        "the course's instruments read your weights by these names: a `state_dict` of your own "
        "can give them."
    ]


tolerance = ROUNDING
