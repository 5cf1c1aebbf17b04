"""The attention map in a page: the parts that tests inspect."""

import json
import re

import torch
from playwright.sync_api import Locator, expect

from course_utils.show import colours

SETUP = """
import torch
from course_utils.show.attention_map import attention_map

def scores(*shape, seed=0):
    return 2 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))

words = ["The", "cat", "sat", "on", "the", "mat"]
"""
FULL = """
query, key = torch.randn(2, 2, 3, 6, 8, generator=torch.Generator().manual_seed(5))
w = attention_map(
    query @ key.transpose(-2, -1), words, causal=True, pad_mask=torch.arange(6) == 5,
    scale=8**-0.5, query=query, key=key, values=scores(6, 5, seed=1), row=2,
)
w
"""
STEPS = ["query · key", "scores", "scaled", "masked", "softmax", "weighted sum"]


def one(outputs: Locator) -> Locator:
    shown = outputs.locator(".attention-map")
    expect(shown).to_have_count(1)
    expect(shown).to_be_visible()
    return shown


def cell(shown: Locator, query: int, key: int) -> Locator:
    return shown.locator("[role=grid] tbody tr").nth(query).locator("td").nth(key)


def sentence(shown: Locator) -> Locator:
    return shown.locator("[aria-live]")


def choose(shown: Locator, step: str) -> None:
    shown.get_by_role("radio", name=re.compile(f"^{step}")).check()


def selected(shown: Locator) -> Locator:
    return shown.locator("[aria-selected=true] th")


def becomes(node: Locator, condition: str) -> None:
    """The page lays itself out a moment after its size or its theme has changed."""
    node.page.wait_for_function(condition, arg=node.element_handle())


def weights_in_page(shown: Locator) -> torch.Tensor:
    """(T, S), to two digits or more, as the cells' labels say them."""
    rows = shown.locator("[role=grid] tbody tr").evaluate_all(
        "rows => rows.map(r => [...r.querySelectorAll('td')].map(c => c.ariaLabel))"
    )
    said = [[text.rpartition(": ")[2].partition(",")[0] for text in row] for row in rows]
    return torch.tensor([[float(text) for text in row] for row in said])


def weights_in_kernel(notebook) -> torch.Tensor:
    return torch.tensor(json.loads(notebook.ask("w.weights.tolist()")))


def assert_same_weights(notebook, shown: Locator) -> None:
    wanted = weights_in_kernel(notebook)
    torch.testing.assert_close(weights_in_page(shown), wanted, atol=0.00501, rtol=0)


def spoken(notebook) -> str:
    return notebook.ask("repr(w).partition('): ')[2]")[1:-1]


# ---- looking -----------------------------------------------------------------------------------


SHADES = {k: tuple(round(255 * c) for c in colours.shade(k / 64)) for k in range(-64, 65)}


def picture_of(shown: Locator) -> list[list[tuple[int, ...] | None]]:
    """The colours under the cells, None where there is a hole for the hatching."""
    pixels = shown.locator(".plate canvas").evaluate(
        """node => {
            const { data } = node.getContext("2d").getImageData(0, 0, node.width, node.height);
            return [node.width, [...data]];
        }"""
    )
    width, data = pixels
    dots = [tuple(data[k : k + 3]) if data[k + 3] else None for k in range(0, len(data), 4)]
    return [dots[k : k + width] for k in range(0, len(dots), width)]
