"""Rounds numbers that the course shows."""

from decimal import ROUND_HALF_UP, Decimal


def fixed(number: float, digits: int) -> str:
    """Rounds halves away from zero, like `toFixed` in JavaScript: 1/8 is 0.13."""
    unit = Decimal(1).scaleb(-digits)
    return str(Decimal(number).quantize(unit, rounding=ROUND_HALF_UP))
