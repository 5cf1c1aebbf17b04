"""`explore` shows a whole language model in the page; `share` writes it as one file."""

from __future__ import annotations

import base64
import copy
import html
import importlib.metadata
import json
import re
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import traitlets
from safetensors.torch import save
from torch import Tensor, nn

from ...desk.language import localised
from ...desk.points import load, progress_path
from ...language_model import attention_weights, without_head
from ..page import joined
from ..with_table import WithTable

FOLDER = Path(__file__).parent
SCRIPT = joined(FOLDER / "explorer.js")
BOX = f"{{\n{joined(FOLDER / 'box.js')}}}"  # within a page, after the state
COMMENT = re.compile(r"[ \t]*/\*.*?\*/\n?", re.S)  # of the style sheet, left out in a file
MOST_NUMBERS = 3_000_000  # 12 MB in the page
SHOWN = 7  # the number of likeliest words in the table
BUILT = {"04": "CausalSelfAttention", "08": "TransformerBlock", "09": "learned_embedding"}
BUILT |= {"16": "ModernLM"}
NEEDED = ("embed.token.weight", "embed.position.weight", "blocks.0.norm1.scale", "norm.scale")
MODERN = ("embed.weight", "blocks.0.feed_forward.gate.weight", *NEEDED[2:])


def explore(
    model: nn.Module,
    words: Sequence[str],
    text: str = "",
    *,
    begin: str = "",
    examples: Sequence[str] = (),
    first: str = "0.head.0",
    pairs: Sequence[tuple[str, str]] = (),
    onward: str = "",
    heads: int = 0,
    context_length: int = 0,
) -> Explorer:
    """Show a model in the page: every step of its computation, and the words expected after `text`.

    The page computes everything without a kernel. If scripts don't run, the page shows a table.

    Args:
        model: a `TinyLM` or a `ModernLM`, or another module with the same parameter names.
        words: the V words or letters that the ids stand for. Letters are joined without spaces.
        text: the text for which the page first shows a result.
        begin: a word that is put before every text.
        examples: texts that can be chosen.
        first: the station that is open at first, such as "0.head.1" for head 1 of block 0.
        pairs: pairs of words whose probabilities are compared below the sentence.
        onward: the address of the lesson that `pairs` lead to, and of the course in a shared file.
        heads: the number of heads in each block; 0 means the number that block 0 stores.
        context_length: the maximum number of tokens; 0 means the number that the model stores.

    Raises:
        ValueError: the parameters have other names, the number of words isn't V, or a number
            that wasn't passed isn't stored in the model.
    """
    names = model.state_dict()
    size = sum(parameter.numel() for parameter in names.values())
    if size > MOST_NUMBERS:
        raise ValueError(
            f"explore puts all of a model into the page, and this one has {size:,} parameters, "
            f"which are {4 * size / 2**20:,.0f} MiB: more than {MOST_NUMBERS:,} are refused."
        )
    kind, needed = ("ModernLM", MODERN) if MODERN[0] in names else ("TinyLM", NEEDED)
    if lacking := [name for name in needed if name not in names]:
        raise ValueError(f"explore needs the parameters of {kind}; the model lacks {lacking[0]}.")
    V = len(names[needed[0]])
    if len(words) != V:
        raise ValueError(f"explore got {len(words)} words for a vocabulary of {V}.")
    return Explorer(
        model,
        text=text,
        _weights=_bytes(model),
        _heads=heads or _own(model.get_submodule("blocks.0.attention"), "num_heads", "heads"),
        _modern=_modern(model, context_length) if kind == "ModernLM" else {},
        _words=list(words),
        _begin=begin,
        _examples=list(examples),
        _built=_built(),
        _first=first,
        _pairs=[list(pair) for pair in pairs],
        _onward=onward,
    )


def share(
    model: nn.Module,
    words: Sequence[str],
    path: str | Path,
    text: str = "",
    *,
    title: str = "A small language model, whole",
    **options: Any,
) -> Path:
    """Write what `explore` shows to one HTML file, which needs no server and no network.

    Args:
        path: the file, which is overwritten. It contains the parameters rounded to float16.
        title: the title of the page.
        options: the other arguments of `explore`.
    """
    shown = explore(model, words, text, **options)
    values = {name: getattr(shown, name) for name in Explorer.SHARED}
    values["_built"] = None  # the file's reader is unknown
    if pairs := values["_pairs"]:
        values["_measured"] = shown.measured()
    packed = zlib.compress(_bytes(model, torch.float16), 9)
    page = (FOLDER / "page.html").read_text(encoding="utf-8")
    for name, part in {
        "title": html.escape(localised(title)),
        "css": COMMENT.sub("", (FOLDER / "explorer.css").read_text(encoding="utf-8")),
        "box": BOX if pairs else "",
        "course": _course(values["_onward"]),
        "script": SCRIPT,
        "weights": base64.b64encode(packed).decode(),
        "values": json.dumps(values).replace("</", "<\\/"),
    }.items():
        page = page.replace(f"{{{name}}}", part)
    Path(path).write_text(page, encoding="utf-8")
    return Path(path)


def _course(address: str) -> str:
    """Where a file's reader learns more: the course's name, and a link if its address is known."""
    if not address:
        with suppress(importlib.metadata.PackageNotFoundError):
            urls = importlib.metadata.metadata("course_utils").get_all("Project-URL", [])
            address = next((url.split()[1] for url in urls if url.startswith("Repository,")), "")
    name = html.escape(localised("From the course “From Averages to Transformers”"))
    return f'<a href="{html.escape(address)}">{name}</a>' if address else name


