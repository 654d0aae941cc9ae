"""The settings of a graph as options of the command line."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from peewit.service.cli.labels.table_files import parsed_settings
from peewit.service.graph_settings import AutoSolve, GraphSettings, SnapshotEvery
from peewit.streaming.edges.windows import DEFAULT_BUCKETS, Window, seconds_of

Epsilon = Annotated[
    float | None,
    typer.Option(
        help="Spectral error asked, in (0, 1), instead of all edges that fit. 0 takes it back."
    ),
]
MaxEdges = Annotated[
    int | None,
    typer.Option(
        help="Most edges to keep, but for a spanning forest; wins over --epsilon. By default what "
        "the memory allows; 0 computes it anew."
    ),
]
KeepRaw = Annotated[
    bool | None, typer.Option(help="Keep pushed blocks and a spool of edges for later passes.")
]
DeletionsOf = Annotated[
    str | None,
    typer.Option(
        "--deletions",
        help="Whether edges may be deleted: off, or exact, by a log of all edges.",
    ),
]
ParallelEdges = Annotated[
    str | None,
    typer.Option(
        "--parallel",
        help="Whether a further edge of a pair adds its weight (sum), or takes the place of the "
        "others (replace).",
    ),
]
WindowOf = Annotated[
    str | None,
    typer.Option(
        "--window",
        help="Keep the edges of the last so long only: 30d, 12h, 90m, or seconds. Deletions are "
        "exact with it.",
    ),
]
WindowByOf = Annotated[
    str | None,
    typer.Option(
        "--window-by", help="By the column of times (time), or by when files arrived (arrival)."
    ),
]
Buckets = Annotated[
    int | None, typer.Option("--buckets", help="Edges leave together by so many parts of it.")
]
AllowedAhead = Annotated[
    str | None,
    typer.Option(
        "--allowed-ahead",
        help="How far a time may lie ahead of all before and of now; a bucket by default.",
    ),
]
TimeUnitOf = Annotated[
    str | None,
    typer.Option("--time-unit", help="What times count that are numbers: s, ms, us, ns."),
]
SnapshotEdges = Annotated[
    int | None, typer.Option(help="A snapshot after so many edges. 0 takes it back.")
]
SnapshotSeconds = Annotated[
    float | None, typer.Option(help="A snapshot after so many seconds. 0 takes it back.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="NAME=COLUMN",
        help="What src, dst, weight, op, time, node or label is called in tables; NAME= takes it "
        "back.",
    ),
]
AutoModel = Annotated[
    str | None,
    typer.Option("--auto-solve", help="Model to solve after every change; 'none' takes it back."),
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
    deletions: str | None = None
    window: str | None = None
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
        if self.epsilon is not None:
            changes["epsilon"] = self.epsilon or None
        if self.max_edges is not None:
            changes["max_edges"] = self.max_edges or None
        if self.keep_raw is not None:
            changes["keep_raw"] = self.keep_raw
        if self.deletions is not None:
            changes["deletions"] = self.deletions
        if self.parallel is not None:
            changes["parallel"] = self.parallel
        if (window := self._window(settings.window)) is not None:
            changes["window"] = window
            if settings.window is None:
                changes.setdefault("deletions", "exact")
        for column in self.columns or ():
            name, equals, given = column.partition("=")
            if not equals:
                raise typer.BadParameter(
                    f"must read NAME=COLUMN, got {column!r}", param_hint="--column"
                )
            kept = changes.setdefault("columns", dict(settings.columns))
            kept.pop(name, None)
            if given:
                kept[name] = given
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
        if present is not None:
            return replace(present, **said) if said else None
        if "length" in said:
            return Window.of(
                **said, buckets=DEFAULT_BUCKETS if self.buckets is None else self.buckets
            )
        if said or self.buckets is not None:
            other = next(iter(said), "buckets").replace("_", "-")
            option = "--window-by" if other == "by" else f"--{other}"
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
