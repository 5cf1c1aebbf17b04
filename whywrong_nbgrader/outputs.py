"""Outputs of a submission in a known form, in which nothing can run in a reader's browser.

This runs in a process of its own (helper.py), because cleaning may take any time and memory."""

from __future__ import annotations

import re
from typing import Any

from .readable import clean, math_at_rest, writable

MOST_OUTPUTS, MOST_TEXT, MOST_HTML, MOST_PICTURE = 200, 100_000, 200_000, 4_000_000
MOST_COLOURS = 1000  # in a text: pages take quadratic time to show them
BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")
PICTURE = re.compile(r"data:image/(?:png|webp);base64,[A-Za-z0-9+/=\s]*")


def told(message: str) -> dict[str, Any]:
    """An output that reports what happened to a cell."""
    return {"output_type": "stream", "name": "stdout", "text": f"{message}\n"}


def clean_outputs(outputs: Any) -> list[dict[str, Any]]:
    """Outputs in a known form, in which nothing can run in a reader's browser."""
    if not isinstance(outputs, list):
        return []
    return [o for o in map(_clean, outputs[:MOST_OUTPUTS]) if o]


def _clean(output: Any) -> dict[str, Any]:
    kind = output.get("output_type") if isinstance(output, dict) else None
    if kind == "stream" and isinstance(output.get("text"), str):
        name = "stderr" if output.get("name") == "stderr" else "stdout"
        return {"output_type": "stream", "name": name, "text": _text(output["text"])}
    if kind == "error":
        lines = output.get("traceback")
        return {
            "output_type": "error",
            "ename": _text(output.get("ename"))[:200],
            "evalue": _text(output.get("evalue")),
            "traceback": [_text(t) for t in lines[:200]] if isinstance(lines, list) else [],
        }
    if kind in ("display_data", "execute_result") and isinstance(output.get("data"), dict):
        made = {"output_type": kind, "data": clean_data(output["data"]), "metadata": {}}
        made |= {"execution_count": None} if kind == "execute_result" else {}
        return made if made["data"] else {}
    return {}


def clean_data(data: dict[str, Any]) -> dict[str, str]:
    """Text, bitmaps, and HTML without scripts or references to fetch."""
    kept = {}
    if isinstance(data.get("text/plain"), str):
        kept["text/plain"] = _text(data["text/plain"])
    picture = data.get("image/png")
    if isinstance(picture, str) and len(picture) < MOST_PICTURE and BASE64.fullmatch(picture):
        kept["image/png"] = picture
    page = data.get("text/html")
    if isinstance(page, str) and len(page) < MOST_HTML:
        only = {"attribute_filter": _nothing_fetched, "url_schemes": {"data"}}
        page = clean(writable(page), "html", **only)
        if page.strip() and len(page) < 2 * MOST_HTML:
            kept["text/html"] = math_at_rest(page)  # an empty page would hide the other forms
    return kept


def _nothing_fetched(tag: str, attribute: str, value: str) -> str | None:
    """Keeps only bitmaps that are embedded in the page, and nothing that could cover a card."""
    if attribute == "src" and (len(value) >= MOST_PICTURE or not PICTURE.fullmatch(value)):
        return None
    return None if attribute == "style" and "margin" in value and "-" in value else value


def _text(value: Any) -> str:
    text = writable(value) if isinstance(value, str) else ""
    if len(text) > MOST_TEXT:
        text = text[:MOST_TEXT] + f"\n… and {len(text) - MOST_TEXT:,} characters more\n"
    return text if _is_coloured(text) else text.replace("\x1b", "")


def _is_coloured(text: str) -> bool:
    """Returns whether a page can show the colours of a text."""
    if "\x1b" not in text:
        return True
    from nbconvert.filters import ansi2html

    try:
        return text.count("\x1b") <= MOST_COLOURS and bool(ansi2html(text))
    except (IndexError, ValueError):  # a colour code that is cut off
        return False
