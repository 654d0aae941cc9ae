"""Preconditioned system of a Laplacian: its matrix, preconditioner and numbering."""

from dataclasses import dataclass

import numpy as np

from peewit.solvers.arrays import FloatArray, IntArray, RealArray
from peewit.solvers.laplacian.pcg import BlockPCG
from peewit.solvers.laplacian.preconditioners import Jacobi, Preconditioner
from peewit.solvers.laplacian.shifted_laplacian import ShiftedLaplacian


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class System:
    """A matrix, its preconditioner, and the order of its nodes (None: that of the graph)."""

    operator: ShiftedLaplacian
    preconditioner: Preconditioner
    order: IntArray | None

    def pcg(
        self, rhs: RealArray, start: RealArray, norms: FloatArray, rtol: float, patience: int | None
    ) -> BlockPCG:
        """Conjugate gradients for a block in the system's order and type, see `BlockPCG`."""
        return BlockPCG(
            operator=self.operator,
            preconditioner=self.preconditioner,
            rhs=rhs,
            start=start,
            norms=norms,
            rtol=rtol,
            patience=patience,
        )

    def in_single(self) -> "System | None":
        """The system in float32; None if it is in float32 already or out of its range."""
        single = self.operator.in_single() if self.operator.dtype == np.float64 else None
        if single is None:
            return None
        is_jacobi = isinstance(self.preconditioner, Jacobi)
        return System(
            operator=single,
            preconditioner=Jacobi(single) if is_jacobi else self.preconditioner,
            order=self.order,
        )

    def inside(self, block: RealArray) -> RealArray:
        """The block in the system's order and type; the block itself if nothing changes."""
        rows = block if self.order is None else np.take(block, self.order, axis=0)
        return np.ascontiguousarray(rows, dtype=self.operator.dtype)

    def outside(self, block: RealArray) -> RealArray:
        """The block in the graph's order."""
        if self.order is None:
            return block
        out = np.empty_like(block)
        out[self.order] = block
        return out
