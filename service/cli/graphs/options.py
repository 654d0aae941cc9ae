"""The settings of a graph as options of the command line."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

import typer

from peewit.service.cli.labels.table_files import parsed_settings
from peewit.service.cli.option_groups import OptionGroup
from peewit.service.cli.session import given
from peewit.service.graph_settings import AutoSolve, GraphSettings, SnapshotEvery, doc_of, names_of
from peewit.streaming.edges.windows import Window, relation_lengths, seconds_of


def of_setting(name: str, *flags: str, also: str = "", metavar: str | None = None) -> Any:
    """An option that says what a setting is, and what it takes beside its values."""
    return typer.Option(*flags, help=f"{doc_of(name)} {also}".rstrip(), metavar=metavar)


_BACK: Final = "0 takes it back."


@dataclass(frozen=True, kw_only=True)
class SettingOptions(OptionGroup):
    """Settings that may change; None leaves one as it is."""

    epsilon: Annotated[float | None, of_setting("epsilon", also=_BACK)] = None
    max_edges: Annotated[int | None, of_setting("max_edges", also="0 computes it anew.")] = None
    keep_raw: Annotated[bool | None, of_setting("keep_raw")] = None
    parallel: Annotated[str | None, of_setting("parallel")] = None
    window: Annotated[
        str | None, of_setting("window.length", also="Deletions are exact with it.")
    ] = None
    relation_windows: Annotated[
        str | None, of_setting("window.relations", "--relation-windows", also="'' takes it back.")
    ] = None
    allowed_ahead: Annotated[str | None, of_setting("window.allowed_ahead")] = None
    snapshot_edges: Annotated[int | None, of_setting("snapshot_every.edges", also=_BACK)] = None
    snapshot_seconds: Annotated[float | None, of_setting("snapshot_every.seconds", also=_BACK)] = (
        None
    )
    auto_solve: Annotated[str | None, of_setting("auto_solve", also="'none' takes it back.")] = None
    parameters: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Parameter of --auto-solve; repeatable."),
    ] = None
    columns: Annotated[
        list[str] | None,
        of_setting("columns", "--column", metavar="NAME=COLUMN", also="NAME= takes it back."),
    ] = None
    answers: Annotated[
        list[str] | None, of_setting("answers", metavar="KIND,...", also="Repeatable; '' for none.")
    ] = None
    directed: Annotated[
        list[str] | None,
        of_setting("directed", metavar="RELATION,...", also="Repeatable; '' for none."),
    ] = None

    def applied(self, settings: GraphSettings, **changes: Any) -> GraphSettings:
        """The settings with these options and changes; raises ValueError when a rule is broken."""
        changes |= {
            "snapshot_every": self._snapshot_every(settings.snapshot_every),
            "auto_solve": self._auto_solve(settings.auto_solve),
        }
        for name in ("epsilon", "max_edges"):
            if (value := getattr(self, name)) is not None:
                changes[name] = value or None
        changes |= given(keep_raw=self.keep_raw, parallel=self.parallel)
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
        said = self._of_window()
        if self.window is not None:
            said["length"] = seconds_of(self.window, "--window")
        if self.relation_windows is not None:
            said["relations"] = relation_lengths(self.relation_windows)
        if present is not None:
            return replace(present, **said) if said else None
        if "length" in said:
            return Window.of(**said)
        if said:
            first = next(iter(said)).replace("_", "-")
            options = {"by": "--window-by", "relations": "--relation-windows"}
            option = options.get(first, f"--{first}")
            raise ValueError(f"{option} needs --window, which says how long edges live")
        return None

    def _of_window(self) -> dict[str, Any]:
        """What was said of the window beside its length."""
        ahead = self.allowed_ahead
        return {} if ahead is None else {"allowed_ahead": seconds_of(ahead, "--allowed-ahead")}

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


@dataclass(frozen=True, kw_only=True)
class NewGraphOptions(SettingOptions):
    """Settings of a new graph: those that are fixed later, too."""

    node_ids: Annotated[str | None, of_setting("node_ids")] = None
    expected_nodes: Annotated[int | None, of_setting("expected_nodes")] = None
    max_nodes: Annotated[int | None, of_setting("max_nodes")] = None
    seed: Annotated[int | None, of_setting("seed")] = None
    deletions: Annotated[str | None, of_setting("deletions")] = None
    window_by: Annotated[str | None, of_setting("window.by")] = None
    buckets: Annotated[int | None, of_setting("window.buckets")] = None
    time_unit: Annotated[str | None, of_setting("window.time_unit")] = None

    def new(self, name: str) -> GraphSettings:
        """The settings of a graph of this name; raises ValueError when a rule is broken."""
        fixed = given(
            node_ids=self.node_ids,
            expected_nodes=self.expected_nodes,
            max_nodes=self.max_nodes,
            seed=self.seed,
        )
        return self.applied(GraphSettings(name=name, **fixed), **given(deletions=self.deletions))

    def _of_window(self) -> dict[str, Any]:
        own = given(by=self.window_by, buckets=self.buckets, time_unit=self.time_unit)
        return own | SettingOptions._of_window(self)
