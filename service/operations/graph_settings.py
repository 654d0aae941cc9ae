"""New graphs, and changes of their settings."""

from dataclasses import MISSING, fields, replace
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from peewit.service.catalog import GraphExists, GraphRecord, TooManyGraphs
from peewit.service.graph_settings import AutoSolve, GraphConflict, GraphSettings, SnapshotEvery
from peewit.service.graphs.all_edges import require_all_edges
from peewit.service.jobs.auto_solve import request_auto_solve
from peewit.service.operations.bodies import Body
from peewit.service.operations.declaration import Whole, operation
from peewit.service.operations.graphs import get_graph
from peewit.service.operations.here import Here
from peewit.service.operations.job_bodies import Solve
from peewit.service.wire.graphs import GraphDetails
from peewit.streaming.edges.change_rules import Deletions, Parallel
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.time_units import TimeUnit
from peewit.streaming.edges.windows import DEFAULT_BUCKETS, Window, WindowBy, seconds_of

_DEFAULTS = {
    each.name: each.default for each in fields(GraphSettings) if each.default is not MISSING
}


class SnapshotEveryIn(Body):
    """Publish a snapshot after so many edges or seconds, whichever comes first."""

    edges: int | None = None
    seconds: float | None = None

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        self.to_record()
        return self

    def to_record(self) -> SnapshotEvery:
        """The record for the catalog; raises ValueError."""
        return SnapshotEvery(edges=self.edges, seconds=self.seconds)


class WindowIn(Body):
    """Which edges live: those of the last so many seconds, by their time."""

    length: float | str = Field(
        description="Seconds, or as 30d, 12h, 90m, 45s; may change at any time."
    )
    by: WindowBy = Field("time", description="A column of times, or when a file or push arrived.")
    buckets: int = Field(DEFAULT_BUCKETS, description="Edges leave together by so many parts.")
    allowed_ahead: float | str | None = Field(
        None, description="How far a time may lie ahead of all before; a bucket when left out."
    )
    time_unit: TimeUnit = Field("s", description="What a time counts that is a number.")

    def changed(self, present: Window | None = None) -> Window:
        """The window, or the graph's with these changes; raises ValueError."""
        length = seconds_of(self.length, "window.length")
        said = self.model_dump(include={"by", "time_unit"} & self.model_fields_set)
        if self.allowed_ahead is not None:
            said["allowed_ahead"] = seconds_of(self.allowed_ahead, "window.allowed_ahead")
        if present is None:
            return Window.of(length, buckets=self.buckets, **said)
        if "buckets" in self.model_fields_set:
            said["width"] = Window.of(length, buckets=self.buckets).width
        return replace(present, length=length, **said)


class _GraphFields(Body):
    node_ids: NodeKind = Field(_DEFAULTS["node_ids"], description="Fixed once the graph exists.")
    epsilon: float | None = Field(
        _DEFAULTS["epsilon"],
        description="Spectral error asked, in (0, 1); null keeps every edge within max_edges.",
    )
    max_edges: int | None = Field(
        _DEFAULTS["max_edges"],
        description="Most edges to keep, but for a spanning forest; wins over epsilon. Null with "
        "no epsilon either: what the server's memory allows, computed once.",
    )
    expected_nodes: int = Field(_DEFAULTS["expected_nodes"], description="Fixed, see node_ids.")
    max_nodes: int = Field(_DEFAULTS["max_nodes"], description="Fixed, see node_ids.")
    seed: int | None = Field(_DEFAULTS["seed"], description="Fixed; drawn when left out.")
    keep_raw: bool = Field(_DEFAULTS["keep_raw"], description="Keep pushed edges for later passes.")
    deletions: Deletions = Field(
        _DEFAULTS["deletions"],
        description="Whether rows of `op` delete may take edges out of the graph again: exact, "
        "with a log of all edges that restores epsilon, or off. Fixed, see node_ids.",
    )
    parallel: Parallel = Field(
        _DEFAULTS["parallel"],
        description="Whether a further edge of a pair adds its weight, or takes the others' place.",
    )
    window: WindowIn | None = Field(
        None,
        description="Which edges live, by their time; fixed but for length and allowed_ahead. "
        "Deletions are exact with it.",
    )
    snapshot_every: SnapshotEveryIn | None = Field(
        None, description="Snapshots besides the one at the end of each run of files."
    )
    auto_solve: Solve | None = Field(
        None, description="Solved again after every new snapshot and every change of a label."
    )

    columns: dict[str, str] = Field(
        default_factory=dict,
        description="What src, dst, weight, op, time, node and label are called in tables.",
        examples=[{"src": "source", "dst": "target", "node": "account_id"}],
    )

    def _given_fields(self) -> dict[str, Any]:
        """The fields that the body holds, as records of the catalog."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        if isinstance(each := given.get("snapshot_every"), SnapshotEveryIn):
            given["snapshot_every"] = each.to_record()
        if isinstance(each := given.get("auto_solve"), Solve):
            given["auto_solve"] = AutoSolve(model=each.model, parameters=each.parameters)
        return given


class GraphCreate(_GraphFields):
    """A new graph."""

    name: str = Field(description="1 to 63 of a-z, 0-9, _ and -; unique.", examples=["papers"])

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        self.to_settings()
        return self

    def to_settings(self) -> GraphSettings:
        """The settings for the catalog; raises ValueError."""
        given = self._given_fields()
        if isinstance(each := given.get("window"), WindowIn):
            given = {"deletions": "exact", **given, "window": each.changed()}
        return GraphSettings(**given)


class GraphPatch(_GraphFields):
    """Settings to change; those left out stay. The fixed ones may only be repeated."""

    name: str = Field("", description="A new name.")

    def changed(self, settings: GraphSettings) -> GraphSettings:
        """The settings with these changes; raises ValueError."""
        given = self._given_fields()
        if isinstance(each := given.get("window"), WindowIn):
            given["window"] = each.changed(settings.window)
        return replace(settings, **given)


@operation(
    "POST /graphs",
    "admin",
    raises=(GraphExists, TooManyGraphs),
    status=201,
    location="/graphs/{answer.name}",
)
def create_graph(here: Here, body: Annotated[GraphCreate, Whole()]) -> GraphDetails:
    """Create an empty graph."""
    home = here.home
    return get_graph(
        here, home.catalog.create(body.to_settings(), max_graphs=home.settings.max_graphs)
    )


@operation("PATCH", "admin", raises=(GraphConflict, GraphExists))
def change_graph(
    here: Here, graph: GraphRecord, body: Annotated[GraphPatch, Whole()]
) -> GraphDetails:
    """Change settings; they hold from the next block on, and a new `auto_solve` at once."""
    home = here.home
    changed = home.catalog.update(
        graph.id,
        body.changed,
        request_solve=request_auto_solve,
        require_edges=lambda record, setting: require_all_edges(
            record, home.settings.graphs_directory, setting=setting
        ),
    )
    return get_graph(here, changed)
