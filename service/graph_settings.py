"""Settings of a graph: what people choose, the rules, and which are fixed once the graph exists."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Final, Literal, get_args

from peewit.service.setting_fields import check_rules, setting
from peewit.solvers.arguments import BadArgument
from peewit.solvers.relations.relation_names import check_relation_name
from peewit.streaming.edge_budget import edge_budget
from peewit.streaming.edges.change_rules import Deletions, ParallelEdges
from peewit.streaming.edges.node_kinds import KIND, NODE_KINDS, NodeKind
from peewit.streaming.edges.windows import Window
from peewit.streaming.problems import Conflict

MAX_NODES: Final = 2**31 - 2
"""Dense node ids are int32."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_TABLES: Final = (
    ("src", "dst", "weight", "op", "time"),
    ("node", "label", "origin", "annotator", "label_time"),
)
"""Columns of a table of edges, and of one of labels; each has names of its own."""

_TABLE_COLUMNS: Final = sum(_TABLES, ())
_MAX_COLUMN_NAME: Final = 1000


class GraphConflict(Conflict, BadArgument):
    """A change of a setting that is fixed once the graph exists."""

    title = "Setting is fixed"


WINDOW: Final = {
    "length": "How long edges live: 30d, 12h, 90m, or seconds.",
    "relations": "How long edges of relations live that have a window of their own, as "
    "login=7d,card=none: none keeps all. Others have that of the graph.",
    "by": "Whether edges live by a column of times (time), or by when they came (arrival).",
    "buckets": "Edges leave together, by so many parts of the window.",
    "allowed_ahead": "How far a time may lie ahead of all before; a bucket when left out.",
    "time_unit": "What times count that are numbers: s, ms, us or ns; by default seconds, which "
    "must lie between 1990 and the end of next year.",
}
"""What people say of a `Window`."""


def setting_of(name: str) -> Field[Any]:
    """The field of a setting, or of its part, as in ``snapshot_every.edges``."""
    first, _, part = name.partition(".")
    owner: Any = SnapshotEvery if part else GraphSettings
    declared: Field[Any] = owner.__dataclass_fields__[part or first]
    return declared


def doc_of(name: str) -> str:
    """What a setting or its part is, in the words of every door."""
    window = name.removeprefix("window.")
    doc: str = WINDOW[window] if window in WINDOW else setting_of(name).metadata["doc"]
    return doc


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotEvery:
    """When ingest publishes a snapshot before it runs out of files: after either amount.

    Both count from the last snapshot; at least one is given.
    """

    edges: int | None = setting(
        "A snapshot after so many edges, besides those at ends of runs.", None, kind=int, minimum=1
    )
    seconds: float | None = setting(
        "A snapshot after so many seconds, besides those at ends of runs.", None, above=0
    )

    def __post_init__(self) -> None:
        if self.edges is None and self.seconds is None:
            raise BadArgument("snapshot_every", "must give edges, seconds or both, got neither")
        check_rules(self, "snapshot_every.")


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


