"""What stops with PyTorch's own error the first time it is run: likely slips around a mask."""

from __future__ import annotations

import torch

from ...checking import Mistake


class MaskOfNumbers(Mistake):
    """Your mask holds the numbers 0 and 1; a mask holds `True` and `False`.

    Why: PyTorch refuses to guess which numbers mean hidden.
    Mend: `.bool()` turns 1 into `True` and 0 into `False`; `dtype=torch.bool` makes a mask at once.
    """

    def future(self, T, device=None):
        return super().future(T, device).float()


class MaskWrittenOver(Mistake):
    """`forward` writes over the mask that the constructor made.

    Why: After a short text the mask is too small for a longer one, or holds the padding of the call
        before.
    Mend: Give the part that you cut out a name of its own, and leave the buffer as it is.
    """

    def keep_mask(self, context_length):
        mask = torch.ones(context_length, context_length, dtype=torch.bool).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def future(self, T, device=None):
        self.mask = self.mask[:T, :T]
        return self.mask


def padding_written_over(self, T, device, pad_mask=None):
    """For `MaskWrittenOver.but(hidden=…)`: the padding of a call is joined to the buffer."""
    if pad_mask is not None:
        self.mask = self.mask[:T, :T] | pad_mask[:, None, :]
    return self.mask


def padding_written_over_a_cut(self, T, device, pad_mask=None):
    """The same, where the buffer is cut on its way to the scores as well."""
    if pad_mask is not None:
        self.mask = self.mask[:T, :T] | pad_mask[:, None, :]
    return self.mask[:T, :T]


class LinedUpFromTheRight(Mistake):
    """`(T, T) | (B, T)` lines the sequences up with the rows of the triangle.

    Why: With as many sequences as tokens there is no error, only a wrong mask; with one sequence
        it is right by luck.
    Mend: The batch needs a dimension of its own, and the rows one of size 1.
    """

    def columns(self, pad_mask):
        return pad_mask


class WithoutKeepdim(Mistake):
    """The rows that see nothing were marked in a tensor without its last dimension.

    Why: `(…, T)` beside `(…, T, S)` is lined up from the right: queries meet keys.
    Mend: `all` has the same option as `sum` and `amax` to keep what it folds up at size 1.
    """

    def blind(self, hidden):
        return hidden.all(dim=-1)


class NotStoodUp(Mistake):
    """The positions were compared with the lengths as they came, `(S,)` with `(B,)`.

    Why: Both lie in the same direction, so each length meets one position and not all of them.
    Mend: Which of the two should stand as a column, so that every pair is compared?
    """

    def compared(self, places, lengths, max_length):
        return super().compared(places, lengths[:, 0], max_length)
