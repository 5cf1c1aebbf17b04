"""How an answer to `load_gpt2` is judged."""

import torch
import torch.nn.functional as F

from course_utils.todays_models import gpt2_of_size
from whywrong import Case, Draw, Observation, Property, fresh, near, same, set_seed, true_of


def case_of(draw, name, V, C, H, context, L, roles="", dtype=torch.float32, **options):
    """Random parameters under GPT-2's names, as `transformers` keeps them: (in, out)."""

    def layer(name, rows, columns):
        weight = draw.normal(rows, columns, dtype=dtype) / rows**0.5
        return {f"{name}.weight": weight, f"{name}.bias": draw.normal(columns, dtype=dtype) / 3}

    def norm(name):
        scale = 1 + draw.normal(C, dtype=dtype) / 3
        return {f"{name}.weight": scale, f"{name}.bias": draw.normal(C, dtype=dtype) / 3}

    state = {
        "transformer.wte.weight": draw.normal(V, C, dtype=dtype),
        "transformer.wpe.weight": draw.normal(context, C, dtype=dtype) / 2,
    }
    for i in range(L):
        at = f"transformer.h.{i}"
        state |= norm(f"{at}.ln_1") | layer(f"{at}.attn.c_attn", C, 3 * C)
        state |= layer(f"{at}.attn.c_proj", C, C) | norm(f"{at}.ln_2")
        state |= layer(f"{at}.mlp.c_fc", C, 4 * C) | layer(f"{at}.mlp.c_proj", 4 * C, C)
    state |= norm("transformer.ln_f")
    if "stability" in roles:  # as a model without an output layer saves them
        state = {name.removeprefix("transformer."): value for name, value in state.items()}
    else:
        state["lm_head.weight"] = state["transformer.wte.weight"]
    ids = torch.randint(V, (3, context - 1), generator=draw.generator)
    inputs = {"model": f"a TinyLM with biases, of {L} block{'s' * (L > 1)}", "state_dict": state}
    options |= {"made_of": (V, C, H, context, L), "ids": ids, "dtype": dtype}
    return Case(name, inputs, options=options, roles=set(roles.split()))


def cases(seed):
    draw = Draw(seed)
    return [
        case_of(draw, "two blocks", 11, 12, 3, 7, 2, roles="typical"),
        case_of(draw, "one block, one head", 9, 5, 1, 4, 1, roles="small"),
        case_of(draw, "float64, three blocks", 13, 8, 2, 6, 3, dtype=torch.float64),
        case_of(draw, "no prefix, no lm_head", 7, 6, 2, 5, 1, roles="stability"),
    ]


def probe(answer, case):
    """The logits and the parameters afterwards, and what became of the model."""
    observed = Observation()
    set_seed(1)
    model = gpt2_of_size(*case.options["made_of"]).to(case.options["dtype"])
    before = dict(model.named_parameters())
    state = {name: fresh(value) for name, value in case["state_dict"].items()}
    if "lm_head.weight" in state:
        state["lm_head.weight"] = state["transformer.wte.weight"]
    given = {name: value.clone() for name, value in state.items()}
    returned = answer(model, state)
    after = dict(model.named_parameters(remove_duplicate=False))  # head may be the embedding
    kept = {t.untyped_storage().data_ptr() for t in state.values()}
    observed.facts["traits"] = {
        "kept": after.keys() == before.keys() and all(after[n] is before[n] for n in before),
        "shared": any(p.untyped_storage().data_ptr() in kept for p in after.values()),
        "tied": after["head.weight"] is after["embed.token.weight"],
        "asks": all(p.requires_grad and p.is_leaf for p in after.values()),
        "returned": returned is None,
        "state": same(given, state),
    }
    observed.put("returned", returned)
    with torch.no_grad():
        observed.put("out", model.eval()(fresh(case.options["ids"])))
        for name in after if isinstance(after, dict) else ():
            observed.put(name, after[name])
    return observed


