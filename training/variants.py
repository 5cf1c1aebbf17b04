"""How many sentences lesson 11's translator gets right if one of its parts is changed.

    python -m training.variants

trains each variant for 400 steps with three seeds.
"""

from __future__ import annotations

from torch import Tensor, nn

from course_utils.experiments.translating import SMALL, exact, new_model, sentences
from course_utils.transformer import DecoderBlock, EncoderBlock, ReLUFeedForward
from course_utils.translation import Translator

from .small_models import train_small_translator


class PreEncoderBlock(EncoderBlock):
    """The parts of `EncoderBlock`, wired as Pre-LN."""

    def forward(self, x: Tensor, pad_mask: Tensor | None = None) -> Tensor:
        normed = self.norm1(x)
        x = x + self.attention(normed, normed, pad_mask)
        return x + self.feed_forward(self.norm2(x))


class PreDecoderBlock(DecoderBlock):
    def forward(  # type: ignore[override]
        self, x: Tensor, context: Tensor, pad_mask: None = None, *, context_pad_mask: Tensor
    ) -> Tensor:
        x = x + self.self_attention(self.norm1(x))
        x = x + self.cross_attention(self.norm2(x), context, context_pad_mask)
        return x + self.feed_forward(self.norm3(x))


class NoCrossBlock(DecoderBlock):
    def forward(self, x: Tensor, *_: Tensor | None, **__: Tensor | None) -> Tensor:
        x = self.norm1(x + self.self_attention(x))
        return self.norm3(x + self.feed_forward(x))


class GeluNetwork(ReLUFeedForward):
    def forward(self, x: Tensor) -> Tensor:
        return self.contract(nn.functional.gelu(self.expand(x)))


VARIANTS: dict[str, dict[type, type]] = {
    "as in 2017": {},
    "Pre-LN": {EncoderBlock: PreEncoderBlock, DecoderBlock: PreDecoderBlock},
    "GELU": {ReLUFeedForward: GeluNetwork},
    "without cross-attention": {DecoderBlock: NoCrossBlock},
}


def variant(name: str, seed: int = 0) -> Translator:
    model = new_model(seed, sizes=SMALL)
    for module in model.modules():
        module.__class__ = VARIANTS[name].get(type(module), type(module))
    return model


if __name__ == "__main__":
    for name in VARIANTS:
        for seed in range(3):
            model = variant(name, seed)
            train_small_translator(model, 400, seed, without_source_every=0)
            print(f"{name:24} seed {seed}: {exact(model, sentences()[1]):.3f}", flush=True)
