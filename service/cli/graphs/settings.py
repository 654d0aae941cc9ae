"""`peewit graph create`, `set` and `show`: settings and state of a graph."""

from dataclasses import replace
from typing import Annotated

import typer

from peewit.service.catalog import GraphRecord
from peewit.service.cli.graphs.options import NewGraphOptions, SettingOptions
from peewit.service.cli.operation_commands import here_of
from peewit.service.cli.option_groups import with_groups
from peewit.service.cli.session import (
    AsJson,
    GraphName,
    as_text,
    command_group,
    open_home,
    print_fields,
    print_json,
    say,
    tell,
)
from peewit.service.graph_settings import GraphSettings
from peewit.service.graphs.all_edges import require_all_edges
from peewit.service.graphs.notes import answers_note, graph_note, kept_text
from peewit.service.inbox.feature_sets import FeaturesStatus
from peewit.service.jobs.auto_solve import request_auto_solve
from peewit.service.jobs.ingest_steps import duration, length_text
from peewit.service.labels.store import LabelColumn
from peewit.service.operations.graphs import get_graph, n_merged
from peewit.service.tables.uploads import LabelValue
from peewit.streaming.edges.time_units import SECOND
from peewit.streaming.edges.times import moment
from peewit.streaming.edges.windows import Window
from peewit.streaming.passes.certificate_store import CertificateStore
from peewit.streaming.snapshots.provenance import RelationMeta, SnapshotMeta
from peewit.streaming.snapshots.store import SnapshotStore

app = command_group()


