"""How an answer to `load_llama` is judged."""

from copy import deepcopy

import torch
import torch.nn.functional as F

from course_utils.todays_models import ModernLM
from whywrong import Case, Draw, Observation, Property, fresh, near, same, set_seed, true_of

LAYERS = {
    "self_attn.q_proj": "attention.query.weight",
    "self_attn.k_proj": "attention.key.weight",
    "self_attn.v_proj": "attention.value.weight",
    "self_attn.o_proj": "attention.out_proj.weight",
    "mlp.gate_proj": "feed_forward.gate.weight",
    "mlp.up_proj": "feed_forward.expand.weight",
    "mlp.down_proj": "feed_forward.contract.weight",
    "input_layernorm": "norm1.scale",
    "post_attention_layernorm": "norm2.scale",
}


def case_of(draw, name, sizes, roles="", dtype=torch.float32, **options):
    """`sizes`: V, H, G, D, context_length, L, d_ff. Random parameters under Llama's names."""
    V, H, G, D, context, L, d_ff = sizes
    C = H * D
    shapes = {
        "self_attn.q_proj": (C, C),
        "self_attn.k_proj": (G * D, C),
        "self_attn.v_proj": (G * D, C),
        "self_attn.o_proj": (C, C),
        "mlp.gate_proj": (d_ff, C),
        "mlp.up_proj": (d_ff, C),
        "mlp.down_proj": (C, d_ff),
    }

    def norm():
        return 1 + draw.normal(C, dtype=dtype) / 3

    state = {"model.embed_tokens.weight": draw.normal(V, C, dtype=dtype)}
    for i in range(L):
        for layer, (rows, columns) in shapes.items():
            weight = 1.5 * draw.normal(rows, columns, dtype=dtype) / columns**0.5
            state[f"model.layers.{i}.{layer}.weight"] = weight
        for layer in ("input_layernorm", "post_attention_layernorm"):
            state[f"model.layers.{i}.{layer}.weight"] = norm()
    state["model.norm.weight"] = norm()
    if "stability" in roles:  # as a model without an output layer saves them
        state = {name.removeprefix("model."): value for name, value in state.items()}
    else:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    ids = torch.randint(V, (3, context - 1), generator=draw.generator)
    inputs = {"model": f"a ModernLM of {L} block{'s' * (L > 1)}", "state_dict": state}
    options |= {"made_of": (V, C, H, G, context, L, d_ff), "ids": ids, "dtype": dtype}
    return Case(name, inputs, options=options, roles=set(roles.split()))


def cases(seed):
    draw = Draw(seed)
    return [
        case_of(draw, "two blocks", (11, 4, 2, 6, 9, 2, 29), "typical"),
        case_of(draw, "one block, one head", (9, 1, 1, 10, 7, 1, 23), "small"),
        case_of(draw, "float64, three blocks", (13, 6, 3, 8, 5, 3, 17), dtype=torch.float64),
        case_of(draw, "no prefix, no lm_head", (7, 2, 1, 8, 6, 1, 19), "stability"),
    ]


def probe(answer, case):
    """The logits and the parameters afterwards, and what became of the model."""
    observed = Observation()
    set_seed(1)
    model = ModernLM(*case.options["made_of"]).to(case.options["dtype"])
    before = dict(model.named_parameters())
    state = {name: fresh(value) for name, value in case["state_dict"].items()}
    if "lm_head.weight" in state:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    given = {name: value.clone() for name, value in state.items()}
    returned = answer(model, state)
    after = dict(model.named_parameters())
    kept = {t.untyped_storage().data_ptr() for t in state.values()}
    observed.facts["traits"] = {
        "kept": after.keys() == before.keys() and all(after[n] is before[n] for n in before),
        "shared": any(p.untyped_storage().data_ptr() in kept for p in after.values()),
        "asks": all(p.requires_grad and p.is_leaf for p in after.values()),
        "returned": returned is None,
        "state": same(given, state),
    }
    observed.put("returned", returned)
    with torch.no_grad():
        for name, value in after.items():
            observed.put(name, value)
        # In float64: in float32, the logits of a right answer can differ by more than is allowed.
        wide = deepcopy(model.eval()).double()
        observed.put("out", wide(case.options["ids"]).to(case.options["dtype"]))
    return observed


