"""`translating_line`: an input line for an English sentence; shows the French words, and for each
the English word it attends to. Without a kernel, it is a table.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

import ipywidgets
import torch
from torch import Tensor

from . import colours
from .toy_french import BOS_ID, EOS_ID, english, french
from .translation import Translator, alignment, greedy_translate
from .with_table import WithTable

LONGEST = 13


def translating_line(
    model: Translator,
    text: str = "the small black cat watches a mouse",
    *,
    layer: int = -1,
    head: int | None = None,
    examples: Sequence[str] = (),
) -> TranslatingLine:
    """Show a model's translation of an English sentence, and the word each French word attends to.

    Args:
        model: a translator of the toy French.
        text: the first sentence.
        layer, head: of the decoder, whose weights are shown; without a head, the mean over heads.
        examples: sentences to choose from.
    """
    return TranslatingLine(model, text, layer, head, examples)


class TranslatingLine(WithTable, ipywidgets.VBox):
    """The line and the table below it."""

    def __init__(
        self,
        model: Translator,
        text: str,
        layer: int,
        head: int | None,
        examples: Sequence[str],
    ) -> None:
        self.translator, self.layer, self.head = model, layer, head
        self.line = ipywidgets.Combobox(
            value=text,
            options=list(examples),
            description="English",
            continuous_update=True,
            layout=ipywidgets.Layout(width="36em"),
        )
        self.table = ipywidgets.HTML()
        super().__init__([self.line, self.table])
        self.line.observe(lambda change: self._follow(), "value")
        self._follow()

    def translation(self) -> tuple[str, list[str], Tensor]:
        """The translation of the line, its words, and their weights on the source words, `(T, S)`.

        Raises:
            ValueError: a word is unknown, or there are none or too many.
        """
        source = english.encode(self.line.value)[None]  # (1, S)
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
        self.table.value = f"<style>.translation-static{{display:none}}</style>{self._body()}"

    def _body(self) -> str:
        try:
            text, words, weights = self.translation()
        except ValueError as error:
            return f"<p>{html.escape(str(error).partition(';')[0])}</p>"
        head = "".join(f'<th scope="col">{html.escape(word)}</th>' for word in self._read())
        rows = "".join(
            f'<tr><th scope="row" style="text-align:left">{html.escape(word)}</th>'
            + "".join(_cell(float(share)) for share in row)
            + "</tr>"
            for word, row in zip(words, weights, strict=True)
        )
        return (
            f"<p><b>{html.escape(text)}</b></p><table><thead><tr><th></th>{head}</tr></thead>"
            f"<tbody>{rows}</tbody></table>"
        )

    def _read(self) -> list[str]:
        """The pieces of the English sentence."""
        return [english.vocabulary[id] for id in english.encode(self.line.value)]

    def _html(self) -> str:
        says = html.escape(self.line.value)
        return f'<div class="translation-static"><p>{says}</p>{self._body()}</div>'

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
        return "\n".join([f"{self.line.value}  ->  {text}", *looks])


def _cell(share: float) -> str:
    """A cell whose blue grows with its weight, on light and dark pages."""
    strength = 0.55 * colours.strength(share, 1.0)
    return (
        f'<td style="text-align:center;min-width:3.5em;background:rgba(38,122,209,{strength:.2f})">'
        f"{share:.2f}</td>"
    )
