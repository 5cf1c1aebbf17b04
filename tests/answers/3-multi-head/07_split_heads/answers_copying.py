"""Right and wrong answers for lesson 07: copying and counting."""

import math

import torch

PROJECTIONS = ("query", "key", "value")


def copy_row_by_row(wrapper, split):
    D = wrapper.heads[0].query.out_features
    with torch.no_grad():
        for name in PROJECTIONS:
            target = getattr(split, name)
            for h, head in enumerate(wrapper.heads):
                source = getattr(head, name)
                target.weight[h * D : (h + 1) * D] = source.weight
                if target.bias is not None:
                    target.bias[h * D : (h + 1) * D] = 0.0 if source.bias is None else source.bias
        pairs = zip(split.out_proj.parameters(), wrapper.out_proj.parameters(), strict=True)
        for mine, theirs in pairs:
            mine.copy_(theirs)


def copy_by_state_dict(wrapper, split):
    state = {k: v for k, v in split.state_dict().items() if "hidden" not in k}
    given = wrapper.state_dict()
    for name in state:
        if name.startswith("out_proj"):
            state[name] = given[name]
        elif f"heads.0.{name}" in given:
            parts = [given[f"heads.{h}.{name}"] for h in range(split.num_heads)]
            state[name] = torch.cat(parts)
        else:
            state[name] = torch.zeros_like(state[name])
    split.load_state_dict(state, strict=False)


def copy_by_data(wrapper, split):
    """`.data` of memory of its own is no alias."""
    for name in PROJECTIONS:
        target, sources = getattr(split, name), [getattr(h, name) for h in wrapper.heads]
        target.weight.data = torch.cat([s.weight.data for s in sources]).clone()
        if target.bias is not None:
            if sources[0].bias is None:
                target.bias.data.zero_()
            else:
                target.bias.data = torch.cat([s.bias.data for s in sources]).clone()
    split.out_proj.weight.data.copy_(wrapper.out_proj.weight.data)
    split.out_proj.bias.data = wrapper.out_proj.bias.data.clone()


def copy_in_slices(wrapper, split):
    """Into views of the parameters' data, from biases that may be None."""
    for name in PROJECTIONS:
        target = getattr(split, name)
        weights, biases = target.weight.data.chunk(split.num_heads), [None] * split.num_heads
        if target.bias is not None:
            biases = target.bias.data.zero_().chunk(split.num_heads)
        for head, weight, bias in zip(wrapper.heads, weights, biases, strict=True):
            source = getattr(head, name)
            weight[:] = source.weight.data
            if source.bias is not None:
                bias[:] = source.bias.data
    split.out_proj.load_state_dict(wrapper.out_proj.state_dict())


def count_by_loop(module):
    total, seen = 0, set()
    for m in module.modules():
        for p in m._parameters.values():
            if p is not None and p.requires_grad and id(p) not in seen:
                seen.add(id(p))
                total += p.numel()
    return total


def count_by_shape(module):
    return sum(math.prod(p.shape) for _, p in module.named_parameters() if p.requires_grad)


def count_by_id(module):
    trained = [p for p in module.parameters() if p.requires_grad]
    return sum({id(p): p.numel() for p in trained}.values())


def count_by_memory(module):
    return sum({p.data_ptr(): p.numel() for p in module.parameters() if p.requires_grad}.values())


RIGHT = {
    "copy_wrapper_to_split": {
        "row by row": copy_row_by_row,
        "by state_dict": copy_by_state_dict,
        "by data of its own": copy_by_data,
        "in slices": copy_in_slices,
    },
    "count_parameters": {
        "by id": count_by_id,
        "by memory": count_by_memory,
        "loop": count_by_loop,
        "shape": count_by_shape,
    },
}


WRONG = {}
