"""`peewit features`: sets of features from files, on the stores of a home without a server."""

import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from rich.console import Console
from sklearn.datasets import dump_svmlight_file

from peewit.service.catalog import Catalog
from peewit.service.cli.progress import RowProgress
from peewit.service.database.engine import open_database
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.settings import Settings
from peewit.streaming.features.store import FeatureStore
from peewit.streaming.graph_paths import GraphPaths
from tests.service.cli.conftest import Outcome, Peewit

ROWS = "node,x,y\na,1,2\nb,3,4\n"


def test_tables_replace_and_join_the_rows_there_are(peewit: Peewit, tmp_path: Path) -> None:
    peewit("graph", "create", "g")
    (tmp_path / "1.csv").write_text(ROWS)
    table = pa.table({"node": ["b", "c"], "features": [[5.0, 6.0], [7.0, 8.0]]})
    pq.write_table(table, tmp_path / "2.parquet")
    first = peewit("features", "g", tmp_path / "1.csv")
    assert first.exit_code == 0, first.err
    assert first.out.startswith("g: 2 rows of 2 columns, 2 new nodes, ")
    assert "features_version 1: 0 nodes without a row" in first.out
    added = peewit("features", "g", tmp_path / "2.parquet", "--add", "--json").json
    assert (added["set"]["features_version"], added["set"]["n_new_nodes"]) == (2, 1)
    assert (added["features"]["present"]["n_rows"], added["features"]["n_missing"]) == (3, 0)
    shown = peewit("graph", "show", "g")
    assert "3 rows of 2, 0 nodes without" in shown.out
    replaced = peewit("features", "g", tmp_path / "2.parquet")
    assert "features_version 3: 1 nodes without a row" in replaced.out
    assert peewit("graph", "show", "g", "--json").json["features"]["n_rows"] == 2


def test_columns_that_are_added_are_matched_by_their_names(peewit: Peewit, tmp_path: Path) -> None:
    peewit("graph", "create", "g")
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    first.write_text(ROWS)
    assert peewit("features", "g", first).exit_code == 0

    def added(text: str) -> Outcome:
        second.write_text(text)
        return peewit("features", "g", second, "--add", "--json")

    assert added("y,node,x\n8,b,7\n10,c,9\n").exit_code == 0
    (path,) = tmp_path.glob("home/graphs/*/features")
    np.testing.assert_array_equal(FeatureStore(path).load(2, 3).values, [[1, 2], [7, 8], [9, 10]])
    for header, told in {
        "node,x,y,z": "has further 'z'",
        "node,x": "lacks 'y'",
        "node,x,Y": "lacks 'y' and has further 'Y'",
    }.items():
        refused = added(f"{header}\nd{',1' * header.count(',')}\n")
        assert refused.exit_code == 1
        assert told in refused.err
    table = pa.table({"node": ["d"], "features": [[11.0, 12.0]]})  # without names, by place
    pq.write_table(table, tmp_path / "3.parquet")
    assert peewit("features", "g", tmp_path / "3.parquet", "--add").exit_code == 0
    assert added("node,y,x\ne,14,13\n").exit_code == 0
    np.testing.assert_array_equal(FeatureStore(path).load(4, 5).values[3:], [[11, 12], [13, 14]])


def test_columns_that_describe_no_node_are_told_and_taken(peewit: Peewit, tmp_path: Path) -> None:
    peewit("graph", "create", "g", "--column", "label=is_fraud")
    table = tmp_path / "features.csv"
    table.write_text("Unnamed: 0,node,x,is_fraud,n\n7,a,.5,1,1\n3,b,.1,0,2\n9,c,.2,1,3\n")
    told = peewit("features", "g", table)
    assert told.exit_code == 0
    for text in ("'Unnamed: 0' counts", "'n' counts", "'is_fraud' is called as labels are"):
        assert text in told.err
    table.write_text("node,x,n\na,.5,1\nb,.1,2\nc,.2,4\n")
    assert peewit("features", "g", table).err == ""


def test_matrices_give_row_i_to_node_i(peewit: Peewit, home: Path, tmp_path: Path) -> None:
    rows = sp.csr_array(sp.random_array((30, 8), density=0.4, rng=np.random.default_rng(1)))
    sp.save_npz(tmp_path / "rows.npz", rows)
    dump_svmlight_file(rows, np.ones(30), str(tmp_path / "rows.svm"), zero_based=True)
    peewit("graph", "create", "g", "--node-ids", "dense")
    for number, arguments in enumerate(
        [("rows.npz",), ("rows.svm", "--from-libsvm", "--zero-based")], 1
    ):
        done = peewit("features", "g", tmp_path / arguments[0], *arguments[1:])
        assert done.exit_code == 0, done.err
        graph_id = peewit("graph", "show", "g", "--json").json["id"]
        paths = GraphPaths(root=Settings(home=home).graphs_directory / graph_id)
        loaded = FeatureStore(paths.features).load(number, 30)
        assert loaded.nodes is None
        np.testing.assert_allclose(loaded.values.toarray(), rows.toarray(), rtol=1e-6)


def test_what_is_refused_is_named_and_changes_nothing(peewit: Peewit, tmp_path: Path) -> None:
    peewit("graph", "create", "g")
    path = tmp_path / "rows.csv"
    path.write_text("node,x\na,1\nb,nan\n")
    at_the_door = peewit("features", "g", path)
    assert at_the_door.exit_code == 1
    assert "rows.csv: column 'x' must hold finite numbers, got nan in row 1" in (at_the_door.err)
    path.write_text("node,x\na,1\nb,2\na,3\n")
    later = peewit("features", "g", path, "--json")
    assert later.exit_code == 1
    assert later.json["set"]["status"] == "refused"
    assert (
        "features must have one row of each node; leave the second out, got a in row 2" in later.err
    )
    assert peewit("graph", "show", "g", "--json").json["features_version"] == 0
    assert "the last set was refused" in peewit("graph", "show", "g").out


def test_a_set_waits_for_the_process_that_holds_the_graph(
    peewit: Peewit, home: Path, tmp_path: Path
) -> None:
    """The other process, here a thread of the ingestor, takes the set in when it ends."""
    peewit("graph", "create", "g")
    (tmp_path / "rows.csv").write_text(ROWS)
    settings = Settings(home=home)
    database = open_database(settings.database)
    graph = Catalog(database).get("g")
    with Ingestor(database, settings).open_graph(graph.id, should_stop=lambda: False) as opened:
        stopped = threading.Event()

        def commit() -> None:
            while not stopped.wait(0.1):
                opened.commit_features()

        thread = threading.Thread(target=commit)
        thread.start()
        done = peewit("features", "g", tmp_path / "rows.csv")
        stopped.set()
        thread.join()
    database.close()
    assert done.exit_code == 0, done.err
    assert "another process ingests this graph" in done.err
    assert "features_version 1" in done.out


def test_progress_tells_rows_speed_and_the_time_left() -> None:
    now = iter([0.0, 2.0, 10.0, 10.0, 10.0])
    console = Console(record=True, force_terminal=False, width=200)
    progress = RowProgress(console, 1_000, clock=lambda: next(now))
    progress.advance(100)
    progress.advance(100)
    assert "200/1,000 rows  20 rows/s  40 s left" in console.export_text()