def names_of(texts: Sequence[str]) -> tuple[str, ...]:
    """Kinds or relations of some texts, each of which may hold several with commas between."""
    return tuple(dict.fromkeys(name.strip() for text in texts for name in text.split(",")))


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSettings:
    """Settings of a graph, as people choose them; a ValueError names a field that breaks its rule.

    Changes of those that are not fixed hold from the next block on. Without ``epsilon`` and
    ``max_edges`` `with_budget` computes the latter. Exact deletions keep a log of all edges, by
    which the spectral error that was asked for is restored before a snapshot. A ``window`` needs
    them and is there from the first edge or never; its ``length``, ``relations`` and
    ``allowed_ahead`` may change.
    Of ``columns``, op is looked for only where edges may be deleted, time only where the window
    needs it.
    """

    name: str = setting("1 to 63 of a-z, 0-9, _ and -, the first a letter or digit; unique.")
    node_ids: NodeKind = setting(
        "What ids of nodes are: text (string), whole numbers (int64), or 0 to n-1 (dense).",
        "string",
        is_fixed=True,
        kind=str,
        words=NODE_KINDS,
    )
    epsilon: float | None = setting(
        "Spectral error asked for, in (0, 1). At 0.1 the weight between any two groups of "
        "nodes is within 10 % of what all edges give; a smaller one keeps more edges. "
        "Without one all edges are kept that fit max_edges.",
        None,
        above=0,
        below=1,
    )
    max_edges: int | None = setting(
        "Most edges to keep, but for a spanning forest; wins over epsilon. Without either, what "
        "the memory allows, computed once.",
        None,
        kind=int,
        minimum=1,
        below=2**63,
    )
    expected_nodes: int = setting(
        "Nodes to be ready for: the memory of ingest follows from it. More may come.",
        1_000_000,
        is_fixed=True,
        kind=int,
        minimum=2,
        maximum=MAX_NODES,
    )
    max_nodes: int = setting(
        "Most nodes of the graph; files that bring more are refused.",
        100_000_000,
        is_fixed=True,
        kind=int,
        minimum=2,
        maximum=MAX_NODES,
    )
    seed: int | None = setting(
        "Seed of all random choices; drawn when left out.",
        None,
        is_fixed=True,
        kind=int,
        minimum=0,
        below=2**63,
    )
    keep_raw: bool = setting(
        "Keep edges that were sent or spooled: certificates and exact answers read them again.",
        True,
        kind=bool,
    )
    deletions: Deletions = setting(
        "Whether rows may delete edges: off, or exact, by a log of all edges.",
        "off",
        is_fixed=True,
        kind=str,
        words=get_args(Deletions),
    )
    parallel: ParallelEdges = setting(
        "Whether a further edge of a pair adds its weight (sum), or takes the place of the others "
        "(replace), which needs deletions.",
        "sum",
        kind=str,
        words=get_args(ParallelEdges),
    )
    window: Window | None = setting(
        "Which edges live, by their time; fixed once the graph exists but for length, relations "
        "and allowed_ahead. Deletions are exact with it.",
        None,
    )
    snapshot_every: SnapshotEvery | None = setting(
        "Snapshots besides the one at the end of each run of files.", None
    )
    auto_solve: AutoSolve | None = setting(
        "Model that is solved again after every new snapshot and every change of a label.", None
    )
    answers: Sequence[str] = setting(
        "Kinds of nodes that answers are about, in a typed graph; without any, those with labels.",
        factory=tuple,
    )
    directed: Sequence[str] = setting(
        "Relations whose edges go from src to dst. Solves then count, as features of a "
        "node, what it sends and receives and its partners each way, also where no table "
        "gives features.",
        factory=tuple,
    )
    columns: Mapping[str, str] = setting(
        "What src, dst, weight, op and time of edges, and node, label, origin, annotator and "
        "label_time of labels are called in tables.",
        factory=dict,
    )

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

    def keeping(self, columns: Mapping[str, str]) -> "GraphSettings":
        """With names of columns that have none yet, but of those that another one here has."""
        kept = dict(self.columns)
        for table in _TABLES:
            for name in table:
                column = columns.get(name)
                if column and name not in kept and column not in map(kept.get, table):
                    kept[name] = column
        return replace(self, columns=kept)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadArgument(
                "name",
                "must be 1 to 63 of a-z, 0-9, '_' and '-' and start with a letter or digit, "
                f"got {self.name!r}",
            )
        check_rules(self)
        if self.deletions == "off" and self.parallel == "replace":
            raise BadArgument("parallel", "must be 'sum' where deletions are off, got 'replace'")
        if self.window is not None:
            self.window.require_deletions(self.deletions)
        for relation in self.directed:
            check_relation_name(relation, argument="directed")
        for kind in self.answers:
            if self.node_ids != "typed":
                raise BadArgument("answers", f"needs node_ids='typed', got {self.node_ids!r}")
            if not KIND.fullmatch(kind):
                raise BadArgument(
                    "answers",
                    "must name kinds of nodes, each of 1 to 63 of A-Z, a-z, 0-9, '_' and "
                    f"'-', with a letter or '_' first, got {kind!r}",
                )
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
    for name in (each.name for each in fields(present) if each.metadata.get("is_fixed")):
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
