"""A simulated GPU: tensors remember whether they were moved to it.

The numbers stay in the CPU's memory. It behaves like a real GPU: tensors on two devices can't be
mixed, NumPy can't read a GPU tensor, and results stay on the GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

GPU = torch.device("cuda:0")
MOVES = {Tensor.to: None, Tensor.cpu: "cpu", Tensor.cuda: "cuda"}
READS = {Tensor.numpy, Tensor.__array__}
SHOWS = {Tensor.__repr__, Tensor.__format__}
# These take tensors on two devices: to copy, to index with a CPU tensor, or for a shape.
MIXES = {Tensor.copy_, Tensor.data.__set__, Tensor.__getitem__, Tensor.__setitem__}
ASKS_NOTHING = {torch._C._nn._parse_to, torch._has_compatible_shallow_copy_type}


def is_there(value: Any) -> bool:
    return getattr(value, "_is_there", False)


def put_there(results: Any) -> Any:
    for tensor in tensors(results):
        tensor._is_there = True
    return results


def tensors(*values: Any) -> list[Tensor]:
    """All tensors inside these values; every operator calls this, so it builds only the list."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += tensors(*value)
        elif isinstance(value, dict):
            found += tensors(*value.values())
    return found


def is_gpu(value: Any) -> bool:
    return isinstance(value, str | torch.device) and torch.device(value).type == "cuda"


class PretendGPU(TorchFunctionMode):
    """While active, `device="cuda"` works; `used` counts the operators that ran there, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.used: Counter[str] = Counter()

    def __torch_function__(
        self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if function in ASKS_NOTHING:
            return function(*args, **kwargs)
        if function in MOVES:
            return self.moved(function, args, kwargs)
        if function == Tensor.device.__get__:
            return GPU if is_there(args[0]) else function(*args)
        given = tensors(args, kwargs)
        if not any(map(is_there, given)):
            if not is_gpu(kwargs.get("device")):
                return function(*args, **kwargs)
            return put_there(function(*args, **{**kwargs, "device": "cpu"}))
        if function is Tensor.expand_as:
            return (
                args[0].expand(args[1].shape)
                if not is_there(args[0])
                else put_there(function(*args))
            )
        if function in READS:
            raise TypeError("can't convert cuda:0 device type tensor to numpy: use .cpu() first")
        self.refuse_a_mixture(function, given)
        asked = kwargs.pop("device", GPU)
        result = function(*args, **kwargs)
        if function in SHOWS and args[0].ndim:
            return result[:-1] + ", device='cuda:0')"
        if not is_gpu(asked):
            return result
        self.used[function.__name__] += 1
        if function == Tensor.data.__set__:
            args[0]._is_there = is_there(args[1])
        return put_there(result)

    def refuse_a_mixture(self, function: Any, given: Iterable[Tensor]) -> None:
        # A single number on the CPU is accepted, as by a real GPU.
        with_shape = {is_there(tensor) for tensor in given if tensor.ndim or is_there(tensor)}
        if len(with_shape) > 1 and function not in MIXES:
            raise RuntimeError(
                f"{function.__name__}: expected all tensors to be on the same device, but found at "
                "least two devices, cuda:0 and cpu"
            )

    def moved(self, function: Any, args: tuple, kwargs: dict) -> Tensor:
        """A tensor moved to a device, or converted to another dtype in place."""
        tensor, *rest = args
        wanted = MOVES[function] or kwargs.get("device")
        dtype = kwargs.get("dtype") or tensor.dtype
        for value in rest:
            if isinstance(value, Tensor):
                wanted, dtype = GPU if is_there(value) else "cpu", value.dtype
            elif isinstance(value, str | torch.device):
                wanted = value
            elif isinstance(value, torch.dtype):
                dtype = value
        if wanted is not None and torch.device(wanted).type not in ("cpu", "cuda"):
            return function(*args, **kwargs)
        result = tensor.to(dtype)
        to_gpu = is_there(tensor) if wanted is None else is_gpu(wanted)
        if to_gpu != is_there(tensor) and result is tensor:
            result = tensor.clone()
        if to_gpu and result is not tensor:
            put_there(result)
        return result
