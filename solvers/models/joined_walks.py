"""Joined walks: several threshold dynamics on one graph that step together.

A product with a large graph waits for memory, and hardly longer for the columns of all dynamics
than for those of one.
"""

from dataclasses import dataclass

import numpy as np

from peewit.solvers.arrays import Float32Array
from peewit.solvers.models.threshold_dynamics import CutState, ThresholdDynamics
from peewit.solvers.status import Status


@dataclass(slots=True, kw_only=True, eq=False)
class JoinedState:
    """The states of all, and room for their columns side by side, before and after a step."""

    parts: list[CutState]
    room: Float32Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinedWalks:
    """Dynamics whose `Nodes.walk` is the same, for `iterate`; each ends as it would alone."""

    parts: tuple[ThresholdDynamics, ...]

    def init(self) -> JoinedState:
        """The first partitions."""
        states = [part.init() for part in self.parts]
        n_entries = sum(state.shares.size for state in states) if len(states) > 1 else 0
        return JoinedState(parts=states, room=np.empty((2, n_entries), np.float32))

    def step(self, state: JoinedState) -> JoinedState:
        """One step of all that have not ended, by one product."""
        going = [
            (part, own)
            for part, own in zip(self.parts, state.parts, strict=True)
            if part.terminate(own) is None
        ]
        if len(going) == 1:
            part, own = going[0]
            part.step(own)
            return state
        known = [part.depart(own) for part, own in going]
        widths = [own.shares.shape[1] for _, own in going]
        n_entries = len(going[0][1].shares) * sum(widths)
        before, after = (room[:n_entries].reshape(-1, sum(widths)) for room in state.room)
        np.concatenate([own.shares for _, own in going], axis=1, out=before)
        self.parts[0].nodes.walk.step(before, after)
        columns = np.split(after, np.cumsum(widths)[:-1], axis=1)
        for (part, own), stopped, shares in zip(going, known, columns, strict=True):
            own.spare[...] = shares
            part.arrive(own, stopped)
        return state

    def terminate(self, state: JoinedState) -> Status | None:
        """Converged once all have."""
        ended = [part.terminate(own) for part, own in zip(self.parts, state.parts, strict=True)]
        return None if None in ended else Status.CONVERGED

    def fraction(self, state: JoinedState) -> float:
        """Share of the rounds that are done, of the last one."""
        done = [part.fraction(own) for part, own in zip(self.parts, state.parts, strict=True)]
        return min(done)
