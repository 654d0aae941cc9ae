"""Settings of a graph: what people choose, the rules, and which are fixed once the graph exists."""

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
from peewit.streaming.problems import Conflict

MAX_NODES: Final = 2**31 - 2
"""Dense node ids are int32."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_FIXED: Final = ("node_ids", "expected_nodes", "max_nodes", "seed", "deletions")
_TABLES: Final = (("src", "dst", "weight", "op", "time"), ("node", "label"))
"""Columns of a table of edges, and of one of nodes; each has names of its own."""

_TABLE_COLUMNS: Final = sum(_TABLES, ())
_MAX_COLUMN_NAME: Final = 1000


class GraphConflict(Conflict, BadArgument):
    """A change of a setting that is fixed once the graph exists."""

    title = "Setting is fixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotEvery:
    """When ingest publishes a snapshot before it runs out of files: after either amount.

    Both count from the last snapshot; at least one is given.
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

    Whether the model exists is checked where the request comes in. Hyperparameters that
    ``parameters`` (JSON values) leave out take their defaults.
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
    """Settings of a graph, as people choose them; a ValueError names a field that breaks its rule.

    ``node_ids``, ``expected_nodes``, ``max_nodes``, ``seed`` and ``deletions`` are fixed once the
    graph exists, since the sparsifier has used them. Changes of the others hold from the next block
    on.

    ``max_edges`` wins over ``epsilon``, but a spanning forest is kept in any case. Without
    ``epsilon`` every edge is kept while they are within ``max_edges``; without either,
    `with_budget` computes ``max_edges``. Deletions "exact" keep a log of all edges, by which the
    spectral error that was asked for is restored before a snapshot. A further edge of a pair adds
    its weight if ``parallel`` is "sum"; "replace", which needs deletions, puts it in the place of
    the others. A ``window`` needs exact deletions and is there from the first edge or never; its
    ``length`` and ``allowed_ahead`` may change.

    ``columns`` maps src, dst, weight, op, time, node or label to the name of that column in tables,
    the same by default. The column op is looked for only where edges may be deleted, time only
    where the window needs it.
    """

    name: str  # 1 to 63 of a-z, 0-9, _ and -, the first a letter or digit; unique
    node_ids: NodeKind = "string"  # kind of the external ids
    epsilon: float | None = None  # spectral error asked for, in (0, 1)
    max_edges: int | None = None  # the budget: most edges that the sparsifier keeps
    expected_nodes: int = 1_000_000  # to be ready for, at least 2; more may come
    max_nodes: int = 100_000_000  # 2 to 2^31 - 2
    seed: int | None = None  # 0 to 2^63 - 1; None: drawn when the graph is created
    keep_raw: bool = True  # whether pushed blocks stay on disk once they are in the graph
    deletions: Deletions = "off"  # whether rows may delete edges
    parallel: Parallel = "sum"
    window: Window | None = None  # which edges live, by their time; None: all
    snapshot_every: SnapshotEvery | None = None  # besides the one at the end of each run of files
    auto_solve: AutoSolve | None = None  # when snapshot or labels change
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def sampling(self) -> tuple[float | None, int | None]:
        """``epsilon`` and ``max_edges``, which decide which edges stay."""
        return self.epsilon, self.max_edges

    @property
    def columns_of_edges(self) -> Mapping[str, str]:
        """``columns``, with the defaults of op and time where the graph needs them."""
        is_free = "op" not in (self.columns.get(name) for name in _TABLES[0])
        usual = {"op": "op"} if self.deletions != "off" and is_free else {}
        if self.window is not None and self.window.by == "time":
            usual["time"] = "time"
            if self.window.time_unit is not None:
                usual["time_unit"] = self.window.time_unit
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
        for table in _TABLES:
            names = [self.columns[name] for name in table if name in self.columns]
            if twice := next((each for each in names if names.count(each) > 1), None):
                of_it = next(name for name in table if self.columns.get(name) == twice)
                raise BadArgument(f"columns.{of_it}", f"must be of its own, got {twice!r} twice")


def with_budget(settings: GraphSettings, memory_bytes: int | None = None) -> GraphSettings:
    """Settings with an edge budget where neither a budget nor an epsilon is given.

    ``memory_bytes`` is what ingest and solves may use; by default the memory of this machine or
    container.
    """
    if settings.epsilon is not None or settings.max_edges is not None:
        return settings
    budget = edge_budget(memory_bytes, deletions=settings.deletions)
    return replace(settings, max_edges=budget)


def raised_setting(
    present: GraphSettings, wanted: GraphSettings
) -> Literal["max_edges", "epsilon"] | None:
    """The changed setting that asks for edges which may have been thrown away; None without one.

    That is a budget that is raised or lifted, or an epsilon that is lowered or dropped. An epsilon
    that is added beside the same budget keeps no more edges than the budget did.
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
    """Raise `GraphConflict` where a setting differs that is fixed once the graph exists."""
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
