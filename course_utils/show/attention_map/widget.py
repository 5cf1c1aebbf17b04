"""`attention_map`, a heatmap of attention that a reader can explore in a notebook."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import traitlets

from course_utils.desk.language import localised
from course_utils.show.attention_map import static
from course_utils.show.page import joined
from course_utils.show.with_table import WithTable

MOST_NUMBERS = 4_000_000  # a page loads this many without a pause: 144 heads of 128 × 128 fit
COLDEST, HOTTEST = 0.1, 10.0
# The numbers that the table shows at a step before the weights, and whether they are scaled.
STATIC_STEPS = {
    "query · key": ("Products of queries and keys", False),
    "scores": ("Scores", False),
    "scaled": ("Scaled scores", True),
    "masked": ("Masked scores", True),
}


def attention_map(
    scores: torch.Tensor,
    queries: Sequence[str],
    keys: Sequence[str] | None = None,
    hidden: torch.Tensor | None = None,
    *,
    causal: bool = False,
    pad_mask: torch.Tensor | None = None,
    query: torch.Tensor | None = None,
    key: torch.Tensor | None = None,
    values: torch.Tensor | None = None,
    scale: float | None = None,
    head_names: Sequence[str] | Sequence[Sequence[str]] | None = None,
    temperature: float = 1.0,
    layer: int = 0,
    head: int = 0,
    row: int = -1,
    step: str = "softmax",
    overview: bool = False,
) -> "AttentionMap":
    """Show attention scores as a map: hover, click or use the arrow keys to read a row.

    The weights are `softmax(scores * scale / temperature)`; a row with no visible key has zeros.

    Args:
        scores: a tensor `(T, S)`, `(heads, T, S)` or `(layers, heads, T, S)`; -inf is hidden.
        queries, keys: T and S labels; by default, the keys have the queries' labels.
        hidden: a bool mask, broadcastable to `scores`; True is hidden.
        causal: whether to hide the keys after each query as well; needs T = S.
        pad_mask: a bool mask `(S,)`; True is padding, which is hidden from every query.
        query, key: vectors `(T, D)` and `(S, D)`, with the leading dimensions of `scores`, if any;
            `scores` must be `query @ key.mT`, unscaled. They add a step "query · key".
        values: vectors `(S, D)`, also with leading dimensions, which add a step "weighted sum".
        scale: a factor such as `d_head ** -0.5`; by default, the scores count as already scaled.
        head_names: one name per head, or one per head of each layer.
        temperature, layer, head, row: the initial choice; temperatures are from 0.1 to 10.
        step: one of "query · key", "scores", "scaled", "masked", "softmax" and "weighted sum".
        overview: whether to begin with all heads of the layer side by side.

    Raises:
        ValueError: a size, type or number doesn't fit; the message names it.
    """
    scores = _scores(scores)
    shown_queries, shown_keys = _axes(queries, keys, scores)
    if scale is not None and not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"scale must be a finite number above 0; got {scale}.")
    four = (1,) * (4 - scores.dim()) + tuple(scores.shape)
    begin: dict[str, Any] = {"temperature": temperature, "layer": layer, "head": head, "row": row}
    begin |= {"step": step, "overview": overview}
    return AttentionMap(
        scores=scores.reshape(four),
        queries=shown_queries,
        keys=shown_keys,
        masks=_masks(scores, hidden, causal, pad_mask),
        query_key=_query_key(query, key, scores),
        values=None if values is None else _vectors("values", values, scores, scores.shape[-1]),
        head_names=_head_names(head_names, four),
        scale=None if scale is None else float(scale),
        **begin,
    )


class AttentionMap(WithTable):
    """The widget behind `attention_map`; that function checks and explains the arguments."""

    _esm = joined(Path(__file__).with_name("attention_map.js"))
    _css = Path(__file__).with_name("attention_map.css")

    layer = traitlets.Int().tag(sync=True)
    head = traitlets.Int().tag(sync=True)
    row = traitlets.Int().tag(sync=True)
    temperature = traitlets.Float(1.0).tag(sync=True)
    step = traitlets.Unicode("softmax").tag(sync=True)
    overview = traitlets.Bool().tag(sync=True)
    active_masks = traitlets.List(traitlets.Unicode()).tag(sync=True)
    _data = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        scores: torch.Tensor,
        queries: list[str],
        keys: list[str],
        masks: dict[str, torch.Tensor],
        values: torch.Tensor | None,
        query_key: tuple[torch.Tensor, torch.Tensor] | None,
        head_names: list[list[str]] | None,
        scale: float | None,
        **chosen: Any,
    ) -> None:
        self._scores = scores  # (L, H, T, S)
        self._queries = queries
        self._keys = keys
        self._values = values  # (L or 1, H or 1, S, D)
        self._masks = masks  # each (L or 1, H or 1, T or 1, S), True is hidden
        self._scale = 1.0 if scale is None else scale
        self._head_names = head_names
        self._steps = ["scores"] if query_key is None else ["query · key", "scores"]
        if scale is not None:
            self._steps.append("scaled")
        if masks or (scores == -math.inf).any():
            self._steps.append("masked")
        self._steps.append("softmax")
        if values is not None:
            self._steps.append("weighted sum")
        super().__init__(
            _data={
                "scores": _packed(scores),
                "masks": {name: _packed(mask) for name, mask in masks.items()},
                "values": None if values is None else _packed(values),
                "query": None if query_key is None else _packed(query_key[0]),
                "key": None if query_key is None else _packed(query_key[1]),
                "head_names": head_names,
                "scale": scale,
                "steps": self._steps,
                "queries": queries,
                "keys": keys,
            },
            active_masks=list(masks),
            **chosen,
        )

    @property
    def weights(self) -> torch.Tensor:
        """The displayed weights, `(T, S)`, in the scores' dtype; exactly 0 for hidden keys."""
        return self._weights(self.layer, self.head).to(self._scores.dtype)

    def _hidden(self, layer: int, head: int) -> torch.Tensor:
        hidden = self._scores[layer, head] == -math.inf  # (T, S)
        for name in self.active_masks:
            mask = self._masks[name]
            hidden = hidden | mask[layer % mask.shape[0], head % mask.shape[1]]
        return hidden

    def _weights(self, layer: int, head: int) -> torch.Tensor:
        hidden = self._hidden(layer, head)
        scaled = self._scores[layer, head].double() * self._scale
        masked = scaled.masked_fill(hidden, -math.inf)
        # Scores are never NaN, so the softmax gives NaN only in a row with no visible key.
        return (masked / self.temperature).softmax(-1).nan_to_num(0.0)

    @traitlets.validate("layer", "head", "row")
    def _index(self, proposal: Any) -> int:
        name, index = proposal["trait"].name, proposal["value"]
        size = self._scores.shape[("layer", "head", "row").index(name)]
        if not -size <= index < size:
            raise ValueError(f"{name} must be from 0 to {size - 1}; got {index}.")
        return index % size

    @traitlets.validate("temperature")
    def _tempered(self, proposal: Any) -> float:
        if not COLDEST <= proposal["value"] <= HOTTEST:
            raise ValueError(
                f"temperature must be from {COLDEST:g} to {HOTTEST:g}; got {proposal['value']}."
            )
        return proposal["value"]

    @traitlets.validate("step")
    def _known_step(self, proposal: Any) -> str:
        if proposal["value"] not in self._steps:
            raise ValueError(f"step must be one of {self._steps}; got {proposal['value']!r}.")
        return proposal["value"]

    @traitlets.validate("active_masks")
    def _known_masks(self, proposal: Any) -> list[str]:
        unknown = [name for name in proposal["value"] if name not in self._masks]
        if unknown:
            raise ValueError(
                f"active_masks may name {list(self._masks)}, the masks given; got {unknown}."
            )
        return [name for name in self._masks if name in proposal["value"]]

    def _sentence(self, head: int) -> str:
        return static.sentence(
            self._weights(self.layer, head)[self.row].tolist(),
            self._hidden(self.layer, head)[self.row].tolist(),
            static.names(self._queries)[self.row],
            static.names(self._keys),
        )

    def _place(self) -> str:
        layers, heads = self._scores.shape[:2]
        place = [localised(f"layer {self.layer} of 0–{layers - 1}")] if layers > 1 else []
        if heads > 1:
            place += [localised(f"head {self.head} of 0–{heads - 1}") + self._named(self.head)]
        place += [localised(f"temperature {self.temperature:g}")] if self.temperature != 1 else []
        return ", ".join(place)

    def _named(self, head: int) -> str:
        return f" ({self._head_names[self.layer][head]})" if self._head_names else ""

    def __repr__(self) -> str:
        sizes = localised(f"{len(self._queries)} queries × {len(self._keys)} keys")
        place = self._place()
        sentence = localised(self._sentence(self.head))
        return f"attention_map({sizes}{place and ', ' + place}): {sentence}"

    def _html(self) -> str:
        place = self._place()
        others = [head for head in range(self._scores.shape[1]) if head != self.head]
        scores = self._scores[self.layer, self.head].double()
        hidden = self._hidden(self.layer, self.head)
        if self.step in ("query · key", "scores", "scaled"):
            hidden = scores == -math.inf
        what, scale = STATIC_STEPS.get(self.step, ("Attention weights", None))
        weights = self._weights(self.layer, self.head)
        numbers = weights if scale is None else scores * (self._scale if scale else 1.0)
        sentences = [self._sentence(self.head), *self._arithmetic(weights)]
        return static.table(
            numbers.tolist(),
            hidden.tolist(),
            self._queries,
            self._keys,
            title=f"{localised(what)}{place and ', ' + place}",
            row=self.row,
            notes=sentences
            + [
                f"{localised(f'head {head}')}{self._named(head)}{localised(': ')}"
                f"{localised(self._sentence(head).rpartition(';')[0])}"
                for head in others
            ],
            sums=scale is None,
        )

    def _arithmetic(self, weights: torch.Tensor) -> list[str]:
        """The chosen row's weighted sum in digits, if its step is shown and the sum is short."""
        if self.step != "weighted sum" or self._values is None:
            return []
        values = self._values[self.layer % len(self._values)]
        values = values[self.head % len(values)].double()
        if values.numel() > 24:
            return []
        row = weights[self.row]
        parts = [
            f"{static.fixed(float(w), 2)} · {_vector(v)}"
            for w, v in zip(row, values, strict=True)
            if w
        ]
        query = static.names(self._queries)[self.row]
        return [f"context of {query}: {' + '.join(parts)} = {_vector(row @ values)}"]


