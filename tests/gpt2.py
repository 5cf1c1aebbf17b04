"""The GPT-2 of `transformers` in the size of a `TinyLM`, with its parameters under our names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers  # its contents are loaded on demand
from torch import Tensor, nn

from course_utils.language_model import TinyLM


def gpt2_twin(model: TinyLM, **settings: Any) -> transformers.GPT2LMHeadModel:
    """A GPT-2 with the weights of `model`, without biases of query, key and value.

    Args:
        settings: arguments of `GPT2Config`, such as `attn_implementation="eager"`.
    """
    V, C = model.embed.token.weight.shape
    config = transformers.GPT2Config(
        vocab_size=V,
        n_positions=model.context_length,
        n_embd=C,
        n_layer=len(model.blocks),
        n_head=model.blocks[0].attention.num_heads,
        layer_norm_epsilon=model.norm.eps,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        tie_word_embeddings=False,
        use_cache=False,
        bos_token_id=None,
        eos_token_id=None,
        **settings,
    )
    with torch.random.fork_rng(devices=[]):
        twin = transformers.GPT2LMHeadModel(config).to(model.head.weight.dtype)
    theirs = in_our_names(twin)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            theirs[name].copy_(parameter)
    return twin.train(model.training)


def in_our_names(
    twin: transformers.GPT2LMHeadModel,
    of: Callable[[nn.Parameter], Tensor] = lambda parameter: parameter,
) -> dict[str, Tensor]:
    """The result of `of` for each parameter, as views in our shapes, under our names.

    GPT-2 stores its weights as (in, out), used as `x @ W`, with query, key and value concatenated.
    """
    body = twin.transformer
    named = {
        "embed.token.weight": of(body.wte.weight),
        "embed.position.weight": of(body.wpe.weight),
        "norm.scale": of(body.ln_f.weight),
        "norm.shift": of(body.ln_f.bias),
        "head.weight": of(twin.lm_head.weight),
    }
    for i, block in enumerate(body.h):
        width = block.attn.embed_dim
        projections = of(block.attn.c_attn.weight).split(width, dim=1)
        parts = {
            "norm1.scale": of(block.ln_1.weight),
            "norm1.shift": of(block.ln_1.bias),
            "attention.query.weight": projections[0].T,
            "attention.key.weight": projections[1].T,
            "attention.value.weight": projections[2].T,
            "attention.out_proj.weight": of(block.attn.c_proj.weight).T,
            "attention.out_proj.bias": of(block.attn.c_proj.bias),
            "norm2.scale": of(block.ln_2.weight),
            "norm2.shift": of(block.ln_2.bias),
            "feed_forward.expand.weight": of(block.mlp.c_fc.weight).T,
            "feed_forward.expand.bias": of(block.mlp.c_fc.bias),
            "feed_forward.contract.weight": of(block.mlp.c_proj.weight).T,
            "feed_forward.contract.bias": of(block.mlp.c_proj.bias),
        }
        named |= {f"blocks.{i}.{name}": tensor for name, tensor in parts.items()}
    return named