@app.command()
@with_groups
def create(name: GraphName, options: NewGraphOptions, json: AsJson = False) -> None:
    """Create an empty graph."""
    try:
        settings = options.new(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    with open_home() as home:
        answer = get_graph(here_of(home), home.catalog.create(settings))
    tell(f"created {name}; bring edges with `peewit ingest {name} PATH`", answer, as_json=json)


@app.command("set")
@with_groups
def set_settings(
    name: GraphName,
    options: SettingOptions,
    rename: Annotated[str | None, typer.Option(help="New name.")] = None,
    clock_right: Annotated[
        bool,
        typer.Option(
            "--clock-right",
            help="The clock is right now: take edges in that wait, as they came long after all "
            "before them.",
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Change settings of a graph; they hold from the next block on."""

    def change(settings: GraphSettings) -> GraphSettings:
        try:
            changed = options.applied(settings)
            return changed if rename is None else replace(changed, name=rename)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    with open_home() as home:
        record = home.catalog.update(
            home.graph(name).id,
            change,
            request_solve=request_auto_solve,
            require_edges=lambda graph, setting: require_all_edges(
                graph, home.settings.graphs_directory, setting=setting
            ),
        )
        if clock_right:
            home.manifest.wishes.confirm_clock(record.id)
        is_read_again = home.manifest.wishes.of(record.id).repair_wanted == "all"
        answer = get_graph(here_of(home), record)
        note = "" if options.answers is None else answers_note(record, home.nodes)
    if json:
        print_json(answer)
    else:
        print_fields(_setting_fields(record.settings))
    if note:
        say(f"note: {note}")
    if is_read_again:
        say(f"all edges will be read again; `peewit ingest {record.settings.name}` does it now")


@app.command()
def show(name: GraphName, json: AsJson = False) -> None:
    """Show one graph: settings, what came in, what was kept, what waits."""
    with open_home() as home:
        record = home.graph(name)
        if json:
            print_json(get_graph(here_of(home), record))
            return
        backlog = home.manifest.backlog(record.id)
        counts = home.manifest.counts(record.id)
        labels = home.labels
        classes = labels.class_counts(record.id)
        named = [each for each in labels.described_columns(record.id) if each.name]
        paths = home.paths(record)
        meta = SnapshotStore(paths.snapshots).newest()
        certificate = CertificateStore(paths.snapshots).newest()
        features = home.features.status(record)
        wanted = home.manifest.wishes.of(record.id)
        n_bad_rows = home.manifest.n_bad_rows(record.id)
    note = graph_note(meta, wanted)
    progress = record.progress
    print_fields(
        {
            **_setting_fields(record.settings, meta),
            "nodes": progress.n_nodes,
            "edges": kept_text(record, meta),
            **_relations_text(record.settings.window, meta),
            "rows seen": progress.edges_seen,
            **_rows_text(record, meta, n_bad_rows),
            **({} if meta is None else _deletes(record.settings, meta)),
            **({} if meta is None else _passed(record.settings, meta)),
            "epsilon certified": certificate
            and f"{as_text(certificate.epsilon_certified)} (snapshot {certificate.snapshot})",
            "snapshot": progress.snapshot,
            "files": {status: count for status, count in counts.items() if count} or None,
            "backlog": f"{backlog.n_files:,} files, {backlog.n_bytes:,} bytes",
            "labels": _labels_text(classes),
            **{f"labels, {each.name}": _column_text(each) for each in named},
            "labels_seq": record.labels_seq,
            "features_version": record.features_version,
            "features": _features_text(features),
            "created": record.created_at,
        }
    )
    if note:
        say(f"note: {note}")


def _relations_text(window: Window | None, meta: SnapshotMeta | None) -> dict[str, object]:
    """Edges of each relation, where a table has named one, and what it keeps by its own window."""
    relations = () if meta is None else meta.relations
    return {
        f"relation {each.name or '(no name)'}": f"{each.n_edges:,} edges, {each.edges_kept:,} "
        f"kept, at {each.n_nodes:,} nodes{_own_window_text(window, each)}"
        for each in relations
    }


def _own_window_text(window: Window | None, relation: RelationMeta) -> str:
    if window is None or relation.name not in window.relations:
        return ""
    since = "all live"
    if relation.horizon is not None:
        since = f"live since {moment(round(relation.horizon * SECOND))}"
    too_old = relation.left_out.too_old
    return (
        f"; window {length_text(window.length_of(relation.name))}, {since}, "
        f"{relation.n_left:,} left, {too_old:,} too old when they came"
    )


def _rows_text(
    record: GraphRecord, meta: SnapshotMeta | None, n_bad_rows: int
) -> dict[str, object]:
    """What became of the rows that are no edges of their own."""
    dropped = record.progress.left_out.by_reason
    return {
        "rows merged": n_merged(record, meta),
        **{f"{words} dropped": n_rows for words, n_rows in dropped.items()},
        **({"bad rows left out": n_bad_rows} if n_bad_rows else {}),
    }


def _deletes(settings: GraphSettings, meta: SnapshotMeta) -> dict[str, object]:
    """Figures of deletions in words, as far as there are any."""
    facts: dict[str, object] = {}
    if settings.deletions == "off":
        return facts
    if meta.n_deletes:
        facts["rows that delete"] = meta.n_deletes
    facts["live edges"] = meta.n_live
    facts["deleted edges"] = meta.n_deleted
    if meta.n_unmatched:
        facts["deleted pairs without edges"] = meta.n_unmatched
    if meta.damage is not None and meta.damage.n_nodes:
        facts["damage"] = (
            f"{meta.damage.largest:.0%} of a node's weight at most; {meta.damage.n_nodes:,} nodes "
            f"that hold {meta.damage.weight_share:.1%} of all weight lost some"
        )
    if meta.n_repairs or meta.n_rebuilds:
        facts["sampled anew"] = f"{meta.n_repairs:,} times in part, {meta.n_rebuilds:,} times whole"
    if (last := meta.last_repair) is not None:
        facts["last repair"] = (
            f"{last.kind} of the edges before snapshot {last.snapshot}: "
            f"{last.n_edges:,} in {last.seconds:.1f} s"
        )
    facts["log"] = f"{as_text(meta.log_bytes)} bytes"
    return facts


def _passed(settings: GraphSettings, meta: SnapshotMeta) -> dict[str, object]:
    """Figures of the window in words."""
    if settings.window is None or meta.horizon is None or meta.watermark is None:
        return {}
    since, until = (moment(round(each * SECOND)) for each in (meta.horizon, meta.watermark))
    return {
        "edges live": f"since {since}, the latest is of {until}",
        "expired edges": meta.n_expired,
        "edges that came too late": meta.n_late,
    }


def _features_text(features: FeaturesStatus) -> str | None:
    """Nodes with a row, its length, and sets that wait or were refused."""
    parts = []
    if features.present is not None:
        kind = "sparse " if features.present.is_sparse else ""
        rows, columns = features.present.n_rows, features.present.n_columns
        parts.append(f"{rows:,} {kind}rows of {columns:,}, {features.n_missing:,} nodes without")
    if features.n_pending:
        parts.append(f"{features.n_pending:,} sets wait")
    if features.refused is not None:
        parts.append(f"the last set was refused: {features.refused.fault}")
    return "; ".join(parts) or None


def _column_text(column: LabelColumn) -> str:
    return f"{column.n_labeled:,} nodes with {column.n_labels:,} different labels"


def _labels_text(counts: dict[LabelValue, int]) -> str:
    """Numbers of labeled nodes and of their classes or values."""
    n_nodes = f"{sum(counts.values()):,} nodes"
    if any(isinstance(label, float) for label in counts):
        return f"{n_nodes} with {len(counts):,} different values"
    return f"{n_nodes} in {len(counts)} classes"


def _window_text(window: Window | None) -> str | None:
    if window is None:
        return None
    what = "their time" if window.by == "time" else "when they arrived"
    own = "".join(
        f", {name or '(no name)'} {length_text(length)}"
        for name, length in window.relations.items()
    )
    return (
        f"{duration(window.length)}{own} by {what}, leaving by {duration(window.width)}; "
        f"{duration(window.allowed_ahead)} ahead allowed"
    )


def _setting_fields(
    settings: GraphSettings, newest: SnapshotMeta | None = None
) -> dict[str, object]:
    """The settings, and those of the newest snapshot where they have changed since."""
    every, auto = settings.snapshot_every, settings.auto_solve
    epsilon, max_edges = as_text(settings.epsilon), as_text(settings.max_edges)
    if newest is not None and newest.epsilon_asked != settings.epsilon:
        epsilon += f" (snapshot {newest.number}: {as_text(newest.epsilon_asked)})"
    if newest is not None and newest.max_edges != settings.max_edges:
        max_edges += f" (snapshot {newest.number}: {as_text(newest.max_edges)})"
    return {
        "name": settings.name,
        "node_ids": settings.node_ids,
        "epsilon asked": epsilon,
        "max_edges": max_edges,
        "expected_nodes": settings.expected_nodes,
        "max_nodes": settings.max_nodes,
        "seed": str(settings.seed),
        "keep_raw": settings.keep_raw,
        "deletions": settings.deletions,
        "parallel": settings.parallel,
        "window": _window_text(settings.window),
        "snapshot_every": every
        and f"{as_text(every.edges)} edges, {as_text(every.seconds)} seconds",
        "columns": ", ".join(f"{name}={each}" for name, each in settings.columns.items()) or None,
        "answers": ", ".join(settings.answers) or None,
        "directed": ", ".join(settings.directed) or None,
        "auto_solve": auto and f"{auto.model} {as_text(auto.parameters)}".rstrip(),
    }
