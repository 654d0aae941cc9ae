"""Traces of erased nodes in the files and rows of one graph, and how each kind is overwritten.

Every step may be repeated after the process was killed.
"""

import json
import re
import shutil
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import structlog
from sqlalchemy import Connection, Table, select, update

from peewit.service.catalog import GraphRecord, writing
from peewit.service.database.lease_keeper import LeaseKeeper
from peewit.service.database.leases import LeaseExpired
from peewit.service.database.tables import (
    feature_sets,
    files,
    graphs,
    jobs,
    pushes,
    refusals,
    sources,
)
from peewit.service.database.timestamps import now
from peewit.service.home import Home
from peewit.service.inbox.inbox_records import SourceRecord
from peewit.service.inbox.leaving.erased_rows import (
    erase_from_block,
    erase_from_set,
    without_nodes,
    words_of,
)
from peewit.service.inbox.leaving.erasures import ErasureRecord, Sources, WaitingNode
from peewit.service.inbox.live_reader import access_to
from peewit.service.inbox.needed_files import path_below
from peewit.service.jobs.job import JobStatus
from peewit.service.live_sources.contract import UNREAD
from peewit.service.live_sources.kinds import live_source
from peewit.service.redaction import shown_url
from peewit.service.tables.uploads import node_array
from peewit.service.upkeep.backup import STAGING_PREFIX, abandoned_stagings
from peewit.solvers.arrays import Int64Array
from peewit.streaming.durable_files import TEMPORARY_PREFIX, publish_json
from peewit.streaming.edges.blocks import excerpt
from peewit.streaming.edges.change_columns import UnreadColumns
from peewit.streaming.edges.node_kinds import TEXT
from peewit.streaming.edges.parts import EdgeFile
from peewit.streaming.edges.reader import read_parts
from peewit.streaming.edges.staging import Abandoned, stage
from peewit.streaming.features.store import FeaturesNotFound, FeatureStore
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Interrupted
from peewit.streaming.snapshots.store import SnapshotNotFound, SnapshotStore
from peewit.streaming.steps import Steps

_log = structlog.get_logger(__name__)

_MADE_AGAIN: Final = (
    *("certify", "refine", "knn_work", "embedding", "counts", "map", "filtered_features"),
)
"""Directories of a graph whose content jobs make again."""

_GONE: Final = "(erased)"
_QUOTED: Final = re.compile(r"(['\"`])(.*?)\1")
_FREE_TEXTS: Final = (
    files.c.value,
    files.c.reason,
    feature_sets.c.value,
    feature_sets.c.reason,
    jobs.c.error,
    sources.c.error,
    refusals.c.place,
    refusals.c.reason,
)
"""Columns that may quote the content of a file."""


_ROUNDS: Final = 3