def _vector(vector: torch.Tensor) -> str:
    return f"({', '.join(static.fixed(float(number), 2) for number in vector)})"


def _size(tensor: torch.Tensor) -> str:
    return str(tuple(tensor.shape))


def _numbers(name: str, given: Any) -> torch.Tensor:
    """Real numbers as a float32 or float64 tensor, on the CPU, without gradient."""
    tensor = _tensor(name, given)
    if tensor.is_complex() or tensor.dtype == torch.bool:
        raise ValueError(f"{name} must be real numbers; got {tensor.dtype}, {_size(tensor)}.")
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def _booleans(name: str, given: Any) -> torch.Tensor:
    tensor = _tensor(name, given)
    if tensor.dtype != torch.bool:
        raise ValueError(
            f"{name} must be bool, True where hidden; got {tensor.dtype}, {_size(tensor)}."
        )
    return tensor


def _tensor(name: str, given: Any) -> torch.Tensor:
    try:
        tensor = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must be a tensor; got {type(given).__name__}: {error}") from None
    return tensor.detach().cpu().clone()


def _scores(given: Any) -> torch.Tensor:
    scores = _numbers("scores", given)
    if not 2 <= scores.dim() <= 4 or 0 in scores.shape:
        raise ValueError(
            "scores must be (T, S), (heads, T, S) or (layers, heads, T, S) with nothing empty; "
            f"got {_size(scores)}. Of a batch, pass one example: scores[0]."
        )
    if scores.isnan().any() or (scores == math.inf).any():
        raise ValueError(
            f"scores {_size(scores)} hold nan or inf; only finite numbers, or -inf where hidden, "
            "can go through a softmax."
        )
    if scores.numel() > MOST_NUMBERS:
        raise ValueError(
            f"scores {_size(scores)} hold {scores.numel():,} numbers; a page takes up to "
            f"{MOST_NUMBERS:,}. Pass fewer layers, heads or tokens, such as scores[:1]."
        )
    return scores


