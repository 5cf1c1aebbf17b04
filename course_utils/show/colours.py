"""The colours of the attention map, figures and masks: one set for light and dark pages.

A number's colour has a strength from 0 (the page's colour) to 1. Positive numbers are blue,
negative numbers orange; both colours darken steadily, so that they are readable in grey too.

All colours are chosen for a white page. On a dark Jupyter page, a filter inverts the lightness and
keeps the hue: white becomes the page's near-black, and the darkest blue becomes light.
"""

RGB = tuple[float, float, float]

# Colours from strength 0 to 1, in equal steps of lightness (OKLab).
ABOVE = (
    *("#ffffff", "#c8e8ff", "#92cffe", "#59b4fe", "#3296ef"),
    *("#267ad1", "#265fab", "#27477f", "#233251"),
)
BELOW = (
    *("#ffffff", "#fee0bc", "#febe77", "#f49c3e", "#e17f0a"),
    *("#c56702", "#a85204", "#84431d", "#5c3827"),
)
SEEN = "#7fd6a0"  # used for masks, not part of a colour ramp
HATCHING = "#767676"
SHADES = 64  # strengths on screen are multiples of 1/64

WHITE, BLACK = (1.0, 1.0, 1.0), (0.0, 0.0, 0.0)
INVERSION = 0.9333  # turns white into #111111, the background of JupyterLab's dark theme

# One number distinguishes Jupyter's themes: 0 in light themes, 32 in dark themes. A page without
# this number is light.
DARK = "min(1, var(--jp-shadow-base-lightness, 0))"
FILTER = f"invert(calc({INVERSION} * {DARK})) hue-rotate(calc(180deg * {DARK}))"


def strength(number: float, largest: float) -> float:
    """The strength of a number's colour, from −1 to 1, proportional to the number."""
    return max(-1.0, min(1.0, number / largest)) if largest > 0 else 0.0


def shade(strength: float) -> RGB:
    """The colour of a strength from −1 to 1, on a white page."""
    ramp = BELOW if strength < 0 else ABOVE
    place = min(abs(strength), 1.0) * (len(ramp) - 1)
    before = min(int(place), len(ramp) - 2)
    low, high = _rgb(ramp[before]), _rgb(ramp[before + 1])
    part = place - before
    return tuple(a + (b - a) * part for a, b in zip(low, high, strict=True))  # type: ignore[return-value]


def in_the_dark(colour: RGB) -> RGB:
    """The result of `FILTER` for a colour on a dark page (Filter Effects, matrix of hue-rotate)."""
    red, green, blue = (c + INVERSION * (1 - 2 * c) for c in colour)
    return (
        _clipped(-0.574 * red + 1.430 * green + 0.144 * blue),
        _clipped(0.426 * red + 0.430 * green + 0.144 * blue),
        _clipped(0.426 * red + 1.430 * green - 0.856 * blue),
    )


def contrast(one: RGB, other: RGB) -> float:
    """The contrast ratio of WCAG 2, from 1 to 21."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def ink(strength: float) -> str:
    """The colour of a digit on a shade: "text", "black" or "page".

    "text" is black on a light page and white on a dark page; "page" is the opposite. On shades in
    between, black is more readable on both pages.
    """
    by_day, by_night = shade(strength), in_the_dark(shade(strength))
    if contrast(BLACK, by_day) < contrast(WHITE, by_day):
        return "page"
    return "text" if contrast(WHITE, by_night) > contrast(BLACK, by_night) else "black"


def for_the_page() -> dict[str, list]:
    """Shades and inks from strength −1 to 1 in steps of 1/64, for the map's script."""
    strengths = [k / SHADES for k in range(-SHADES, SHADES + 1)]
    return {
        "shades": [[round(255 * c) for c in shade(strength)] for strength in strengths],
        "inks": [ink(strength) for strength in strengths],
    }


def _rgb(code: str) -> RGB:
    red, green, blue = bytes.fromhex(code[1:])
    return red / 255, green / 255, blue / 255


def _clipped(channel: float) -> float:
    return max(0.0, min(1.0, channel))


def _luminance(colour: RGB) -> float:
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
