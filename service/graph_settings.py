"""Settings of a graph, which people choose: what they mean, and which are fixed once it exists."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args

from peewit.solvers.arguments import BadArgument
from peewit.streaming.edge_budget import edge_budget
from peewit.streaming.edges.change_rules import Deletions, Parallel
from peewit.streaming.edges.node_kinds import NODE_KINDS, NodeKind
from peewit.streaming.edges.windows import Window

MAX_NODES: Final = 2**31 - 2
"""Dense node ids are int32."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_FIXED: Final = ("node_ids", "expected_nodes", "max_nodes", "seed", "deletions")
_TABLE_COLUMNS: Final = ("src", "dst", "weight", "op", "time", "node", "label")
_MAX_COLUMN_NAME: Final = 1000


class GraphConflict(BadArgument):
    """A setting that is fixed once a graph exists was to be changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotEvery:
    """When ingest publishes a snapshot before it runs out of files: after either amount.

    Attributes
    ----------
    edges : int, optional
        Edges read since the last snapshot; at least 1.
    seconds : float, optional
        Time since the last snapshot; more than 0.

    Raises
    ------
    ValueError
        Neither is given, or one breaks its rule.
    """

    edges: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.edges is None and self.seconds is None:
            raise BadArgument("snapshot_every", "must give edges, seconds or both, got neither")
        if self.edges is not None and self.edges < 1:
            raise BadArgument("snapshot_every.edges", f"must be at least 1, got {self.edges}")
        if self.seconds is not None and not 0 < self.seconds < float("inf"):
            raise BadArgument("snapshot_every.seconds", f"must be positive, got {self.seconds}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoSolve:
    """The solve that follows every new snapshot and every change of a label.

    Attributes
    ----------
    model : str
        Public name of a model; that it exists is checked where the request comes in.
    parameters : mapping
        The model's hyperparameters, JSON values; those left out take their defaults.

    Raises
    ------
    ValueError
        ``model`` is empty or ``parameters`` cannot be written as JSON.
    """

    model: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.model:
            raise BadArgument("auto_solve.model", "must name a model, got an empty string")
        try:
            object.__setattr__(self, "parameters", dict(self.parameters))
            json.dumps(self.parameters, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise BadArgument("auto_solve.parameters", f"must be JSON values: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSettings:
    """Settings of a graph, as people choose them.

    ``node_ids``, ``expected_nodes``, ``max_nodes``, ``seed`` and ``deletions`` are fixed once the
    graph exists: the sparsifier has used them. The others can be changed and hold from the next
    block on.

    Attributes
    ----------
    name : str
        1 to 63 of a-z, 0-9, ``_`` and ``-``, the first a letter or digit; unique.
    node_ids : {"string", "int64", "dense"}
        Kind of the external node ids.
    epsilon : float, optional
        Spectral error asked for, in (0, 1); without it every edge is kept while they are within
        ``max_edges``.
    max_edges : int, optional
        The budget: most edges that the sparsifier keeps; wins over ``epsilon``. A spanning forest
        is kept even so. Without it, and without ``epsilon``, `with_budget` computes it.
    expected_nodes : int
        Nodes to be ready for, at least 2; more may come.
    max_nodes : int
        Most nodes the graph may have, 2 to 2^31 - 2.
    seed : int, optional
        Of all random choices, 0 to 2^63 - 1; chosen when the graph is created unless given.
    keep_raw : bool
        Whether pushed blocks stay on disk once they are in the graph.
    deletions : {"off", "exact"}
        Whether rows may delete edges. "exact" keeps a log of all edges, by which the spectral error
        asked is restored before a snapshot.
    parallel : {"sum", "replace"}
        What a further edge of a pair does: its weight is added, or takes the place of the others,
        which needs deletions.
    window : Window, optional
        Which edges live, by their time; all do without it. It needs exact deletions, and is there
        from the first edge or never; ``length`` and ``allowed_ahead`` may change.
    snapshot_every : SnapshotEvery, optional
        Snapshots besides the one at the end of each run of files.
    auto_solve : AutoSolve, optional
        What to solve whenever snapshot or labels change.
    columns : mapping of str to str
        What columns of tables are called where nothing else is said: any of src, dst, weight, op,
        time, node and label. Those that are not named are called so themselves; op, what a row
        does, is looked for only where edges may be deleted, and time where a window needs it.

    Raises
    ------
    ValueError
        A field breaks its rule.
    """

    name: str
    node_ids: NodeKind = "string"
    epsilon: float | None = None
    max_edges: int | None = None
    expected_nodes: int = 1_000_000
    max_nodes: int = 100_000_000
    seed: int | None = None
    keep_raw: bool = True
    deletions: Deletions = "off"
    parallel: Parallel = "sum"
    window: Window | None = None
    snapshot_every: SnapshotEvery | None = None
    auto_solve: AutoSolve | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def sampling(self) -> tuple[float | None, int | None]:
        """``epsilon`` and ``max_edges``, which decide which edges stay."""
        return self.epsilon, self.max_edges

    @property
    def columns_of_edges(self) -> Mapping[str, str]:
        """``columns``, and those of operations and times, called op and time, where they count."""
        is_free = "op" not in self.columns.values()
        usual = {"op": "op"} if self.deletions != "off" and is_free else {}
        if self.window is not None and self.window.by == "time":
            usual |= {"time": "time", "time_unit": self.window.time_unit}
        return {**usual, **self.columns}

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadArgument(
                "name",
                "must be 1 to 63 of a-z, 0-9, '_' and '-' and start with a letter or digit, "
                f"got {self.name!r}",
            )
        if self.node_ids not in NODE_KINDS:
            raise BadArgument(
                "node_ids", f"must be one of {', '.join(NODE_KINDS)}, got {self.node_ids!r}"
            )
        if self.epsilon is not None and not 0 < self.epsilon < 1:
            raise BadArgument("epsilon", f"must lie in (0, 1) or be null, got {self.epsilon}")
        if self.max_edges is not None and not 1 <= self.max_edges < 2**63:
            raise BadArgument(
                "max_edges", f"must lie in [1, 2^63) or be null, got {self.max_edges}"
            )
        if not 2 <= self.expected_nodes <= MAX_NODES:
            raise BadArgument(
                "expected_nodes", f"must lie in 2 to {MAX_NODES}, got {self.expected_nodes}"
            )
        if not 2 <= self.max_nodes <= MAX_NODES:
            raise BadArgument("max_nodes", f"must lie in 2 to {MAX_NODES}, got {self.max_nodes}")
        if self.seed is not None and not 0 <= self.seed < 2**63:
            raise BadArgument("seed", f"must lie in 0 to 2^63 - 1, got {self.seed}")
        for name, known in (("deletions", Deletions), ("parallel", Parallel)):
            if getattr(self, name) not in get_args(known):
                raise BadArgument(
                    name,
                    f"must be one of {', '.join(get_args(known))}, got {getattr(self, name)!r}",
                )
        if self.deletions == "off" and self.parallel == "replace":
            raise BadArgument("parallel", "must be 'sum' where deletions are off, got 'replace'")
        if self.window is not None:
            self.window.require_deletions(self.deletions)
        if "time" in self.columns and (self.window is None or self.window.by != "time"):
            raise BadArgument(
                "columns.time", "must be left out of a graph without a window by time"
            )
        if self.deletions == "off" and "op" in self.columns:
            raise BadArgument("columns.op", "must be left out where deletions are off")
        for name, column in self.columns.items():
            if name not in _TABLE_COLUMNS:
                raise BadArgument(
                    "columns", f"must name {', '.join(_TABLE_COLUMNS)} alone, got {name!r}"
                )
            if not column or len(column) > _MAX_COLUMN_NAME:
                raise BadArgument(
                    f"columns.{name}", f"must have 1 to {_MAX_COLUMN_NAME} characters"
                )
            if column in (other for key, other in self.columns.items() if key != name):
                raise BadArgument(f"columns.{name}", f"must be of its own, got {column!r} twice")


def with_budget(settings: GraphSettings, memory_bytes: int | None = None) -> GraphSettings:
    """Settings with a budget of edges where neither that nor an epsilon is given.

    Parameters
    ----------
    settings : GraphSettings
        As people chose them.
    memory_bytes : int, optional
        What ingest and solves may use; the memory of this machine or container by default.
    """
    if settings.epsilon is not None or settings.max_edges is not None:
        return settings
    budget = edge_budget(memory_bytes, deletions=settings.deletions)
    return replace(settings, max_edges=budget)


def raised_setting(
    present: GraphSettings, wanted: GraphSettings
) -> Literal["max_edges", "epsilon"] | None:
    """The setting by which edges are wanted now that the present ones may have thrown away.

    That is a budget that is raised or lifted, or an epsilon that is lower or no longer asked. An
    epsilon beside the same budget keeps no more than that did.
    """
    most_now, most = (
        math.inf if each.max_edges is None else each.max_edges for each in (present, wanted)
    )
    if most > most_now:
        return "max_edges"
    if present.epsilon is None or wanted.epsilon == present.epsilon:
        return None
    is_lower = wanted.epsilon is None or wanted.epsilon < present.epsilon
    return "epsilon" if is_lower else None


def require_same_fixed(present: GraphSettings, wanted: GraphSettings) -> None:
    """Raise `GraphConflict` where a setting is another that is fixed once a graph exists."""
    for name in _FIXED:
        if getattr(present, name) != getattr(wanted, name):
            raise GraphConflict(
                name,
                f"is fixed at {getattr(present, name)!r} since the graph was created, "
                f"got {getattr(wanted, name)!r}; create another graph",
            )
    if (wanted.window is None) != (present.window is None):
        raise GraphConflict("window", "is there from the first edge or never; create another graph")
    if wanted.window is not None and present.window is not None:
        for name in ("by", "width", "time_unit"):
            if getattr(wanted.window, name) != getattr(present.window, name):
                raise GraphConflict(
                    f"window.{name}",
                    f"is fixed at {getattr(present.window, name)!r} since the graph was created, "
                    f"got {getattr(wanted.window, name)!r}; create another graph",
                )
