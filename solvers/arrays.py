"""Array aliases and the dtype rules that all modules share.

Indices are int32 while they fit, answers float64, embeddings and records float32.
"""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]
RealArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.signedinteger[Any]]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
UInt8Array = npt.NDArray[np.uint8]
UInt32Array = npt.NDArray[np.uint32]
UInt64Array = npt.NDArray[np.uint64]
BoolArray = npt.NDArray[np.bool_]

_Dtype = TypeVar("_Dtype", bound=np.generic)

INT32_MAX = int(np.iinfo(np.int32).max)


def frozen(array: npt.NDArray[_Dtype]) -> npt.NDArray[_Dtype]:
    """Read-only view of ``array``; the caller must own the memory behind it."""
    view = array.view()
    view.setflags(write=False)
    return view


def frozen_all(*arrays: npt.NDArray[Any]) -> Any:
    """Read-only plain views, also of mapped arrays, for kernels that are compiled only for these.

    To numba writable and read-only arrays are of different types.
    """
    return tuple(frozen(np.asarray(array)) for array in arrays)


def index_dtype(n_nonzero: int, n_nodes: int) -> type[np.int32] | type[np.int64]:
    """Integer type of the indices of a sparse matrix of that size."""
    return np.int32 if max(n_nonzero, n_nodes) <= INT32_MAX else np.int64


def integer_ids(name: str, nodes: npt.ArrayLike) -> IntArray:
    """One-dimensional signed integer node ids; unsigned ones become int64.

    Raises TypeError for other types, ValueError for another shape.
    """
    array = np.asarray(nodes)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}")
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integer node ids, got dtype {array.dtype}")
    if array.dtype.kind == "u":
        return array.astype(np.int64)
    return array


def checked_nodes(name: str, nodes: npt.ArrayLike, n_nodes: int) -> IntArray:
    """One-dimensional integer node ids, each in [0, n_nodes).

    Raises TypeError for other types, ValueError for another shape or an id outside the range.
    """
    array = integer_ids(name, nodes)
    if array.size and not (array.min() >= 0 and array.max() < n_nodes):
        row = int(np.argmax((array < 0) | (array >= n_nodes)))
        value = np.asarray(nodes)[row]
        raise ValueError(f"{name} must lie in [0, {n_nodes}), got {value} in row {row}")
    return array


_LEAST_SQUARES, _MOST_SQUARES = 1e-250, 1e300  # sums in this range lose no digit


def column_norms(block: FloatArray) -> FloatArray:
    """(k,) Euclidean norm of each column, also where squares would leave the range."""
    squares = np.einsum("ij,ij->j", block, block)
    if ((squares > _LEAST_SQUARES) & (squares < _MOST_SQUARES)).all():
        plain: FloatArray = np.sqrt(squares)
        return plain
    size = np.abs(block).max(axis=0, initial=0.0)
    size = np.where((size > 0) & np.isfinite(size), size, 1.0)
    norms: FloatArray = size * np.sqrt(np.square(block / size).sum(axis=0))
    return norms
