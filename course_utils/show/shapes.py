"""Traces shapes through a module or function, one step for each call that its author wrote."""

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..desk.language import columns, filled, localised

Shape = tuple[int, ...]
Lettered = list[tuple[Shape, tuple[str, ...]]]

# These colours are light enough for black text; a letter has the same colour in every trace.
LETTER_COLORS = {
    "B": "#d9d9d9",
    "T": "#a6d8f0",
    "S": "#c5e8b7",
    "C": "#ffd59e",
    "H": "#e6c6ee",
    "D": "#fbb4ae",
    "V": "#fff2a8",
}
OTHER_COLORS = ["#c7cdf5", "#e5d8bd", "#b5e5dc"]

LETTERS_BY_INPUT = {2: "BT", 3: "BTC", 4: "BHTD"}

OPERATORS = {"matmul": "@", "bmm": "@", "add": "+", "sub": "-", "mul": "*", "truediv": "/"}
OPERATORS |= {"div": "/", "or": "|", "and": "&", "invert": "~", "bitwise_not": "~"}
OPERATORS |= {"getitem": "[…]", "setitem": "[…] ="}
HEADS = "operation", "from", "to"
RAISED = "an error"
TAKES_SHAPE_FROM_OTHER = {"expand_as", "view_as", "reshape_as", "to", "type_as"}  # or the dtype


@dataclass(frozen=True)
class Step:
    """One operation: its name, the owner of its parameters, if any, and its shapes.

    `outputs` is empty if the operation raised an error.
    """

    operation: str
    owner: str
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]

    @property
    def name(self) -> str:
        return f"{self.owner}: {self.operation}" if self.owner else self.operation


@dataclass(frozen=True)
class ShapeTrace:
    """The steps of a run, as a table in a notebook or as lines of text."""

    title: str
    letters: Mapping[str, int]
    inputs: tuple[Shape, ...]
    steps: tuple[Step, ...]
    limit: int

    def __str__(self) -> str:
        rows = [tuple(map(localised, HEADS))]
        rows += [
            (localised(name), self._text(before), self._text(after) or localised(RAISED))
            for name, before, after in self._rows()
        ]
        first, second = (max(columns(row[i]) for row in rows) for i in (0, 1))
        sizes = ", ".join(f"{letter} = {size}" for letter, size in self.letters.items())
        lines = [localised(f"Shapes through {self.title}"), sizes][: 1 + bool(sizes)]
        lines += [f"{filled(a, first)}   {filled(b, second)}   {c}".rstrip() for a, b, c in rows]
        return "\n".join(lines + self._rest())

    __repr__ = __str__

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/html": self._html(), "text/plain": str(self)}

    def _rows(self) -> Iterator[tuple[str, Lettered, Lettered]]:
        yield "input", [], self._lettered(self.inputs)
        for step in self.steps[: self.limit]:
            before = self._lettered(step.inputs)
            if step.operation == "@" and len(before) == 2:
                (left, rows), (right, columns) = before
                if left[-1:] == right[-2:-1]:  # the summed dimension has the same letter in both
                    before[1] = right, (*columns[:-2], rows[-1], columns[-1])
            yield step.name, before, self._lettered(step.outputs)

    def _lettered(self, shapes: tuple[Shape, ...]) -> Lettered:
        return [(shape, letter_shape(shape, self.letters)) for shape in shapes]

    def _rest(self) -> list[str]:
        hidden = len(self.steps) - self.limit
        return [localised(f"… and {hidden} more steps")] if hidden > 0 else []

    def _text(self, shapes: Lettered) -> str:
        named = [(f"({', '.join(map(str, shape))})", letters) for shape, letters in shapes]
        return "  ".join(" ".join([size, *letters * bool(self.letters)]) for size, letters in named)

    def _html(self) -> str:
        cell = "padding: 2px 10px; text-align: left; white-space: nowrap"
        head = "".join(f'<th scope="col" style="{cell}">{localised(head)}</th>' for head in HEADS)
        body = "".join(
            f'<tr><th scope="row" style="{cell}; font-weight: normal">'
            f"{html.escape(localised(name))}</th>"
            f'<td style="{cell}">{self._chips(before)}</td>'
            f'<td style="{cell}">{self._chips(after) or localised(RAISED)}</td></tr>'
            for name, before, after in self._rows()
        )
        notes = "".join(f"<p>{line}</p>" for line in self._rest())
        return (
            '<div style="overflow-x: auto"><table style="font-family: monospace; color: inherit">'
            '<caption style="text-align: left">'
            f"{html.escape(localised(f'Shapes through {self.title}'))}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}</div>"
        )

    def _chips(self, shapes: Lettered) -> str:
        return "<br>".join(f"({', '.join(map(self._chip, *shape))})" for shape in shapes)

    def _chip(self, size: int, letter: str) -> str:
        if letter not in self.letters:
            return str(size)
        style = f"background: {_color(letter, self.letters)}; color: #000; padding: 0 3px"
        return f'<span style="{style}; border-radius: 3px">{html.escape(letter)} {size}</span>'


