"""Gram plan: the form of a Gram matrix that fits the memory, chosen before it is computed."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor
from typing import Final, Literal, cast

import numpy as np

GramName = Literal["dense", "blocked", "landmarks", "sparse", "linear"]
GRAMS: tuple[GramName, ...] = ("dense", "blocked", "landmarks")
"""Forms that every kernel has; a linear one needs no Gram matrix."""

PrecisionName = Literal["float32", "float64"]
PRECISIONS: tuple[PrecisionName, ...] = ("float32", "float64")

_BLOCK_BYTES: Final = 1 << 28
"""A block of the Gram matrix made per product, with what is computed beside it."""

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30


class GramTooLarge(ValueError):
    """The requested form does not fit; the message names others that do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GramPlan:
    """A form of the Gram matrix, its dtype and its memory."""

    form: GramName
    dtype: np.dtype[np.floating]
    n_bytes: int  # for the form and for the method that works on it


@dataclass(frozen=True, slots=True, kw_only=True)
class GramRequest:
    """What is to be stored."""

    n_rows: int  # nodes with features
    n_columns: int  # numbers in each row
    row_bytes: int  # of a row as the caller gives it
    is_linear: bool  # linear kernel: features serve instead of a Gram matrix
    n_landmarks: int
    is_factored: bool  # the method factors the matrix: Newton and the dual, not iterations
    n_nearest: int = 0  # entries of a row of a sparse matrix, about

    def n_bytes(self, form: GramName, precision: PrecisionName) -> int:
        """Memory of a form and of the method that works on it."""
        itemsize = np.dtype(precision).itemsize
        rows = self.n_rows * self.row_bytes
        if form == "dense":
            factors = self.n_rows**2 * 8 if self.is_factored else 0
            return self.n_rows**2 * itemsize + factors + rows
        if form == "blocked":
            return rows + min(_BLOCK_BYTES, self.n_rows**2 * itemsize)
        if form == "sparse":
            factors = 3 * self.n_rows**2 * 8 if self.is_factored else 0
            return factors + 2 * self.n_rows * self.n_nearest * (itemsize + 8) + 3 * rows
        width = self.n_columns if form == "linear" else min(self.n_landmarks, self.n_rows)
        factors = 3 * width**2 * 8 if self.is_factored or form == "landmarks" else 0
        block = min(_BLOCK_BYTES, self.n_rows * max(width, 1) * itemsize)
        return factors + block + (2 * rows if form == "linear" else 0)

    def plan(
        self, form: str, precision: PrecisionName | Literal["auto"], budget_bytes: int
    ) -> GramPlan:
        """The requested form, or the best one that fits; raises `GramTooLarge`.

        'auto' is linear for a linear kernel, else dense if that fits, else landmarks; float64 if
        that fits.
        """
        best: GramName = "linear" if self.is_linear else "dense"
        forms: tuple[GramName, ...] = (best, "landmarks")
        if form != "auto":
            forms = (cast("GramName", form),)
        wanted: tuple[PrecisionName, ...] = ("float64", "float32")
        if precision != "auto":
            wanted = (precision,)
        for gram in forms:
            for dtype in wanted:
                n_bytes = self.n_bytes(gram, dtype)
                if n_bytes <= budget_bytes:
                    return GramPlan(form=gram, dtype=np.dtype(dtype), n_bytes=n_bytes)
        raise GramTooLarge(self._refusal(forms[0], wanted[-1], budget_bytes))

    def _refusal(self, form: GramName, precision: PrecisionName, budget_bytes: int) -> str:
        """Message that says why a form is refused, and what fits."""
        others: list[tuple[GramName, PrecisionName, str]] = [
            ("dense", "float32", "gram='dense' with precision='float32'"),
            ("landmarks", "float32", "gram='landmarks' (approximate)"),
            ("blocked", "float32", "gram='blocked' with method='pcg' (exact, slower)"),
        ]
        fitting = [
            text
            for name, own, text in others
            if (name, own) != (form, precision) and self.n_bytes(name, own) <= budget_bytes
        ]
        advice = f"use {', or '.join(fitting)}" if fitting else "allow it more memory"
        return (
            f"gram {form!r} in {precision} needs {_text(self.n_bytes(form, precision), ceil)} for "
            f"{self.n_rows} nodes, but {_text(budget_bytes, floor)} may be used; {advice}"
        )


def _text(n_bytes: int, whole: Callable[[float], int]) -> str:
    """Size in GiB to the hundredth, or in MiB, rounded so that a misfit never looks like a fit."""
    if n_bytes >= _GIB:
        return f"{whole(100 * n_bytes / _GIB) / 100:.2f} GiB"
    return f"{whole(n_bytes / _MIB):,} MiB"
