"""A Delta table as a live source: the whole, then every change, from any position."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.graph_settings import GraphSettings
from peewit.service.inbox.manifest import Manifest
from peewit.service.ingest.ingestor import Ingestor, LiveSourceUnread
from peewit.service.jobs.ingest_steps import IngestSteps
from peewit.service.live_sources import delta_log
from peewit.service.live_sources.contract import Access, ChangesLost
from peewit.service.live_sources.delta import DeltaSource
from peewit.service.live_sources.kinds import KINDS, Kind, live_source, start_of
from peewit.service.live_sources.table_chunks import TableUnavailable, UnreadableTable
from peewit.service.settings import Settings
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.column_mapping import NO_COLUMN, PLAIN, EdgeColumns
from tests.service.live_sources.feeding import edges_after
from tests.service.live_sources.tables import (
    Row,
    append,
    change,
    chunks,
    edges,
    make_table,
    merge,
    opened,
    pairs,
    rows_of,
    table_edges,
)

START: list[Row] = [("a", "b", 1.0), ("b", "c", 2.0), ("c", "d", 3.0)]
N_NODES = 9


@pytest.mark.slow
@pytest.mark.parametrize("feed", [True, False], ids=["feed", "files"])
@pytest.mark.parametrize("seed", range(4))
def test_changes_from_any_position_lead_to_the_table(
    tmp_path: Path, seed: int, *, feed: bool
) -> None:
    rng = np.random.default_rng(seed)
    url = make_table(tmp_path / "t x", [(*pair, 1.0) for pair in pairs(N_NODES)[::2]], feed=feed)
    source = opened(url)
    found = list(chunks(source, most_rows=5))
    for _ in range(12):
        change(url, rng, N_NODES)
    found += chunks(source, found[-1].position, most_rows=5)
    assert source.lag(found[-1].position) == 0
    assert edges_after(rows_of(found)) == table_edges(url)
    after = next(n for n, each in enumerate(found) if "version" in each.position)
    for place in range(after, len(found) - 1):
        rest = list(chunks(opened(url), found[place].position, most_rows=5))
        assert rows_of(rest) == rows_of(found[place + 1 :])
        assert rest[-1].position == found[-1].position


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_changes_are_those_of_the_feed_as_the_library_reads_it(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    url = make_table(tmp_path / "t", [(*pair, 1.0) for pair in pairs(N_NODES)[::2]])
    for _ in range(12):
        change(url, rng, N_NODES)
    operations = {
        "insert": ("insert", "set"),
        "delete": ("delete",),
        "update_preimage": ("delete",),
        "update_postimage": ("set",),
    }
    wanted: Counter[tuple[str, ...]] = Counter()
    for row in pa.table(DeltaTable(url).load_cdf(1)).to_pylist():
        key = (row["_commit_version"], row["src"], row["dst"], row["weight"])
        wanted[(*key, operations[row["_change_type"]][0].replace("set", "insert"))] += 1
    found: Counter[tuple[str, ...]] = Counter()
    for chunk in chunks(opened(url), {"version": 0}):
        for u, v, weight, op in rows_of([chunk]):
            found[chunk.position["version"], u, v, weight, op.replace("set", "insert")] += 1
    assert found == wanted


def test_deletes_of_a_version_come_before_its_inserts(tmp_path: Path) -> None:
    url = make_table(tmp_path / "t", START)
    DeltaTable(url).update(predicate="src = 'a'", updates={"dst": "'z'"})
    rows = rows_of(list(chunks(opened(url), {"version": 0}, most_rows=1)))
    assert rows == [("a", "b", 1.0, "delete"), ("a", "z", 1.0, "set")]


def test_the_whole_can_be_read_on_while_the_table_changes(tmp_path: Path) -> None:
    url = make_table(tmp_path / "t", START)
    whole = list(chunks(opened(url), most_rows=1))
    first = next(iter(chunks(opened(url), most_rows=1)))
    merge(url, [("a", "b", 9.0), ("d", "e", 4.0)])
    rest = list(chunks(opened(url), first.position, most_rows=1))
    assert rows_of([first, *rest])[:3] == rows_of(whole)
    assert edges_after(rows_of([first, *rest])) == table_edges(url)


def test_moving_rows_between_files_changes_nothing(tmp_path: Path) -> None:
    url = make_table(tmp_path / "t", START, feed=False)
    append(url, [("d", "e", 4.0)])
    DeltaTable(url).optimize.compact()
    source = opened(url, takes_changes=False)
    (added, moved) = chunks(source, {"version": 0})
    assert rows_of([added]) == [("d", "e", 4.0, "insert")]
    assert (moved.table, moved.position["version"]) == (None, 2)
    assert source.lag({"version": 0}) == 2


def test_a_graph_that_takes_no_changes_takes_appended_rows_up_to_the_first_change(
    tmp_path: Path,
) -> None:
    url = make_table(tmp_path / "t", START)
    append(url, [("d", "e", 4.0)])
    DeltaTable(url).delete("src = 'a'")
    read = chunks(opened(url, takes_changes=False), {"version": 0})
    assert rows_of([next(read)]) == [("d", "e", 4.0, "insert")]
    with pytest.raises(ChangesLost, match=r"version 2 .* must only add rows.*--parallel replace"):
        next(read)


def test_a_column_of_operations_is_taken_from_rows_that_are_added(tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    told = pa.table({"src": ["a", "a"], "dst": ["b", "b"], "what": ["insert", "delete"]})
    write_deltalake(url, told)
    columns = EdgeColumns(op="what")
    (chunk,) = chunks(opened(url, columns=columns))
    assert chunk.table is not None
    assert chunk.table["op"].to_pylist() == ["insert", "delete"]
    DeltaTable(url).delete("src = 'a'")
    with pytest.raises(ChangesLost, match="column 'what' says what its rows do"):
        list(chunks(opened(url, columns=columns), chunk.position))


def test_a_column_of_any_name_asks_for_deletes_to_its_last_row(tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    n_rows = 300
    names = [f"n{number}" for number in range(n_rows + 1)]
    said = {"crud": ["I"] * n_rows, "mood": ["deleted", "fine"] * (n_rows // 2)}
    table = pa.table({"src": names[:-1], "dst": names[1:], "amount": range(n_rows), **said})
    write_deltalake(url, table)
    columns = replace(PLAIN, op="op")
    (whole,) = chunks(opened(url, columns=columns))
    assert whole.table is not None
    assert whole.table.num_rows == n_rows
    write_deltalake(
        url,
        pa.table({"src": ["a"], "dst": ["b"], "crud": ["D"]}),
        mode="append",
        schema_mode="merge",
    )
    with pytest.raises(BadEdges, match=r"(?s)column 'crud' asks for deletes.*say op='crud'"):
        list(chunks(opened(url, columns=columns), json.loads(json.dumps(whole.position))))
    (ignored,) = chunks(opened(url, columns=EdgeColumns(op=NO_COLUMN)), whole.position)
    assert ignored.table is not None
    assert ignored.table.num_rows == 1
    late = pa.table({**table.to_pydict(), "crud": [*said["crud"][1:], "D"]})
    write_deltalake(str(tmp_path / "late"), late)
    with pytest.raises(BadEdges, match="1 of the 300 rows looked at, the first is row 299"):
        list(chunks(opened(str(tmp_path / "late"))))


def test_ends_may_be_partitions_with_odd_names(tmp_path: Path) -> None:
    rows = [("a b", "c/d", 1.0), ("ä=%", "c/d", 2.0), ("a b", "e", 3.0)]
    url = make_table(tmp_path / "t", rows, by=["src"])
    source = opened(url)
    whole = list(chunks(source))
    assert sorted(rows_of(whole)) == sorted((*row, "insert") for row in rows)
    DeltaTable(url).delete("dst = 'e'")
    assert rows_of(list(chunks(source, whole[-1].position))) == [("a b", "e", 3.0, "delete")]


def test_a_column_that_came_later_is_null_before(tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    write_deltalake(url, edges(START).drop(["weight"]))
    write_deltalake(url, edges([("d", "e", 4.0)]), mode="append", schema_mode="merge")
    rows = rows_of(list(chunks(opened(url))))
    assert sorted(weight or 0.0 for _, _, weight, _ in rows) == [0.0, 0.0, 0.0, 4.0]


@pytest.mark.parametrize("renamed", [{"src": "a"}, {"weight": "w"}])
def test_a_version_whose_columns_were_renamed_and_are_back_stops_the_source(
    settings: Settings,
    manifest: Manifest,
    graph: GraphRecord,
    tmp_path: Path,
    renamed: dict[str, str],
) -> None:
    url = make_table(tmp_path / "t", START, feed=False)
    manifest.sources.add(graph.id, url, kind="delta", follow=True)
    ingestor = Ingestor(manifest.live._database, settings)
    ingestor.ingest_graph(graph.id)
    rows = edges([("x", "y", 9.0)])
    named = rows.rename_columns([renamed.get(name, name) for name in rows.column_names])
    for table in (named, rows):
        write_deltalake(url, table, mode="overwrite", schema_mode="overwrite")
    for _ in range(2):
        with pytest.raises(LiveSourceUnread, match=r"version 1 of .* were renamed or dropped"):
            ingestor.ingest_graph(graph.id)
    (told,) = manifest.sources.list(graph.id)
    assert told.error is not None
    assert (told.n_failures, told.lag) == (2, 2)
    assert told.position is not None
    assert told.position["version"] == 0
    (fault,) = IngestSteps(manifest.live._database).faults(600.0)
    assert "renamed or dropped" in str(fault)
    if "src" in renamed:  # version 2 removes a file without it
        with pytest.raises(ChangesLost, match=r"in version 2 of .* were renamed"):
            list(chunks(opened(url), {"version": 1}))
    assert list(chunks(opened(url), {"version": 2})) == []


def test_a_line_of_the_log_may_only_be_so_long(tmp_path: Path) -> None:
    url = make_table(tmp_path / "t", START)
    append(url, [("d", "e", 4.0)])
    rewrite_log(url, 1, "commitInfo", far="x" * delta_log._MOST_LINE_BYTES)
    with pytest.raises(UnreadableTable, match="must have at most"):
        list(chunks(opened(url), {"version": 0}))


def test_vacuumed_changes_are_told_with_what_to_do(tmp_path: Path) -> None:
    url = make_table(tmp_path / "t", START, feed=False)
    DeltaTable(url).delete("src = 'a'")
    DeltaTable(url).vacuum(0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(ChangesLost, match=r"version 1 .* is gone, as after VACUUM.*--from"):
        list(chunks(opened(url), {"version": 0}))


def test_a_log_that_was_cut_tells_where_it_begins(tmp_path: Path) -> None:
    url = make_table(tmp_path / "t", START)
    for number in range(3):
        append(url, [("x", f"y{number}", 1.0)])
    DeltaTable(url).create_checkpoint()
    for number in range(2):
        (Path(url) / "_delta_log" / f"{number:020}.json").unlink()
    with pytest.raises(ChangesLost, match=r"version 1 .* begins at version 2"):
        list(chunks(opened(url), {"version": 0}))
    with pytest.raises(ChangesLost, match="version 1"):
        list(chunks(opened(url), {"table": 1}))
    assert len(rows_of(list(chunks(opened(url), {"version": 1})))) == 2


def test_a_table_that_was_made_anew_is_told(tmp_path: Path) -> None:
    url = make_table(tmp_path / "t", START)
    append(url, [("d", "e", 4.0)])
    source = opened(url)
    end = list(chunks(source))[-1].position
    shutil.rmtree(url)
    make_table(tmp_path / "t", START)
    with pytest.raises(ChangesLost, match=r"version 1 must be one of .* or ends at 0"):
        list(chunks(opened(url), end))
    append(url, [("d", "e", 4.0)])
    append(url, [("e", "f", 5.0)])
    with pytest.raises(ChangesLost, match="Its log was made anew"):
        list(chunks(opened(url), end))
    assert len(rows_of(list(chunks(opened(url), {"version": 1})))) == 1


def rewrite_log(url: str, version: int, name: str, **values: object) -> None:
    """Have actions of a version say something else."""
    path = Path(url) / "_delta_log" / f"{version:020}.json"
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        if name in action:
            action[name] |= values
    path.write_text("\n".join(map(json.dumps, actions)))


def test_files_outside_the_table_and_deletion_vectors_are_refused(tmp_path: Path) -> None:
    url = make_table(tmp_path / "t", START)
    outside = make_table(tmp_path / "outside", [("x", "y", 1.0)])
    append(url, [("d", "e", 4.0)])
    (secret,) = Path(outside).glob("*.parquet")
    for path in (str(secret), f"file://{secret}"):
        rewrite_log(url, 1, "add", path=path)
        with pytest.raises(UnreadableTable, match="must lie in the table"):
            list(chunks(opened(url), {"version": 0}))
    rewrite_log(url, 1, "add", path=f"../outside/{secret.name}")
    with pytest.raises(ChangesLost, match="is gone"):
        list(chunks(opened(url), {"version": 0}))
    vector = {
        "storageType": "u",
        "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
        "offset": 4,
        "sizeInBytes": 40,
        "cardinality": 2,
    }
    rewrite_log(url, 1, "add", deletionVector=vector)
    with pytest.raises(UnreadableTable, match="deletion vectors"):
        list(chunks(opened(url), {"version": 0}))


def test_a_confined_source_follows_no_link_out_of_its_place(tmp_path: Path) -> None:
    url = make_table(tmp_path / "place" / "t", START)
    (file,) = Path(url).glob("*.parquet")
    file.rename(tmp_path / "secret.parquet")
    file.symlink_to(tmp_path / "secret.parquet")

    def allows(path: str) -> bool:
        return Path(path).resolve().is_relative_to(tmp_path / "place")

    source = DeltaSource.open(Access(url=url, columns=PLAIN, takes_changes=True, allows=allows))
    with pytest.raises(UnreadableTable, match="must lie where the source may read"):
        list(chunks(source))
    assert len(rows_of(list(chunks(opened(url))))) == len(START)


def test_what_is_no_such_table_or_position_is_told(tmp_path: Path) -> None:
    url = make_table(tmp_path / "t", START)
    with pytest.raises(TableUnavailable, match=r"nowhere cannot be opened: [^\n]*$"):
        list(chunks(opened(str(tmp_path / "nowhere"))))
    with pytest.raises(BadEdges, match="column 'from' is missing"):
        list(chunks(opened(url, columns=EdgeColumns(src="from"))))
    with pytest.raises(ValueError, match="object store for a Delta table"):
        start_of("delta", "https://host/t", PLAIN, None)
    with pytest.raises(ValueError, match="number of a version, got 'x'"):
        start_of("delta", url, PLAIN, "x")
    with pytest.raises(ValueError, match="left out for a source of files"):
        start_of("files", url, PLAIN, "5")
    with pytest.raises(ValueError, match="kind must be one of files, delta"):
        live_source("nothing")
    assert start_of("delta", url, PLAIN, "5") == {"version": 5}


def test_an_extra_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = tmp_path / "lacking_source.py"
    module.write_text("import surely_not_installed\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(KINDS, "lacking", Kind("lacking_source", "Source", "lacking"))
    with pytest.raises(ValueError, match=r"package surely_not_installed.*'peewit\[lacking\]'"):
        live_source("lacking")


def test_nodes_are_looked_for_in_the_last_version(tmp_path: Path) -> None:
    url = make_table(tmp_path / "t", START)
    DeltaTable(url).delete("src = 'a'")
    source = opened(url)
    assert source.holds(pa.array(["x", "d"], pa.large_string()))
    assert not source.holds(pa.array(["a", "x"], pa.large_string()))


def test_a_table_that_fails_is_told_and_holds_up_nothing_else(
    settings: Settings, manifest: Manifest, catalog: Catalog, tmp_path: Path
) -> None:
    graph = catalog.create(GraphSettings(name="sums", expected_nodes=40, seed=1))
    url = make_table(tmp_path / "t", START)
    source = manifest.sources.add(graph.id, url, kind="delta", follow=True)
    other = make_table(tmp_path / "u", [("x", "y", 1.0)])
    manifest.sources.add(graph.id, other, kind="delta")
    ingestor = Ingestor(manifest.live._database, settings)
    ingestor.ingest_graph(graph.id)
    DeltaTable(url).delete("src = 'a'")
    append(url, [("d", "e", 4.0)])
    append(other, [("never", "read", 1.0)])
    with pytest.raises(LiveSourceUnread, match="must only add rows"):
        ingestor.ingest_graph(graph.id)
    (told,) = (each for each in manifest.sources.list(graph.id) if each.id == source.id)
    assert told.error is not None
    assert told.error.startswith("ChangesLost: version 1")
    assert told.position is not None
    assert told.position["version"] == 0
    assert catalog.get_by_id(graph.id).progress.edges_seen == 4
