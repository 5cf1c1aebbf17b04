"""`translating_line` is an input line for an English sentence. The line shows the French words and,
for each of them, the English word that it attends to. Without a kernel, a table replaces the line.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
import traitlets
from torch import Tensor

from ..data.toy_french import BOS_ID, ENDING, EOS_ID, PAD, THIRD_PERSON, english, french
from ..translation import Translator, alignment, greedy_translate
from .attention_map import static
from .page import joined
from .with_table import WithTable

LONGEST = 13
KNOWN = [*(w for w in english.vocabulary if w not in (PAD, ENDING)), *THIRD_PERSON.values()]


def translating_line(
    model: Translator,
    text: str = "the small black cat watches a mouse",
    *,
    layer: int = -1,
    head: int | None = None,
) -> TranslatingLine:
    """Show a model's French translation of a sentence, and the word that each French word attends
    to.

    Args:
        model: a translator of the toy French.
        text: the first sentence.
        layer, head: the decoder's layer and head to show; without a head, the mean over heads.
    """
    return TranslatingLine(model, layer, head, text=text)


class TranslatingLine(WithTable):
    """The widget with the input line, and the table below it."""

    _esm = joined(Path(__file__).parent / "page" / "translating_line.js")
    _css = Path(__file__).parent / "attention_map" / "attention_map.css"

    text = traitlets.Unicode().tag(sync=True)
    _shown = traitlets.Dict().tag(sync=True)

    def __init__(self, model: Translator, layer: int, head: int | None, **shown: Any) -> None:
        self.translator, self.layer, self.head = model, layer, head
        super().__init__(**shown)
        self.observe(lambda change: self._follow(), "text")
        self._follow()

    def translation(self) -> tuple[str, list[str], Tensor]:
        """The translation, its words, and their weights on the source words, `(T, S)`.

        Raises:
            ValueError: a word is unknown, or there are too few or too many words.
        """
        source = self._ids()[None]  # (1, S)
        if not 0 < source.shape[1] <= LONGEST:
            raise ValueError(f"please type 1 to {LONGEST} words; these are {source.shape[1]}")
        ids = greedy_translate(self.translator, source, BOS_ID, EOS_ID, LONGEST)  # (1, T)
        given = torch.cat([torch.tensor([[BOS_ID]]), ids[:, :-1]], dim=1)
        weights = alignment(self.translator, source, given)[0, self.layer]  # (H, T, S)
        weights = weights.mean(dim=0) if self.head is None else weights[self.head]
        words = [french.vocabulary[id] for id in ids[0]]
        return (
            " ".join(w for w, id in zip(words, ids[0], strict=True) if id != EOS_ID),
            words,
            weights,
        )

    def _follow(self) -> None:
        try:
            text, words, weights = self.translation()
        except ValueError as error:
            says, known = str(error).partition(";")[0], f"It knows: {', '.join(KNOWN)}"
            self._shown = {"says": says, "read": [], "rows": [], "known": known}
            return
        rows = list(zip(words, weights.tolist(), strict=True))
        self._shown = {"says": text, "read": self._read(), "rows": rows}

    def _ids(self) -> Tensor:
        """The ids of the English sentence, whose punctuation is left out."""
        return english.encode(re.sub(r"[^\w\s'-]+", " ", self.text))

    def _read(self) -> list[str]:
        """The pieces of the English sentence."""
        return [english.vocabulary[id] for id in self._ids()]

    def _html(self) -> str:
        says, read, rows = (self._shown[name] for name in ("says", "read", "rows"))
        weights = [row for _, row in rows]
        seen = [[False] * len(read) for _ in rows]
        title = f"{self.text} → {says}"
        table = static.table(weights, seen, [word for word, _ in rows], read, title, 0, [])
        return f'<div class="translation-static">{table}</div>'

    def __repr__(self) -> str:
        try:
            text, words, weights = self.translation()
        except ValueError as error:
            return str(error)
        read = self._read()
        looks = [
            f"  {word:>10}  <-  {read[int(row.argmax())]}"
            for word, row in zip(words, weights, strict=True)
        ]
        return "\n".join([f"{self.text}  ->  {text}", *looks])