def _axes(
    queries: Sequence[str], keys: Sequence[str] | None, scores: torch.Tensor
) -> tuple[list[str], list[str]]:
    """The labels of the rows and of the columns."""
    num_queries, num_keys = scores.shape[-2:]
    rows = _labels("queries", queries, num_queries, scores)
    if keys is not None:
        return rows, _labels("keys", keys, num_keys, scores)
    if num_queries != num_keys:
        raise ValueError(
            f"scores {_size(scores)} have {num_queries} queries and {num_keys} keys: the keys need "
            "labels of their own, keys=[…]."
        )
    return rows, rows


def _labels(name: str, given: Sequence[str], size: int, scores: torch.Tensor) -> list[str]:
    labels = [static.visible(label) for label in given]
    if len(labels) != size:
        raise ValueError(
            f"{name} must be {size} labels for scores {_size(scores)}; got {len(labels)}."
        )
    return labels


def _masks(
    scores: torch.Tensor,
    hidden: torch.Tensor | None,
    causal: bool,
    pad_mask: torch.Tensor | None,
) -> dict[str, torch.Tensor]:
    """The given masks by name, each (L or 1, H or 1, T or 1, S); True means hidden."""
    masks = {}
    if hidden is not None:
        masks["hidden"] = _hidden(hidden, scores)
    if causal:
        masks["causal"] = _causal(scores)
    if pad_mask is not None:
        masks["padding"] = _padding(pad_mask, scores)
    return masks


