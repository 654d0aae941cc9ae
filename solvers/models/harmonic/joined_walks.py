"""Joined walks: several threshold dynamics on one graph that step together.

A product with a large graph waits for memory: the columns of all dynamics take hardly longer than
those of one.
"""

from dataclasses import dataclass

import numpy as np

from peewit.solvers.arrays import Float32Array
from peewit.solvers.models.harmonic.threshold_dynamics import CutState, ThresholdDynamics
from peewit.solvers.status import Status


@dataclass(slots=True, kw_only=True, eq=False)
class JoinedState:
    """The states of all, and the columns of those that still walk, before and after a step."""

    parts: list[CutState]  # ``shares`` and ``spare`` are views of ``before`` and ``after``
    going: list[int]  # places of those that still walk
    before: Float32Array  # (n_nodes, n_columns)
    after: Float32Array  # (n_nodes, n_columns)

    def narrow(self, going: list[int]) -> None:
        """Keep only ``going``, side by side in the same memory."""
        self.going = going
        states = [self.parts[place] for place in going]
        widths = [state.shares.shape[1] for state in states]
        shape = len(self.before), sum(widths)
        after, before = (
            room.ravel()[: shape[0] * shape[1]].reshape(shape) for room in (self.before, self.after)
        )
        for state, columns in zip(states, _columns(before, widths), strict=True):
            columns[...] = state.shares
            state.shares = columns
        for state, columns in zip(states, _columns(after, widths), strict=True):
            state.spare = columns
        self.before, self.after = before, after


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinedWalks:
    """Dynamics that share `Nodes.walk`, for `iterate`; each ends as it would alone.

    All are judged, so that the shares they return are copies, not these columns.
    """

    parts: tuple[ThresholdDynamics, ...]

    def init(self) -> JoinedState:
        """The first partitions."""
        n_nodes = self.parts[0].first.size
        widths = [part.nodes.n_classes for part in self.parts]
        before, after = np.empty((2, n_nodes, sum(widths)), np.float32)
        columns = zip(_columns(before, widths), _columns(after, widths), strict=True)
        states = [part.begun(*own) for part, own in zip(self.parts, columns, strict=True)]
        return JoinedState(parts=states, going=list(range(len(states))), before=before, after=after)

    def step(self, state: JoinedState) -> JoinedState:
        """One step of all that have not ended, by one product."""
        going = [at for at in state.going if self.parts[at].terminate(state.parts[at]) is None]
        if len(going) < len(state.going):
            state.narrow(going)
        known = [self.parts[at].depart(state.parts[at]) for at in going]
        self.parts[0].nodes.walk.step(state.before, state.after)
        for at, stopped in zip(going, known, strict=True):
            self.parts[at].arrive(state.parts[at], stopped)
        state.before, state.after = state.after, state.before
        return state

    def terminate(self, state: JoinedState) -> Status | None:
        """Converged once all have."""
        ended = [part.terminate(own) for part, own in zip(self.parts, state.parts, strict=True)]
        return None if None in ended else Status.CONVERGED

    def fraction(self, state: JoinedState) -> float:
        """Share of the rounds that are done, of the slowest one."""
        done = [part.fraction(own) for part, own in zip(self.parts, state.parts, strict=True)]
        return min(done)


def _columns(room: Float32Array, widths: list[int]) -> list[Float32Array]:
    """Views of ``room`` with ``widths`` columns, side by side."""
    return np.split(room, np.cumsum(widths)[:-1], axis=1)