def _remove_uploads(directory: Path) -> None:
    """Remove uploads below a directory, from which API processes remove files, too."""
    # names of columns: a line of data may have been taken for them
    for remembered in directory.glob("*.json"):
        remembered.unlink(missing_ok=True)
    for last in (*[False] * (_ROUNDS - 1), True):
        for waiting in directory.glob("*/*"):
            try:
                shutil.rmtree(waiting)
            except FileNotFoundError:  # taken meanwhile; what is left goes in the next round
                if last:
                    raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """Traces of erased nodes in one graph, whose only writer this process is."""

    home: Home
    record: GraphRecord
    keeper: LeaseKeeper
    paths: GraphPaths
    files_of_sources: Callable[[], Sequence[EdgeFile]]  # each as it is read
    should_stop: Callable[[], bool]  # asked between files
    steps: Steps  # told of progress
    wall_clock: Callable[[], float]  # seconds since the epoch

    def ids(self, nodes: Sequence[WaitingNode]) -> pa.Array:
        """External ids as the node index has them."""
        kind = self.record.settings.node_ids
        names = [node.node for node in nodes]
        return node_array(names if kind in TEXT else [int(name) for name in names], kind)

    def erase_inbox(self, nodes: Sequence[WaitingNode], last_turns: Mapping[str, int]) -> None:
        """Take rows out of pushes, gathered files, k-NN edges and features, kept or waiting.

        Uploads not taken yet are removed whole, as their columns are unknown. ``last_turns`` is by
        erasure: the last turn before it, up to which its nodes are erased.
        """
        _remove_uploads(self.paths.uploads)
        turns = sorted(set(last_turns.values()))
        position = turns[-1]
        named = [
            self.ids([node for node in nodes if last_turns[node.erasure_id] >= turn])
            for turn in turns
        ]

        def names_at(turn: int) -> pa.Array:
            return named[bisect_left(turns, turn)]

        graph_id = self.record.id
        with self.home.database.read() as connection:
            mine = pushes.c.graph_id == graph_id
            pushed = connection.execute(
                select(
                    pushes.c.id, pushes.c.path, pushes.c.content.is_not(None), pushes.c.position
                ).where(mine, pushes.c.position <= position)
            ).all()
            listed = connection.execute(
                select(files.c.path, files.c.position).where(
                    files.c.graph_id == graph_id, files.c.position <= position
                )
            ).all()
            waiting = connection.execute(
                select(feature_sets.c.id, feature_sets.c.path, feature_sets.c.position).where(
                    feature_sets.c.graph_id == graph_id,
                    feature_sets.c.status == "pending",
                    feature_sets.c.position <= position,
                )
            ).all()
        for push_id, path, has_content, turn in pushed:
            self._stop_if_asked()
            if has_content:
                self._erase_content(push_id, names_at(turn))
            elif path and (n_rows := erase_from_block(Path(path), names_at(turn))) is not None:
                self._store(pushes, push_id, n_rows=n_rows)
        for path, turn in listed:
            if path_below(path, graph_id) is not None:
                self._stop_if_asked()
                erase_from_block(Path(path), names_at(turn))
        for set_id, path, turn in waiting:
            self._stop_if_asked()
            n_rows = self._erase_from_set(Path(path), names_at(turn))
            if n_rows is not None:
                self._store(feature_sets, set_id, n_rows=n_rows)

    def erase_unnamed(self, nodes: Sequence[WaitingNode], struck: Sequence[ErasureRecord]) -> None:
        """Take rows out of pushes and features that no row of the database names.

        A process was killed before it stored their row. Each node is erased from files written
        before its erasure was requested: later ones may be stored yet, and bring it anew.
        """
        folders = (
            (self.paths.pushes, erase_from_block),
            (self.paths.feature_sets, self._erase_from_set),
        )
        old = [
            (path, erase_from)
            for folder, erase_from in folders
            if folder.exists()
            for path in folder.iterdir()
            if not path.name.startswith(TEMPORARY_PREFIX)
        ]
        graph_id = self.record.id
        with self.home.database.read() as connection:
            present = connection.execute(select(now())).scalar_one()
            paths = {
                path_below(path, graph_id)
                for table in (pushes, files, feature_sets)
                for path in connection.execute(
                    select(table.c.path).where(table.c.graph_id == graph_id)
                ).scalars()
            }
        asked_at = {each.id: (present - each.created_at).total_seconds() for each in struck}
        for path, erase_from in old:
            if str(path.relative_to(self.paths.root)) in paths:
                continue
            with suppress(FileNotFoundError):
                age = self.wall_clock() - path.stat().st_mtime
                mine = [each for each in nodes if age >= asked_at[each.erasure_id]]
                if mine:
                    erase_from(path, self.ids(mine))

    def _erase_from_set(self, path: Path, names: pa.Array) -> int | None:
        return erase_from_set(path, names, are_typed=self._are_typed)

    @property
    def _are_typed(self) -> bool:
        return self.record.settings.node_ids == "typed"

    def _erase_content(self, push_id: str, names: pa.Array) -> None:
        ((_, content),) = self.home.manifest.push_log.contents([push_id])
        if content is not None:
            left, n_rows = without_nodes(content, names)
            if left != content:
                self._store(pushes, push_id, content=left, n_rows=n_rows)

    def _store(self, table: Table, row_id: str, **values: object) -> None:
        with writing(self.home.database, self.record.id, self.keeper.lease) as connection:
            connection.execute(update(table).where(table.c.id == row_id).values(**values))

    def erase_features(self, dense: Int64Array, names: pa.Array) -> None:
        """Publish the next version of the features, without rows and words of the nodes."""
        store = FeatureStore(self.paths.features)
        present = self._features_version
        if not present:
            return
        try:
            left = store.publish_without(
                present + 1,
                dense,
                words=words_of(names, are_typed=self._are_typed),
                onto=present,
                created_at=self.wall_clock(),
                guard=self.keeper.confirm,
            )
        except FeaturesNotFound:
            return
        if left is None:
            return
        with writing(self.home.database, self.record.id, self.keeper.lease) as connection:
            connection.execute(
                update(graphs)
                .where(graphs.c.id == self.record.id)
                .values(features_version=present + 1)
            )

    def remove_old_features(self) -> None:
        """Remove all versions of the features but the present one."""
        present = self._features_version
        self.keeper.confirm()
        store = FeatureStore(self.paths.features)
        store.retire(present, grace_seconds=float("-inf"), now=self.wall_clock())

    @property
    def _features_version(self) -> int:
        return self.home.catalog.get_by_id(self.record.id).features_version

    def erase_made(self, dense: Int64Array, first: int | None) -> None:
        """Overwrite snapshots, predictions and all else that was made of the nodes."""
        self.keeper.confirm()
        for name in _MADE_AGAIN:
            with suppress(FileNotFoundError):
                shutil.rmtree(self.paths.root / name)
        store = SnapshotStore(self.paths.snapshots)
        for number in store.numbers():
            if first is not None and number >= first:
                continue
            self._stop_if_asked()
            with suppress(SnapshotNotFound):  # retired meanwhile
                store.erase(number, dense.astype(np.int32))
                store.companion(number, "certificate.json").unlink(missing_ok=True)
        self.home.prediction_files.erase(self.record.id, dense, before=first)

    def remove_unfinished(self, struck: Sequence[ErasureRecord]) -> None:
        """Remove half-written files of killed processes.

        A file older than the last strike may hold any of the nodes, even if written after an
        earlier strike. Predictions may be younger, of a job that began before; only those of
        running jobs stay, which began after the strike.
        """
        paths = [*self.paths.root.rglob(f"{TEMPORARY_PREFIX}*")]
        mine = jobs.c.graph_id == self.record.id
        with self.home.database.read() as connection:
            present = connection.execute(select(now())).scalar_one()
            running = connection.execute(
                select(jobs.c.id).where(mine, jobs.c.status == JobStatus.RUNNING)
            ).scalars()
            names = list(running)
        age = min((present - each.struck_at).total_seconds() for each in struck if each.struck_at)
        for path in paths:
            is_abandoned = path.parent == self.paths.predictions and not any(
                name in path.name for name in names
            )
            with suppress(FileNotFoundError):
                if is_abandoned or self.wall_clock() - path.stat().st_mtime >= age:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    def is_backed_up(self) -> bool:
        """Whether a backup is being made, which links files; removes the links of dead ones."""
        graphs_directory = self.paths.root.parent
        for left in abandoned_stagings(graphs_directory):
            shutil.rmtree(left)
        return any(graphs_directory.glob(f"{STAGING_PREFIX}*"))

    def erase_bad_rows(self, nodes: Sequence[WaitingNode]) -> None:
        """Take values out of the reports on rows that were left out."""
        names = _texts(nodes)
        for path in sorted(self.paths.bad_rows.glob("*.json")):
            report = json.loads(path.read_text(encoding="utf-8"))
            for row in report["rows"]:
                if row.get("value") is not None:
                    row["value"] = _without_names(row["value"], names)
            publish_json(path, report)

    def erase_texts(
        self, connection: Connection, nodes: Sequence[WaitingNode], position: int
    ) -> None:
        """Take the ids out of texts that the database quotes.

        Notes on features up to the turn ``position`` go: they may quote values of the nodes' rows.
        """
        names = _texts(nodes)
        mine = feature_sets.c.graph_id == self.record.id
        connection.execute(
            update(feature_sets).where(mine, feature_sets.c.position <= position).values(note=None)
        )
        self._erase_unread(connection, nodes)
        for column in _FREE_TEXTS:
            table = column.table
            rows = connection.execute(
                select(table.c.id, column).where(
                    table.c.graph_id == self.record.id, column.is_not(None)
                )
            ).all()
            for row_id, text in rows:
                left = _without_names(text, names)
                if left != text:
                    connection.execute(
                        update(table).where(table.c.id == row_id).values({column: left})
                    )

    def _erase_unread(self, connection: Connection, nodes: Sequence[WaitingNode]) -> None:
        """Take the ids out of what is known of columns of live sources that nobody reads."""
        statement = select(sources.c.id, sources.c.position).where(
            sources.c.graph_id == self.record.id, sources.c.position.is_not(None)
        )
        for source_id, position in connection.execute(statement).all():
            unread = UnreadColumns(position.get(UNREAD))
            unread.forget([node.node for node in nodes])
            if unread.kept != position.get(UNREAD, {}):
                left = {**position, UNREAD: unread.kept}
                connection.execute(
                    update(sources).where(sources.c.id == source_id).values(position=left)
                )

    def look_through_sources(self, names: pa.Array) -> Sources:
        """Which sources still hold the nodes: in files that are still there, or in live sources."""
        sources: Sources = {"holding": [], "unread": []}
        files = [
            (file.path, partial(self._holds, file, names))
            for file in self.files_of_sources()
            if path_below(file.path, self.record.id) is None
        ]
        live = [
            (source.url, partial(self._live_holds, source, names))
            for source in self.home.manifest.sources.list(self.record.id)
            if source.is_live
        ]
        for place, holds in (*files, *live):
            self._stop_if_asked()
            shown = shown_url(place)
            try:
                if holds():
                    sources["holding"].append(shown)
            except Abandoned:
                raise Interrupted from None
            except (Interrupted, LeaseExpired):
                raise
            except Exception as error:  # noqa: BLE001 - gone, damaged, or what stores of others raise
                # its text may quote an id
                _log.warning("source not looked through", file=shown, error=type(error).__name__)
                sources["unread"].append(shown)
        return sources

    def _live_holds(self, source: SourceRecord, names: pa.Array) -> bool:
        access = access_to(source, self.record, home=self.home.settings.home)
        with closing(live_source(source.kind).open(access)) as live:
            return live.holds(names)

    def _holds(self, file: EdgeFile, names: pa.Array) -> bool:
        settings = self.record.settings
        staged = stage(
            file,
            self.paths.staging,
            node_kind=settings.node_ids,
            max_nodes=settings.max_nodes,
            is_abandoned=self.should_stop,
        )
        try:
            blocks = read_parts(
                [(staged, part) for part in staged.parts],
                node_kind=settings.node_ids,
                max_nodes=settings.max_nodes,
                n_threads=1,
            )
            for block in blocks:
                self._stop_if_asked()
                for ids in (block.src, block.dst):
                    if pc.any(pc.is_in(ids, value_set=names.cast(ids.type))).as_py():
                        return True
        finally:
            staged.release()
        return False

    def _stop_if_asked(self) -> None:
        self.steps.move_on()
        if self.should_stop():
            raise Interrupted


def _texts(nodes: Sequence[WaitingNode]) -> frozenset[str]:
    """External ids as errors quote them: whole, cut, or escaped."""
    names = [node.node for node in nodes]
    return frozenset(chain(names, map(excerpt, names), (repr(name)[1:-1] for name in names)))


def _without_names(text: str, names: Collection[str]) -> str:
    """A text without ids that are the whole of it, or stand in quotes."""
    if text in names:
        return _GONE
    return _QUOTED.sub(lambda match: _GONE if match[2] in names else match[0], text)