def _hidden(given: Any, scores: torch.Tensor) -> torch.Tensor:
    hidden = _booleans("hidden", given)
    try:
        torch.broadcast_to(hidden, scores.shape)
    except RuntimeError:
        raise ValueError(
            f"hidden {_size(hidden)} can't be broadcast to scores {_size(scores)}."
        ) from None
    # (…) -> (L or 1, H or 1, T or 1, S): repeated parts are sent only once, but rows are complete.
    hidden = hidden.reshape((1,) * (4 - hidden.dim()) + tuple(hidden.shape))
    return hidden.expand(*hidden.shape[:3], scores.shape[-1])


def _causal(scores: torch.Tensor) -> torch.Tensor:
    num_queries, num_keys = scores.shape[-2:]
    if num_queries != num_keys:
        raise ValueError(
            f"causal=True needs as many keys as queries; scores {_size(scores)} have "
            f"{num_queries} queries and {num_keys} keys. Pass the mask you mean as hidden=."
        )
    future = torch.ones(num_queries, num_keys, dtype=torch.bool).triu(1)
    return future[None, None]  # (1, 1, T, S)


def _padding(given: Any, scores: torch.Tensor) -> torch.Tensor:
    num_keys = scores.shape[-1]
    pad_mask = _booleans("pad_mask", given)
    if pad_mask.shape != (num_keys,):
        raise ValueError(
            f"pad_mask must be ({num_keys},), one bool a key; got {_size(pad_mask)}. "
            "Of a batch, pass one example: pad_mask[0]."
        )
    return pad_mask[None, None, None]  # (1, 1, 1, S)


def _vectors(name: str, given: Any, scores: torch.Tensor, count: int) -> torch.Tensor:
    """One vector per token, (L or 1, H or 1, T or S, D); `count` is T or S."""
    vectors = _numbers(name, given)
    wanted = (*scores.shape[:-2], count)
    fits = (
        2 <= vectors.dim() <= scores.dim()
        and vectors.shape[-1] > 0
        and vectors.shape[-2] == count
        and all(
            mine in (1, theirs)
            for mine, theirs in zip(vectors.shape[-3::-1], scores.shape[-3::-1], strict=False)
        )
    )
    if not fits:
        shapes = [f"({', '.join(map(str, wanted[i:]))}, D)" for i in range(len(wanted))]
        others = ", ".join(shapes[:0:-1])
        raise ValueError(
            f"{name} must be {others}{others and ' or '}{shapes[0]} for scores {_size(scores)}; "
            f"got {_size(vectors)}."
        )
    if not vectors.isfinite().all():
        raise ValueError(f"{name} {_size(vectors)} hold nan or inf; only finite numbers add up.")
    if vectors.numel() > MOST_NUMBERS:
        raise ValueError(
            f"{name} {_size(vectors)} hold {vectors.numel():,} numbers; a page takes up to "
            f"{MOST_NUMBERS:,}."
        )
    return vectors.reshape((1,) * (4 - vectors.dim()) + tuple(vectors.shape))


def _query_key(
    query: Any, key: Any, scores: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Queries and keys, after checking that the scores are their products."""
    if query is None and key is None:
        return None
    if query is None or key is None:
        raise ValueError("query and key belong together: pass both, or neither.")
    queries = _vectors("query", query, scores, scores.shape[-2])
    keys = _vectors("key", key, scores, scores.shape[-1])
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError(
            f"query and key must be equally wide; got {_size(queries)} and {_size(keys)}."
        )
    products = queries.double() @ keys.double().transpose(-2, -1)
    gap = (products - scores)[scores.expand_as(products) != -math.inf].abs()
    size = products.abs().max().item()
    if gap.numel() and gap.max() > 0.02 * max(size, 1e-6):  # bfloat16 has only two digits
        raise ValueError(
            "scores must be query @ key.transpose(-2, -1), before any scale; they are "
            f"{gap.max().item():.3g} apart. A scale goes in as scale=."
        )
    return queries, keys


def _head_names(given: Any, four: tuple[int, ...]) -> list[list[str]] | None:
    """The heads' names by layer and head."""
    if given is None:
        return None
    layers, heads = four[:2]
    flat = all(isinstance(name, str) for name in given)
    named = [
        [static.visible(name) for name in row] for row in ([given] * layers if flat else given)
    ]
    if [len(row) for row in named] != [heads] * layers:
        per_layer = f", or {layers} lists of them" if layers > 1 else ""
        raise ValueError(
            f"head_names must be {heads} names{per_layer}; got {[len(row) for row in named]}."
        )
    return named


def _packed(tensor: torch.Tensor) -> dict[str, Any]:
    numbers = tensor.contiguous().numpy()
    return {"shape": list(numbers.shape), "dtype": str(numbers.dtype), "bytes": numbers.tobytes()}