def rotate(x):
    """Rotary positions as Llama's code has them: channel i turns together with i + D / 2."""
    T, D = x.shape[-2:]
    frequency = 10000.0 ** (-torch.arange(0, D, 2, dtype=x.dtype) / D)
    angles = torch.arange(T, dtype=x.dtype)[:, None] * frequency  # (T, D / 2)
    angles = torch.cat([angles, angles], dim=-1)  # (T, D)
    a, b = x.chunk(2, dim=-1)
    return x * angles.cos() + torch.cat([-b, a], dim=-1) * angles.sin()


def in_pairs(weight, heads):
    """Row 2i of a head is the old row i, and row 2i + 1 the old row i + D / 2."""
    D = len(weight) // heads
    order = [
        h * D + i + part * (D // 2) for h in range(heads) for i in range(D // 2) for part in (0, 1)
    ]
    return weight[order]


def expect(case):
    """The logits by PyTorch's own operators in Llama's layout, and our parameters in ours."""
    state = {n.removeprefix("model."): v.double() for n, v in case["state_dict"].items()}
    _, C, H, G, _, L, _ = case.options["made_of"]
    heads = {"self_attn.q_proj": H, "self_attn.k_proj": G}
    wanted = {"embed.weight": state["embed_tokens.weight"], "norm.scale": state["norm.weight"]}
    for i in range(L):
        for theirs, mine in LAYERS.items():
            weight = state[f"layers.{i}.{theirs}.weight"]
            weight = in_pairs(weight, heads[theirs]) if theirs in heads else weight
            wanted[f"blocks.{i}.{mine}"] = weight

    def norm(name, x):
        return F.rms_norm(x, (C,), state[f"{name}.weight"], 1e-6)

    x = F.embedding(case.options["ids"], state["embed_tokens.weight"])
    for at in (f"layers.{i}" for i in range(L)):
        normed = norm(f"{at}.input_layernorm", x)
        query, key, value = (
            F.linear(normed, state[f"{at}.self_attn.{name}_proj.weight"])
            .unflatten(-1, (n, -1))
            .transpose(1, 2)
            for name, n in (("q", H), ("k", G), ("v", G))
        )
        found = F.scaled_dot_product_attention(
            rotate(query), rotate(key), value, is_causal=True, enable_gqa=True
        )
        x = x + F.linear(found.transpose(1, 2).flatten(2), state[f"{at}.self_attn.o_proj.weight"])
        normed = norm(f"{at}.post_attention_layernorm", x)
        gate, up = (F.linear(normed, state[f"{at}.mlp.{n}_proj.weight"]) for n in ("gate", "up"))
        x = x + F.linear(F.silu(gate) * up, state[f"{at}.mlp.down_proj.weight"])
    wanted["out"] = F.linear(norm("norm", x), state["embed_tokens.weight"])
    return {name: value.contiguous().to(case.options["dtype"]) for name, value in wanted.items()}


def holds(*endings):
    """Whether all parameters with these names are right."""

    def right(case, observed, expected):
        names = [n for n in expected if n.endswith(endings)]
        return all(n in observed.tensors and near(observed.tensors[n], expected[n]) for n in names)

    return right


def _trait(name, wanted):
    return lambda case, observed, expected: observed.traits[name] == wanted


@true_of("The logits are those of Llama", credit=True)
def logits(case, observed, expected):
    return near(observed.tensors["out"], expected["out"], 1e-4)


@true_of(
    "Each parameter has the numbers of its entry",
    breaks="Not every parameter has the numbers of its entry",
)
def entries(case, observed, expected):
    wrong = [n for n in expected if n != "out" and not holds(n)(case, observed, expected)]
    return not wrong or f"has others in {', '.join(wrong[:3])}{' …' if wrong[3:] else ''}"


properties = (
    Property("embedding", "The embedding is right", holds("embed.weight"), gate=True),
    Property(
        "rotated",
        "The rows of queries and keys are in the order that `apply_rope` expects",
        holds("query.weight", "key.weight"),
        credit=True,
    ),
    Property(
        "networks",
        "The feed-forward networks are right",
        holds("gate.weight", "expand.weight", "contract.weight"),
        credit=True,
    ),
    Property("norms", "The norms are right", holds(".scale"), credit=True),
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
