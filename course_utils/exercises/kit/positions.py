"""Positions as angles, in steps, and what goes wrong with them: waves to add, pairs to rotate.

Both exercises turn a position into one angle for each pair of channels, so these mistakes are
written once and put on either.
"""

from __future__ import annotations

import math

import torch

from ...checking import Mistake
from .steps import Refusing

# ---------------------------------------------------------------- right answers in steps


class Angles(Refusing):
    """An angle for each position and each pair of channels, `(T, width / 2)`, in float64."""

    def angles(self, T, width, base=10000.0):
        places, rates = self.places(T), self.rates(width, base)
        return self.answered_angles(places[:, None] * rates)

    def places(self, T):
        return self.first_place + torch.arange(T, dtype=torch.float64)

    first_place = 0

    def rates(self, width, base):
        return self.rate(self.base(base), self.exponents(width))

    def base(self, base):
        return base

    def rate(self, base, exponents):
        return base**-exponents

    def exponents(self, width):
        return self.doubled * torch.arange(width // 2, dtype=torch.float64) / self.over(width)

    doubled = 2  # the 2 of 2i

    def over(self, width):
        return width

    def answered_angles(self, angles):
        return angles

    def refuse(self, width):
        if self.too_many(width % 2, 0):
            self.complain(width)


class Waves(Angles):
    """The table of sines and cosines."""

    def __call__(self, length, d_model):
        self.refuse(d_model)
        angles = self.angles(length, d_model)
        return self.result(self.woven(*self.waves(angles)))

    def waves(self, angles):
        return angles.sin(), angles.cos()

    def woven(self, one, other):
        return torch.stack([one, other], dim=-1).flatten(1)

    def result(self, table):
        return table.float()


class Rotary(Angles):
    """Queries or keys with each pair of channels rotated."""

    def __call__(self, x, base=10000.0):
        self.refuse(x.shape[-1])
        angles = self.turned(self.angles(self.tokens(x), self.width(x), base), x)
        return self.joined(*self.rotated(*self.pairs(x), *self.waves(angles, x)))

    def tokens(self, x):
        return x.shape[-2]

    def width(self, x):
        return x.shape[-1]

    def turned(self, angles, x):
        return angles

    def waves(self, angles, x):
        return angles.cos().to(x), angles.sin().to(x)

    def pairs(self, x):
        even = x.shape[-1] // 2 * 2
        return x[..., 0:even:2], x[..., 1:even:2]

    def rotated(self, a, b, cos, sin):
        return a * cos - b * sin, a * sin + b * cos

    def joined(self, a, b):
        return torch.stack([a, b], dim=-1).flatten(-2)


# ---------------------------------------------------------------- the position


class PositionsFromOne(Mistake):
    """The positions are counted from 1.

    Why: Position 0 is then missing, and weights of another program, whose first token stands at
        0, no longer fit.
    Mend: Which number has the first token, here as everywhere in Python?
    """

    first_place = 1


class PositionsBackwards(Mistake):
    """The positions are counted from the end: the last token has number 0.

    Why: A token would get another position whenever a word is added behind it.
    Mend: Count from the first token on.
    """

    def places(self, T):
        return super().places(T).flip(0)


class PositionsAsShares(Mistake):
    """The positions are shares of the length, from 0 to 1.

    Why: Two neighbours would then stand closer together in a longer text.
    Mend: Positions are whole numbers: 0, 1, 2, …
    """

    def places(self, T):
        return super().places(T) / max(T - 1, 1)


# ---------------------------------------------------------------- the angle


class ExponentWithoutTwo(Mistake):
    """The exponent is half of what it should be: i / width in place of 2i / width.

    Why: The rates go down from 1 to 1/100 only, so the slowest pairs turn too fast to tell far
        positions apart.
    Mend: For the last of four pairs, i = 3 and the width is 8. What is 2i / width?
    """

    doubled = 1


class ExponentDoubled(Mistake):
    """The exponent is twice what it should be: 4i / width in place of 2i / width.

    Why: The last pairs turn so slowly that they say nothing. `arange(0, width, 2)` gives 2i
        already; and the width is that of all channels, not of half of them.
    Mend: For the last of four pairs, i = 3 and the width is 8. What is 2i / width?
    """

    doubled = 4


class ExponentToTheEnd(Mistake):
    """The exponents go up to 1: you divided by one pair less than there are.

    Why: Some programs do so, but the rates then differ from those of the paper for all pairs but
        the first.
    Mend: Which number stands below the 2i in the formula?
    """

    def over(self, width):
        return max(width - 2, 1)


class OneRateForAll(Mistake):
    """All pairs turn at the same rate: the exponent is 0 everywhere.

    Why: After about six positions every pair is back where it began, and positions look alike.
    Mend: Is there a `//` in the exponent, where `/` should stand, or is the `i` missing?
    """

    doubled = 0


class TurnsFaster(Mistake):
    """Later pairs turn faster, not slower: the position is multiplied by the power.

    Why: The last pairs then jump by thousands of radians from one token to the next, and
        neighbours have nothing in common.
    Mend: The power of the base stands below the position in the formula.
    """

    def rate(self, base, exponents):
        return base**exponents


class SlowestFirst(Mistake):
    """The rates are there, but in reverse: the first pair turns slowest.

    Why: Nothing would be lost in a new model, but weights of another one would no longer fit.
    Mend: For i = 0 the power is 1, whatever the base is. How fast does the first pair turn?
    """

    def exponents(self, width):
        return super().exponents(width).flip(0)


class AnotherBase(Mistake):
    """The base is not 10000.

    Why: Another base gives other rates for all pairs but the first.
    Mend: Count its zeros; and mind `log10`, which does not undo `exp`.
    """

    def base(self, base):
        return 1000.0


class LogOfTen(Mistake):
    """You took `exp` of a power with `log10`: the base is then about 55, not 10000.

    Why: `exp` is undone by the natural logarithm alone, and all pairs but the first turn too fast.
    Mend: Which logarithm does `math.log` give, and which `math.log10`?
    """

    def base(self, base):
        return math.exp(math.log10(base))


class InDegrees(Mistake):
    """The angles were turned into degrees or out of them.

    Why: `sin` and `cos` of PyTorch take radians, and the angle of the formula is one already.
    Mend: Leave the angle as it is: no 180, no 360 and no π.
    """

    factor = math.pi / 180

    def answered_angles(self, angles):
        return angles * self.factor


class WholeTurns(Mistake):
    """The angles are 2π times too big, or π times.

    Why: The first pair makes a whole turn from token to token, or half of one: all positions look
        the same to it, or every other one.
    Mend: Leave the angle as it is: there is no π in the formula.
    """

    factor = 2 * math.pi

    def answered_angles(self, angles):
        return angles * self.factor


# ---------------------------------------------------------------- what is refused


class OddAccepted(Mistake):
    """An odd number of channels is accepted, or stopped by an error that is no ValueError.

    Why: Channels come in pairs, so one would be left over, cut off or out of step.
    Mend: Look at the number first: `% 2` tells odd from even. Raise a ValueError that holds it.
    """

    def refuse(self, width):
        pass


class EvenRefused(Mistake):
    """An even number of channels is refused, and an odd one accepted.

    Why: Pairs need an even number.
    Mend: What does `n % 2` give for an even n?
    """

    def refuse(self, width):
        if not width % 2:
            self.complain(width)
