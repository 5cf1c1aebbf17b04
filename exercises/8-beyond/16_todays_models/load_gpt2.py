"""How an answer to `load_gpt2` is judged."""

import torch

from course_utils.todays_models import gpt2_of_size
from exercises.shared.heads import PROJECTIONS
from exercises.shared.loading import (
    LOADED,
    entries,
    expect_loaded,
    holds,
    loading_case,
    loading_probe,
    right_logits,
)
from exercises.shared.models import model_oracle, model_weights
from whywrong import Draw, Property

# GPT-2's names of a block's parts.
PARTS = {
    "norm1": "ln_1",
    "attention.out_proj": "attn.c_proj",
    "norm2": "ln_2",
    "feed_forward.expand": "mlp.c_fc",
    "feed_forward.contract": "mlp.c_proj",
}


def published(mine, layers):
    """Our parameters as `transformers` keeps them: matrices are (in, out), and query, key and value
    are in one."""

    def norm(theirs, ours):
        return {f"{theirs}.weight": mine[f"{ours}.scale"], f"{theirs}.bias": mine[f"{ours}.shift"]}

    def layer(theirs, *ours):
        matrix = torch.cat([mine[f"{name}.weight"].T for name in ours], dim=1)
        bias = torch.cat([mine[f"{name}.bias"] for name in ours])
        return {f"{theirs}.weight": matrix, f"{theirs}.bias": bias}

    state = {"wte.weight": mine["embed.token.weight"], "wpe.weight": mine["embed.position.weight"]}
    for i in range(layers):
        ours, theirs = f"blocks.{i}", f"h.{i}"
        for name, theirs_name in PARTS.items():
            made = norm if name.startswith("norm") else layer
            state |= made(f"{theirs}.{theirs_name}", f"{ours}.{name}")
        state |= layer(f"{theirs}.attn.c_attn", *(f"{ours}.attention.{n}" for n in PROJECTIONS))
    return state | norm("ln_f", "norm")


def case_of(draw, name, V, C, H, context, L, roles="", dtype=torch.float32):
    wanted = model_weights(draw, V, C, context, L, dtype, qkv_bias=True)
    wanted["head.weight"] = wanted["embed.token.weight"]
    model = f"a TinyLM with biases, of {L} block{'s' * (L > 1)}"
    arguments = {"vocab_size": V, "d_model": C, "num_heads": H, "context_length": context}
    arguments["num_layers"] = L
    state = published(wanted, L)
    return loading_case(
        draw, name, model, arguments, wanted, state, "transformer", roles, heads=H, layers=L
    )


def cases(seed):
    draw = Draw(seed)
    return [
        case_of(draw, "two blocks", 11, 12, 3, 7, 2, roles="typical"),
        case_of(draw, "one block, one head", 9, 5, 1, 4, 1, roles="small"),
        case_of(draw, "float64, three blocks", 13, 8, 2, 6, 3, dtype=torch.float64),
        case_of(draw, "no prefix, no lm_head", 7, 6, 2, 5, 1, roles="stability"),
    ]


def logits(case, ids):
    mine = {name: value.double() for name, value in case.options["wanted"].items()}
    return model_oracle(case, mine, ids)


probe = loading_probe(gpt2_of_size)
expect = expect_loaded(logits)

properties = (
    Property("embeddings", "The embeddings are right", holds("token.weight"), gate=True),
    Property(
        "output", "The output layer is the token embedding", holds("head.weight"), credit=True
    ),
    Property(
        "projections",
        "Query, key and value are the three parts of `c_attn`",
        holds(*(f"{name}.{kind}" for name in PROJECTIONS for kind in ("weight", "bias"))),
        credit=True,
    ),
    Property(
        "networks",
        "The feed-forward networks are right",
        holds("expand.weight", "expand.bias", "contract.weight", "contract.bias"),
        credit=True,
    ),
    entries,
    Property("logits", "The logits are those of GPT-2", right_logits, credit=True),
    *LOADED,
)
letters = {"state_dict": None}