def _built() -> list[str]:
    """The lessons whose parts the reader has built."""
    points = load(progress_path())[0]
    built = {lesson: points.get(id, {}) for lesson, id in BUILT.items()}
    return [n for n, p in built.items() if p and p["points"] == p["max_points"]]


def _bytes(model: nn.Module, dtype: torch.dtype = torch.float32) -> bytes:
    kept = model.state_dict().items()
    return save({name: x.detach().cpu().to(dtype).contiguous().clone() for name, x in kept})


def _own(module: nn.Module, name: str, argument: str) -> Any:
    """Return a number that a module stores; if it stores none, the caller must pass the number."""
    if not hasattr(module, name):
        raise ValueError(f"Your {type(module).__name__} doesn't store {name}: pass `{argument}=`.")
    return getattr(module, name)


def _modern(model: nn.Module, context_length: int) -> dict[str, Any]:
    """Return what the page needs of a `ModernLM` besides its parameters."""
    attention, norm = (model.get_submodule(name) for name in ("blocks.0.attention", "norm"))
    return {
        "longest": context_length or _own(model, "context_length", "context_length"),
        "base": getattr(attention, "base", 10000.0),
        "window": getattr(attention, "window", None),
        "eps": getattr(norm, "eps", 1e-6),
    }


class Explorer(WithTable):
    """The widget behind `explore`, whose `text` follows the input in the page."""

    _esm = SCRIPT
    _css = FOLDER / "explorer.css"

    text = traitlets.Unicode().tag(sync=True)
    _weights = traitlets.Bytes().tag(sync=True)
    _heads = traitlets.Int().tag(sync=True)
    _modern: traitlets.Dict = traitlets.Dict().tag(sync=True)  # empty except for a ModernLM
    _words: traitlets.List = traitlets.List().tag(sync=True)
    _begin = traitlets.Unicode().tag(sync=True)
    _examples: traitlets.List = traitlets.List().tag(sync=True)
    _built: traitlets.List = traitlets.List().tag(sync=True)
    _first = traitlets.Unicode().tag(sync=True)
    _pairs: traitlets.List = traitlets.List().tag(sync=True)
    _onward = traitlets.Unicode().tag(sync=True)
    SHARED = (
        *("text", "_heads", "_modern", "_words", "_begin", "_examples", "_built", "_first"),
        *("_pairs", "_onward", "_said"),
    )

    def __init__(self, model: nn.Module, **shown: Any) -> None:
        super().__init__(**shown)
        self._model = model

    def _chances(self) -> list[tuple[str, float]]:
        """The likeliest next words and their probabilities, for the table."""
        device = next(self._model.parameters()).device
        with torch.no_grad():
            shares = self._model(self._ids().to(device))[0, -1].softmax(-1).cpu()
        best = shares.argsort(descending=True, stable=True)[:SHOWN].tolist()
        return [(self._words[id], float(shares[id])) for id in best]

    def _ids(self) -> Tensor:
        """The tokens of the text, `(1, T)`."""
        words = self._words
        gap = None if any(len(word) > 1 for word in words) else ""
        parts = self.text.split() if gap is None else list(self.text)
        parts = [part for part in [self._begin, *parts] if part in words]
        table = self._model.state_dict().get(NEEDED[1])
        longest = self._modern["longest"] if table is None else len(table)
        return torch.tensor([[words.index(part) for part in parts[-longest:]] or [0]])

    @torch.no_grad()
    def measured(self) -> dict[str, Any]:
        """What the page shows of the text and of the head `first` until it has a `TinyLM` itself.

        Returns:
            The tokens' `labels`, the head's `weights` in each of their rows, and the probabilities
            of all words after the text, `shares`, and `without` the head. The model's parameters
            are rounded to float16, as in the page.
        """
        model: Any = copy.deepcopy(self._model).cpu().half().float()
        ids = self._ids()
        layer, head = (int(part) for part in self._first.split(".head."))
        weights = attention_weights(model, ids)[0, layer, head]  # (T, T)
        shares = model(ids)[0, -1].softmax(-1)
        with without_head(model, layer, head):
            without = model(ids)[0, -1].softmax(-1)
        return {
            "labels": [self._words[id] for id in ids[0]],
            "weights": [row[: t + 1] for t, row in enumerate(_rounded(weights))],
            "shares": _rounded(shares),
            "without": _rounded(without),
        }

    def _html(self) -> str:
        cells = "".join(
            f'<tr><th scope="row" style="text-align:left">{html.escape(word)}</th>'
            f'<td style="text-align:right">{percent(share)}</td></tr>'
            for word, share in self._chances()
        )
        after = html.escape(localised(f"After “{self.text}”:"))
        return (
            f'<div class="next-word-static"><p>{after}</p>'
            f'<table><thead><tr><th scope="col">{localised("next word")}</th>'
            f'<th scope="col">{localised("probability")}</th></tr></thead>'
            f"<tbody>{cells}</tbody></table></div>"
        )

    def __repr__(self) -> str:
        bars = [f"  {percent(share):>5}  {word}" for word, share in self._chances()]
        return "\n".join([localised(f"After “{self.text}”:"), *bars])


def _rounded(numbers: Tensor) -> list[Any]:
    return numbers.double().mul(1e6).round().div(1e6).tolist()


def percent(share: float) -> str:
    return f"{100 * share:.0f}\u00a0%" if share >= 0.005 else "<\u00a01\u00a0%"
