"""Shared by tests against PyTorch's own operators: numbers, weights, gradients, tolerances."""

import math

import pytest
import torch
from torch import Tensor, nn

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}

both_dtypes = pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "float64"])
with_and_without_bias = pytest.mark.parametrize("qkv_bias", [False, True], ids=["no-bias", "bias"])


def assert_equal(actual: Tensor | None, expected: Tensor | None) -> None:
    assert actual is not None and expected is not None
    tolerance = TOLERANCE[expected.dtype]
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def numbers(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=dtype, generator=generator).requires_grad_()


def weigh(module: nn.Module, dtype: torch.dtype, seed: int = 1) -> nn.Module:
    """Give a module reproducible weights of unit gain."""
    generator = torch.Generator().manual_seed(seed)
    module.to(dtype)
    with torch.no_grad():
        for parameter in module.parameters():
            scale = 1 / math.sqrt(parameter.shape[-1])
            parameter.copy_(torch.randn(parameter.shape, dtype=dtype, generator=generator) * scale)
    return module.eval()


def gradients(output: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    """Gradients under a fixed random weighting, so that no symmetry hides a mistake."""
    weighting = numbers(*output.shape, dtype=output.dtype, seed=99).detach()
    return list(torch.autograd.grad((output * weighting).sum(), inputs))
