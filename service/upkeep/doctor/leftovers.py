"""Checks for files that nothing names, left by killed processes and by people."""

import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from sqlalchemy import select

from peewit.service.catalog import Catalog
from peewit.service.database.tables import feature_sets, files, graphs, jobs, pushes
from peewit.service.database.timestamps import now
from peewit.service.graphs.filtered_feature_files import FilteredFeatureFiles
from peewit.service.jobs.queue import JobQueue
from peewit.service.predictions.prediction_files import file_name
from peewit.service.predictions.store import PredictionStore
from peewit.service.upkeep.backup import STAGING_PREFIX, abandoned_stagings
from peewit.service.upkeep.doctor.findings import GRACE_SECONDS, Finding, Patient, fault, warning
from peewit.streaming.durable_files import TEMPORARY_PREFIX

_PREDICTION = re.compile(r"[0-9a-f]+-\d+")


def check_deleted_graphs(patient: Patient) -> Iterator[Finding]:
    """Graphs deleted long ago whose rows and files no daemon has removed."""
    old = select(graphs.c.name, graphs.c.id).where(
        graphs.c.state == "deleted", graphs.c.deleted_at <= now(-GRACE_SECONDS)
    )
    for name, graph_id in patient.rows(old):
        yield warning(
            f"graph {name} ({graph_id}) was deleted and is still on the disk; the ingest "
            "daemon removes such graphs",
            repair=partial(_purge, patient),
        )


def check_orphan_directories(patient: Patient) -> Iterator[Finding]:
    """Directories below ``graphs`` that belong to no graph."""
    directories = patient.old_below(patient.settings.graphs_directory)
    known = {row.id for row in patient.rows(select(graphs.c.id))}
    for path in directories:
        if path.name not in known:
            yield fault(f"{path} belongs to no graph", repair=partial(patient.put_aside, path))


def check_orphan_pushes(patient: Patient) -> Iterator[Finding]:
    """Pushed blocks and features that no row names."""
    for graph in patient.graphs():
        paths = patient.paths(graph)
        old = patient.old_below(paths.pushes) + patient.old_below(paths.feature_sets)
        if not old:
            continue
        with patient.database.read() as connection:
            in_use = {
                Path(path).name  # by name: names are unique, and the home may have moved
                for table in (pushes, files, feature_sets)
                for path in connection.execute(
                    select(table.c.path).where(table.c.graph_id == graph.id)
                ).scalars()
            }
        for path in old:
            if path.name not in in_use:
                yield warning(
                    f"graph {graph.settings.name}: {path} is named by no row: it was never "
                    "acknowledged, or its graph was restored",
                    repair=partial(patient.put_aside, path),
                )


def check_orphan_predictions(patient: Patient) -> Iterator[Finding]:
    """Predictions that no job names."""
    store = PredictionStore(patient.database, patient.settings.graphs_directory)
    for graph in patient.graphs():
        old = patient.old_below(patient.paths(graph).predictions)
        paths = [path for path in old if _PREDICTION.fullmatch(path.stem)]
        if not paths:
            continue
        mine = select(jobs.c.id, jobs.c.attempt, jobs.c.status, jobs.c.result).where(
            jobs.c.graph_id == graph.id
        )
        rows = patient.rows(mine)
        in_use = {row.result["file"] for row in rows if row.result and "file" in row.result}
        in_use |= {file_name(row.id, row.attempt) for row in rows if row.status == "running"}
        for path in paths:
            if path.with_suffix(".arrow").name not in in_use:
                yield warning(
                    f"graph {graph.settings.name}: {path.name} belongs to no job; an idle "
                    "worker removes such files",
                    repair=partial(_clean, store, graph.id),
                )


def check_replaced_features(patient: Patient) -> Iterator[Finding]:
    """Smoothed features that were replaced or never finished."""
    files = FilteredFeatureFiles(
        jobs=JobQueue(patient.database), graphs_directory=patient.settings.graphs_directory
    )
    for graph in patient.graphs():
        for path in files.unneeded(graph.id):
            yield warning(
                f"graph {graph.settings.name}: {path} was replaced or never finished; the ingest "
                "daemon removes such files",
                repair=partial(_remove, path),
            )


def check_temporary_files(patient: Patient) -> Iterator[Finding]:
    """Unfinished files of killed processes."""
    root = patient.settings.graphs_directory
    if not root.exists():
        return
    for staging in abandoned_stagings(root):
        yield warning(
            f"{staging} was left by a backup that was killed; it keeps removed files",
            repair=partial(_remove, staging),
        )
    for graph in patient.graphs():
        for path in sorted((root / graph.id).glob(f"**/{TEMPORARY_PREFIX}*")):
            if patient.is_old(path) and not path.name.startswith(STAGING_PREFIX):
                yield warning(
                    f"graph {graph.settings.name}: {path} was never finished",
                    repair=partial(_remove, path),
                )


def _purge(patient: Patient) -> str:
    purged = Catalog(patient.database).purge_deleted(
        GRACE_SECONDS, patient.settings.graphs_directory
    )
    return f"removed {len(purged)} deleted graphs" if purged else "removed"


def _clean(store: PredictionStore, graph_id: str) -> str:
    removed = store.clean(graph_id)
    return f"removed {len(removed)} such files" if removed else "removed"


def _remove(path: Path) -> str:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    return "removed"