def expect(case):
    """The logits by PyTorch's own operators, and our parameters in their shapes."""
    state = {n.removeprefix("transformer."): v.double() for n, v in case["state_dict"].items()}
    _, C, H, _, L = case.options["made_of"]
    ids, wanted = case.options["ids"], {}
    x = F.embedding(ids, state["wte.weight"]) + state["wpe.weight"][: ids.shape[1]]

    def norm(name, mine, x):
        wanted[f"{mine}.scale"], wanted[f"{mine}.shift"] = (
            state[f"{name}.weight"],
            state[f"{name}.bias"],
        )
        return F.layer_norm(x, (C,), state[f"{name}.weight"], state[f"{name}.bias"], 1e-5)

    def linear(name, mine, x):
        wanted[f"{mine}.weight"], wanted[f"{mine}.bias"] = (
            state[f"{name}.weight"].T,
            state[f"{name}.bias"],
        )
        return x @ state[f"{name}.weight"] + state[f"{name}.bias"]

    for i in range(L):
        theirs, ours = f"h.{i}", f"blocks.{i}"
        normed = norm(f"{theirs}.ln_1", f"{ours}.norm1", x)
        weight, bias = (state[f"{theirs}.attn.c_attn.{kind}"] for kind in ("weight", "bias"))
        parts = []
        for n, name in enumerate(("query", "key", "value")):
            own = slice(n * C, (n + 1) * C)
            wanted[f"{ours}.attention.{name}.weight"] = weight[:, own].T
            wanted[f"{ours}.attention.{name}.bias"] = bias[own]
            part = normed @ weight[:, own] + bias[own]
            parts.append(part.unflatten(-1, (H, -1)).transpose(1, 2))
        found = F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).flatten(2)
        x = x + linear(f"{theirs}.attn.c_proj", f"{ours}.attention.out_proj", found)
        normed = norm(f"{theirs}.ln_2", f"{ours}.norm2", x)
        wide = linear(f"{theirs}.mlp.c_fc", f"{ours}.feed_forward.expand", normed)
        wide = F.gelu(wide, approximate="tanh")
        x = x + linear(f"{theirs}.mlp.c_proj", f"{ours}.feed_forward.contract", wide)
    out = norm("ln_f", "norm", x) @ state["wte.weight"].T
    wanted |= {"embed.token.weight": state["wte.weight"], "head.weight": state["wte.weight"]}
    wanted |= {"embed.position.weight": state["wpe.weight"], "out": out}
    return {name: value.contiguous().to(case.options["dtype"]) for name, value in wanted.items()}


def holds(*endings):
    """Whether all parameters with these names are right."""

    def right(case, observed, expected):
        names = [n for n in expected if n.endswith(endings)]
        return all(n in observed.tensors and near(observed.tensors[n], expected[n]) for n in names)

    return right


def _trait(name, wanted):
    return lambda case, observed, expected: observed.traits[name] == wanted


@true_of("The logits are those of GPT-2", credit=True)
def logits(case, observed, expected):
    return near(observed.tensors["out"], expected["out"], 1e-4)


@true_of(
    "Each parameter has the numbers of its entry",
    breaks="Not every parameter has the numbers of its entry",
)
def entries(case, observed, expected):
    wrong = [n for n in expected if n != "out" and not holds(n)(case, observed, expected)]
    return not wrong or f"has others in {', '.join(wrong[:3])}{' …' if wrong[3:] else ''}"


# Each of a block's eight steps rounds a stream of size 5 or so, and the errors add up.
tolerance = {torch.float32: 1e-4, torch.float64: 1e-6}

properties = (
    Property("embeddings", "The embeddings are right", holds("token.weight"), gate=True),
    Property(
        "output", "The output layer is the token embedding", holds("head.weight"), credit=True
    ),
    Property(
        "projections",
        "Query, key and value are the three parts of `c_attn`",
        holds("query.weight", "key.weight", "value.weight", "query.bias", "key.bias", "value.bias"),
        credit=True,
    ),
    Property(
        "networks",
        "The feed-forward networks are right",
        holds("expand.weight", "expand.bias", "contract.weight", "contract.bias"),
        credit=True,
    ),
    entries,
    logits,
    Property(
        "independent",
        "The model and the state dict share no memory",
        _trait("shared", False),
        secondary=True,
        breaks="The model and the state dict share memory: training would change both",
    ),
    Property(
        "same_objects",
        "The `Parameter` objects are the ones that were there",
        _trait("kept", True),
        secondary=True,
        breaks="The `Parameter` objects are no longer those that were there",
    ),
    Property(
        "asks",
        "Each parameter asks for a gradient as before",
        _trait("asks", True),
        secondary=True,
        breaks="Some parameter no longer asks for a gradient",
    ),
    Property("state", "The state dict stays as it was", _trait("state", True), secondary=True),
    Property(
        "returns_none",
        "It works in place and returns None",
        _trait("returned", True),
        secondary=True,
        breaks="It returns something, where it should work in place and return None",
    ),
)
letters = {"model": None, "state_dict": None, "ids": "B T"}
