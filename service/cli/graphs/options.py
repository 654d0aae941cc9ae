"""The settings of a graph as options of the command line."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

import typer

from peewit.service.cli.labels.table_files import parsed_settings
from peewit.service.graph_settings import (
    AutoSolve,
    GraphSettings,
    SnapshotEvery,
    doc_of,
    names_of,
)
from peewit.streaming.edges.windows import (
    DEFAULT_BUCKETS,
    Window,
    relation_lengths,
    seconds_of,
)


def of_setting(name: str, *flags: str, also: str = "", metavar: str | None = None) -> Any:
    """An option that says what a setting is, and what it takes beside its values."""
    return typer.Option(*flags, help=f"{doc_of(name)} {also}".rstrip(), metavar=metavar)


_BACK: Final = "0 takes it back."
NodeIds = Annotated[str | None, of_setting("node_ids")]
Epsilon = Annotated[float | None, of_setting("epsilon", also=_BACK)]
MaxEdges = Annotated[int | None, of_setting("max_edges", also="0 computes it anew.")]
ExpectedNodes = Annotated[int | None, of_setting("expected_nodes")]
MaxNodes = Annotated[int | None, of_setting("max_nodes")]
Seed = Annotated[int | None, of_setting("seed")]
KeepRaw = Annotated[bool | None, of_setting("keep_raw")]
DeletionsOf = Annotated[str | None, of_setting("deletions", "--deletions")]
ParallelEdgesOf = Annotated[str | None, of_setting("parallel", "--parallel")]
WindowOf = Annotated[
    str | None, of_setting("window.length", "--window", also="Deletions are exact with it.")
]
RelationWindows = Annotated[
    str | None, of_setting("window.relations", "--relation-windows", also="'' takes it back.")
]
WindowByOf = Annotated[str | None, of_setting("window.by", "--window-by")]
Buckets = Annotated[int | None, of_setting("window.buckets", "--buckets")]
AllowedAhead = Annotated[str | None, of_setting("window.allowed_ahead", "--allowed-ahead")]
TimeUnitOf = Annotated[str | None, of_setting("window.time_unit", "--time-unit")]
SnapshotEdges = Annotated[int | None, of_setting("snapshot_every.edges", also=_BACK)]
SnapshotSeconds = Annotated[float | None, of_setting("snapshot_every.seconds", also=_BACK)]
Columns = Annotated[
    list[str] | None,
    of_setting("columns", "--column", metavar="NAME=COLUMN", also="NAME= takes it back."),
]
AutoModel = Annotated[
    str | None, of_setting("auto_solve", "--auto-solve", also="'none' takes it back.")
]
Answers = Annotated[
    list[str] | None,
    of_setting("answers", "--answers", metavar="KIND,...", also="Repeatable; '' for none."),
]
Directed = Annotated[
    list[str] | None,
    of_setting("directed", "--directed", metavar="RELATION,...", also="Repeatable; '' for none."),
]
AutoParameters = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Parameter of --auto-solve; repeatable."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingOptions:
    """Options that were given; None leaves a setting as it is."""

    epsilon: float | None
    max_edges: int | None
    keep_raw: bool | None
    parallel: str | None
    snapshot_edges: int | None
    snapshot_seconds: float | None
    auto_solve: str | None
    parameters: list[str] | None
    columns: list[str] | None
    answers: list[str] | None
    directed: list[str] | None
    deletions: str | None = None
    window: str | None = None
    relation_windows: str | None = None
    window_by: str | None = None
    buckets: int | None = None
    allowed_ahead: str | None = None
    time_unit: str | None = None

    def applied(self, settings: GraphSettings) -> GraphSettings:
        """The settings with these options; raises ValueError when a rule is broken."""
        changes: dict[str, Any] = {
            "snapshot_every": self._snapshot_every(settings.snapshot_every),
            "auto_solve": self._auto_solve(settings.auto_solve),
        }
        for name in ("epsilon", "max_edges"):
            if (value := getattr(self, name)) is not None:
                changes[name] = value or None
        for name in ("keep_raw", "deletions", "parallel"):
            if (value := getattr(self, name)) is not None:
                changes[name] = value
        for name in ("answers", "directed"):
            if (values := getattr(self, name)) is not None:
                changes[name] = tuple(filter(None, names_of(values)))
        if (window := self._window(settings.window)) is not None:
            changes["window"] = window
            if settings.window is None:
                changes.setdefault("deletions", "exact")
        for column in self.columns or ():
            name, equals, name_in_table = column.partition("=")
            if not equals:
                raise typer.BadParameter(
                    f"must read NAME=COLUMN, got {column!r}", param_hint="--column"
                )
            columns = changes.setdefault("columns", dict(settings.columns))
            columns.pop(name, None)
            if name_in_table:
                columns[name] = name_in_table
        return replace(settings, **changes)

    def _window(self, present: Window | None) -> Window | None:
        """The window with these options; None if they say nothing of it."""
        ahead = self.allowed_ahead
        said: dict[str, Any] = {
            "by": self.window_by,
            "allowed_ahead": None if ahead is None else seconds_of(ahead, "--allowed-ahead"),
            "time_unit": self.time_unit,
        }
        said = {name: value for name, value in said.items() if value is not None}
        if self.window is not None:
            said["length"] = seconds_of(self.window, "--window")
        if self.relation_windows is not None:
            said["relations"] = relation_lengths(self.relation_windows)
        if present is not None:
            return replace(present, **said) if said else None
        if "length" in said:
            return Window.of(
                **said, buckets=DEFAULT_BUCKETS if self.buckets is None else self.buckets
            )
        if said or self.buckets is not None:
            other = next(iter(said), "buckets").replace("_", "-")
            options = {"by": "--window-by", "relations": "--relation-windows"}
            option = options.get(other, f"--{other}")
            raise ValueError(f"{option} needs --window, which says how long edges live")
        return None

    def _snapshot_every(self, present: SnapshotEvery | None) -> SnapshotEvery | None:
        edges = present.edges if present else None
        seconds = present.seconds if present else None
        if self.snapshot_edges is not None:
            edges = self.snapshot_edges or None
        if self.snapshot_seconds is not None:
            seconds = self.snapshot_seconds or None
        if edges is None and seconds is None:
            return None
        return SnapshotEvery(edges=edges, seconds=seconds)

    def _auto_solve(self, present: AutoSolve | None) -> AutoSolve | None:
        parameters = parsed_settings(self.parameters)
        model = self.auto_solve
        if model is None:
            if not parameters:
                return present
            if present is None:
                raise ValueError("--set needs --auto-solve with the model that it is for")
            model = present.model
        elif model == "none":
            return None
        from peewit.service.tasks.solving.solve_options import validate_solve  # noqa: PLC0415 - loads all models

        validate_solve(model, parameters)
        return AutoSolve(model=model, parameters=parameters)