def trace_shapes(
    module: nn.Module | Callable[..., Any],
    *inputs: Any,
    names: Mapping[str, int] | None = None,
    limit: int = 60,
    parts: Sequence[str] = (),
) -> ShapeTrace:
    """Run `module(*inputs)` and record the shape of each tensor that depends on the inputs.

    A step is one call in the author's code: `view`, `transpose`, `@`, `softmax`, …. Steps that
    don't depend on the inputs, such as creating a mask, are left out. A size gets its letter by its
    value alone: the first of `names` that the shape doesn't have yet. If all sizes differ, letters
    are unambiguous.

    Args:
        module: a module or a function of tensors.
        inputs: the arguments of the call.
        names: letters and their sizes, such as `{"B": 1, "T": 4, "C": 768, "H": 8, "D": 96}`. The
            default letters of the first input's sizes are B, T, C or, for four sizes, B, H, T, D.
        limit: the maximum number of steps to show.
        parts: names of submodules that count as one step each, whatever they compute; a part inside
            another part ends the outer step, and the outer output gets its own line.

    Raises:
        Any error that the module raises, with the steps before it as a note.

    >>> print(trace_shapes(lambda x: x.view(2, 3, 2, 4).transpose(1, 2), torch.zeros(2, 3, 8),
    ...       names={"B": 2, "T": 3, "C": 8, "H": 2, "D": 4}))
    Shapes through lambda
    B = 2, T = 3, C = 8, H = 2, D = 4
    operation   from                   to
    input                              (2, 3, 8) B T C
    view        (2, 3, 8) B T C        (2, 3, 2, 4) B T H D
    transpose   (2, 3, 2, 4) B T H D   (2, 2, 3, 4) B H T D
    """
    shapes = tuple(tuple(tensor.shape) for tensor in _tensors(inputs))
    letters = dict(names) if names is not None else _guess(shapes)
    title = getattr(module, "__name__", type(module).__name__).strip("<>")
    recorder = _Recorder(module, inputs)

    def trace() -> ShapeTrace:
        return ShapeTrace(title, letters, shapes, tuple(recorder.steps), limit)

    try:
        with ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            stack.enter_context(torch.random.fork_rng(devices=[]))
            for part in parts:
                stack.enter_context(recorder.as_one_step(part))
            stack.enter_context(recorder)
            result = module(*inputs)
        if parts:
            shapes_out = tuple(tuple(tensor.shape) for tensor in _tensors(result))
            recorder.steps.append(Step("output", "", (), shapes_out))
    except Exception as error:
        error.add_note(localised("The steps up to the error:") + f"\n{trace()}")
        raise
    return trace()


def letter_shape(shape: Shape, letters: Mapping[str, int]) -> tuple[str, ...]:
    """Name each size of a shape with a letter, by the rule of `trace_shapes`.

    >>> letter_shape((1, 8, 4, 4), {"B": 1, "H": 8, "T": 4, "S": 4})
    ('B', 'H', 'T', 'S')
    """
    named: list[str] = []
    for size in shape:
        fitting = [letter for letter, value in letters.items() if value == size]
        unused = [letter for letter in fitting if letter not in named]
        again = [letter for letter in fitting if letter != "B" and size != 1]
        named.append((unused + again + [str(size)])[0])
    return tuple(named)


