"""How numbers are rounded wherever the course shows them."""

from decimal import ROUND_HALF_UP, Decimal


def fixed(number: float, digits: int) -> str:
    """Halves are rounded away from zero, as a page's own `toFixed` does: 1/8 is 0.13."""
    unit = Decimal(1).scaleb(-digits)
    return str(Decimal(number).quantize(unit, rounding=ROUND_HALF_UP))
