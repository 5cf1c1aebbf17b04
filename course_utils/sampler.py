"""`sampler`: a line to type into, what a model expects next, and dice to write on with.

The line and its bars are those of the start page's playground. Without a kernel it is a table.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

import ipywidgets
import torch
from torch import Tensor

from .data import END, WordTokenizer
from .language_model import TinyLM, next_token_probabilities
from .start.playground import Line, WithTable, percent

SHOWN = 8  # of the likeliest words


def sampler(
    model: TinyLM,
    words: Sequence[str],
    text: str = "the dogs near the cat",
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    examples: Sequence[str] = (),
) -> Sampler:
    """Show what a model expects behind a text, with temperature, top-k, top-p and a draw to try.

    Args:
        model: `(B, T)` ids to `(B, T, V)` logits.
        words: the V words, by id.
        text: what to begin with; it is read as if a sentence began there.
        temperature, top_k, top_p: as in `next_token_probabilities`.
        examples: texts to choose from.
    """
    return Sampler(model, words, text, temperature, top_k, top_p, examples)


class Sampler(WithTable, ipywidgets.VBox):
    """The line with its bars, three sliders and a button that draws."""

    def __init__(
        self,
        model: TinyLM,
        words: Sequence[str],
        text: str,
        temperature: float,
        top_k: int | None,
        top_p: float | None,
        examples: Sequence[str],
    ) -> None:
        self.language_model, self.words, V = model, list(words), len(words)
        self.tokenizer, self.chance = WordTokenizer(words), torch.Generator().manual_seed(0)
        self.line = Line(_examples=list(examples) or [text], _words=sorted(words, key=str.lower))
        style = {"description_width": "7em"}
        wide = ipywidgets.Layout(width="24em")
        self.temperature = ipywidgets.FloatSlider(
            temperature, min=0, max=3, step=0.1, description="temperature", style=style, layout=wide
        )
        self.top_k = ipywidgets.IntSlider(
            top_k or V, min=1, max=V, description="top-k", style=style, layout=wide
        )
        self.top_p = ipywidgets.FloatSlider(
            top_p or 1.0, min=0.05, max=1, step=0.05, description="top-p", style=style, layout=wide
        )
        self.draw = ipywidgets.Button(description="Draw a word", tooltip="and write it down")
        controls = [self.temperature, self.top_k, self.top_p]
        super().__init__([self.line, *controls, self.draw])
        self.line.text = text
        for part, name in [(self.line, "text"), *((slider, "value") for slider in controls)]:
            part.observe(lambda change: self._follow(), name)
        self.draw.on_click(lambda button: self.draw_word())
        self._follow()

    def probabilities(self) -> Tensor:
        """`(V,)`: what the next word is drawn with."""
        known, _ = self._read()
        ids = self.tokenizer.encode(" ".join(known))[-self.language_model.context_length :]
        training = self.language_model.training
        with torch.no_grad():
            logits = self.language_model.eval()(ids[None])[0, -1]  # (1, T, V) -> (V,)
        self.language_model.train(training)
        options = self.temperature.value, self.top_k.value, self.top_p.value
        return next_token_probabilities(logits, *options)

    def draw_word(self) -> str:
        """Draw the next word, write it behind the text, and say which it was."""
        id = int(torch.multinomial(self.probabilities(), 1, generator=self.chance))
        between = "" if self.words[id] == END else " "
        self.line.text = (self.line.text.rstrip() + between + self.words[id]).strip()
        return self.words[id]

    def _read(self) -> tuple[list[str], list[str]]:
        """The words that are known, with the full stop before them, and those that aren't."""
        words = self.line.text.lower().replace(END, f" {END} ").split()
        known = [word for word in words if word in self.words]
        return [END, *known], list(dict.fromkeys(w for w in words if w not in self.words))

    def _follow(self) -> None:
        shares = self.probabilities()
        best = shares.argsort(descending=True, stable=True)[:SHOWN].tolist()
        self.line._bars = [
            [
                self.words[id],
                round(float(shares[id]), 4),
                percent(float(shares[id])) if shares[id] else "0",
            ]
            for id in best
        ]
        count = int((shares > 0).sum())
        self.line._says = f"{count} of {len(self.words)} words can be drawn."
        _, unknown = self._read()
        names = " and ".join(f"“{word}”" for word in unknown[:3])
        self.line._unknown = f"It has never met {names}, and reads on without." if names else ""

    def _html(self) -> str:
        rows = "".join(
            f'<tr><th scope="row" style="text-align:left">{html.escape(word)}</th>'
            f'<td style="text-align:right">{said}</td></tr>'
            for word, _, said in self.line._bars
        )
        says = html.escape(f"After “{self.line.text}”. {self._settings()} {self.line._says}")
        return (
            f'<div class="next-word-static"><p>{says}</p><table><thead><tr>'
            '<th scope="col">next word</th><th scope="col">probability</th></tr></thead>'
            f"<tbody>{rows}</tbody></table></div>"
        )

    def _settings(self) -> str:
        return (
            f"Temperature {self.temperature.value:.1f}, top-k {self.top_k.value}, "
            f"top-p {self.top_p.value:.2f}."
        )

    def __repr__(self) -> str:
        bars = [f"  {said:>5}  {word}" for word, _, said in self.line._bars]
        return "\n".join([f"{self._settings()} {self.line._says}", *bars])