@dataclass
class _Part:
    """A running submodule that counts as one step."""

    name: str
    inputs: tuple[Shape, ...]
    told: bool = False


class _Recorder(TorchFunctionMode):
    """Intercepts each call on tensors at the level of the author's code."""

    def __init__(self, module: Any, inputs: Any) -> None:
        super().__init__()
        self.steps: list[Step] = []
        # Tensors are also stored by reference, because the id of a freed tensor may be reused.
        self.flowing = {id(tensor): tensor for tensor in _tensors(inputs)}
        parameters = module.named_parameters() if isinstance(module, nn.Module) else ()
        self.owners = {id(p): name.rpartition(".")[0] for name, p in parameters}
        self.module = module
        self.open: list[_Part] = []

    @contextmanager
    def as_one_step(self, name: str) -> Iterator[None]:
        """Counts all calls inside a submodule as one step."""
        submodule = self.module.get_submodule(name)

        def enter(_: nn.Module, given: Any, named: Any) -> None:
            shapes = tuple(tuple(tensor.shape) for tensor in _tensors((given, named)))
            if self.open:
                self._end(self.open[-1], shapes)
            self.open.append(_Part(name, shapes))

        def leave(_: nn.Module, given: Any, result: Any) -> None:
            self._end(self.open.pop(), tuple(tuple(t.shape) for t in _tensors(result)))

        hooks = [
            submodule.register_forward_pre_hook(enter, with_kwargs=True),
            submodule.register_forward_hook(leave),
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _end(self, part: "_Part", shapes: tuple[Shape, ...]) -> None:
        if not part.told:
            self.steps.append(Step(part.name, "", part.inputs, shapes))
        part.told = True

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = _name(func)
        given = list(_tensors((args, kwargs)))
        sources = given[:1] if name in TAKES_SHAPE_FROM_OTHER else given
        makes_anew = name.startswith("new_") or name.endswith("_like")
        if makes_anew or not any(id(tensor) in self.flowing for tensor in sources):
            return func(*args, **kwargs)

        owners = [self.owners[id(tensor)] for tensor in given if id(tensor) in self.owners]
        plain = name.strip("_")
        swapped = plain.removeprefix("r") if name.startswith("__r") else plain  # such as in 2 * x
        operation = OPERATORS.get(swapped, plain)
        # Shapes are read before the call, because a call may change a shape in place.
        before = tuple(
            tuple(tensor.shape)
            for tensor in given
            if tensor.ndim and not isinstance(tensor, nn.Parameter)
        )

        def note(results: list[Tensor]) -> None:
            after = tuple(tuple(tensor.shape) for tensor in results)
            if not self.open:
                self.steps.append(Step(operation, owners[0] if owners else "", before, after))

        try:
            result = func(*args, **kwargs)
        except Exception:
            note([])
            raise
        results = given[:1] if name == "__setitem__" else list(_tensors(result))
        if results:
            self.flowing.update((id(tensor), tensor) for tensor in results)
            note(results)
        return result


def _name(func: Callable[..., Any]) -> str:
    """The operation's name, such as `transpose`, or the attribute's name for `x.mT` and others."""
    if func.__name__ == "__get__":
        return getattr(getattr(func, "__self__", None), "__name__", "__get__")
    return func.__name__


def _tensors(values: Any) -> Iterator[Tensor]:
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, Mapping):
        yield from _tensors(tuple(values.values()))
    elif isinstance(values, tuple | list):
        for value in values:
            yield from _tensors(value)


def _guess(shapes: tuple[Shape, ...]) -> dict[str, int]:
    first = shapes[0] if shapes else ()
    return dict(zip(LETTERS_BY_INPUT.get(len(first), ""), first, strict=False))


def _color(letter: str, letters: Mapping[str, int]) -> str:
    others = [name for name in letters if name not in LETTER_COLORS]
    if letter in LETTER_COLORS:
        return LETTER_COLORS[letter]
    return OTHER_COLORS[others.index(letter) % len(OTHER_COLORS)]
