"""New graphs, and changes of their settings."""

from dataclasses import replace
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from peewit.service.catalog import GraphExists, GraphRecord, TooManyGraphs
from peewit.service.graph_settings import (
    AutoSolve,
    GraphConflict,
    GraphSettings,
    SnapshotEvery,
    doc_of,
    names_of,
    setting_of,
)
from peewit.service.graphs.all_edges import require_all_edges
from peewit.service.jobs.auto_solve import request_auto_solve
from peewit.service.operations.bodies import Body
from peewit.service.operations.declaration import Whole, operation
from peewit.service.operations.graphs import get_graph
from peewit.service.operations.here import Here
from peewit.service.operations.job_bodies import Solve
from peewit.service.wire.graphs import GraphDetails
from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.change_rules import Deletions, ParallelEdges
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.time_units import TimeUnit
from peewit.streaming.edges.windows import (
    DEFAULT_BUCKETS,
    FOR_EVER,
    Window,
    WindowBy,
    relation_lengths,
    seconds_of,
)


def of_setting(name: str) -> Any:
    """A field with the default, the description and the bounds of a setting of a graph."""
    each = setting_of(name)
    rule = each.metadata["rule"]
    return Field(
        each.default,
        description=doc_of(name),
        json_schema_extra=None if rule is None else rule.bounds(),
    )


class SnapshotEveryIn(Body):
    """Publish a snapshot after so many edges or seconds, whichever comes first."""

    edges: int | None = of_setting("snapshot_every.edges")
    seconds: float | None = of_setting("snapshot_every.seconds")

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        self.to_record()
        return self

    def to_record(self) -> SnapshotEvery:
        """The record for the catalog; raises ValueError."""
        return SnapshotEvery(edges=self.edges, seconds=self.seconds)


class WindowIn(Body):
    """Which edges live: those of the last so many seconds, by their time."""

    length: float | str | None = Field(
        None, description=f"{doc_of('window.length')} A new window needs it."
    )
    relations: dict[str, float | str | None] = Field(
        default_factory=dict,
        description=doc_of("window.relations"),
        examples=[{"login": "7d", "card": FOR_EVER}],
    )
    by: WindowBy = Field("time", description=doc_of("window.by"))
    buckets: int = Field(DEFAULT_BUCKETS, description=doc_of("window.buckets"))
    allowed_ahead: float | str | None = Field(None, description=doc_of("window.allowed_ahead"))
    time_unit: TimeUnit | None = Field(None, description=doc_of("window.time_unit"))

    def changed(self, present: Window | None = None) -> Window:
        """The window, or the graph's with these changes; raises ValueError."""
        said = self.model_dump(include={"by", "time_unit"} & self.model_fields_set)
        if "relations" in self.model_fields_set:
            said["relations"] = relation_lengths(self.relations)
        if self.allowed_ahead is not None:
            said["allowed_ahead"] = seconds_of(self.allowed_ahead, "window.allowed_ahead")
        if self.length is not None:
            length = seconds_of(self.length, "window.length")
        elif present is not None:
            length = present.length
        else:
            raise BadArgument("window.length", "must say how long edges live, got none")
        if present is None:
            return Window.of(length, buckets=self.buckets, **said)
        if "buckets" in self.model_fields_set:
            said["width"] = Window.of(length, buckets=self.buckets).width
        return replace(present, length=length, **said)


class _GraphFields(Body):
    node_ids: NodeKind = of_setting("node_ids")
    epsilon: float | None = of_setting("epsilon")
    max_edges: int | None = of_setting("max_edges")
    expected_nodes: int = of_setting("expected_nodes")
    max_nodes: int = of_setting("max_nodes")
    seed: int | None = of_setting("seed")
    keep_raw: bool = of_setting("keep_raw")
    deletions: Deletions = of_setting("deletions")
    parallel: ParallelEdges = of_setting("parallel")
    window: WindowIn | None = of_setting("window")
    snapshot_every: SnapshotEveryIn | None = of_setting("snapshot_every")
    auto_solve: Solve | None = of_setting("auto_solve")
    answers: list[str] = Field(
        default_factory=list, description=doc_of("answers"), examples=[["account"]]
    )
    directed: list[str] = Field(
        default_factory=list, description=doc_of("directed"), examples=[["message"]]
    )
    columns: dict[str, str] = Field(
        default_factory=dict,
        description=doc_of("columns"),
        examples=[{"src": "source", "dst": "target", "node": "account_id"}],
    )

    def _given_fields(self) -> dict[str, Any]:
        """The fields that the body holds, as records of the catalog."""
        values = {name: getattr(self, name) for name in self.model_fields_set}
        if isinstance(each := values.get("snapshot_every"), SnapshotEveryIn):
            values["snapshot_every"] = each.to_record()
        if isinstance(each := values.get("auto_solve"), Solve):
            values["auto_solve"] = AutoSolve(model=each.model, parameters=each.parameters)
        for name in ("answers", "directed"):
            if name in values:
                values[name] = names_of(values[name])
        return values


class GraphCreate(_GraphFields):
    """A new graph."""

    name: str = Field(description=doc_of("name"), examples=["papers"])

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        self.to_settings()
        return self

    def to_settings(self) -> GraphSettings:
        """The settings for the catalog; raises ValueError."""
        values = self._given_fields()
        if isinstance(each := values.get("window"), WindowIn):
            values = {"deletions": "exact", **values, "window": each.changed()}
        return GraphSettings(**values)


class GraphPatch(_GraphFields):
    """Settings to change; those left out stay. The fixed ones may only be repeated."""

    name: str = Field("", description="A new name.")

    def changed(self, settings: GraphSettings) -> GraphSettings:
        """The settings with these changes; raises ValueError."""
        values = self._given_fields()
        if isinstance(each := values.get("window"), WindowIn):
            values["window"] = each.changed(settings.window)
        return replace(settings, **values)


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
