"""From Parquet to predictions by the commands alone, without a server."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Thread

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from sqlalchemy import delete, text

from peewit.service.database.engine import Database, open_database
from peewit.service.database.tables import leases
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.settings import Settings
from tests.service.cli.conftest import Peewit

N_SIDE = 30


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    """Two dense communities, west and east, with one edge between them."""
    rng = np.random.default_rng(5)
    pairs = []
    for side in ("west", "east"):
        u, v = np.triu_indices(N_SIDE, k=1)
        chosen = rng.random(len(u)) < 0.5
        pairs += [(f"{side}-{a}", f"{side}-{b}") for a, b in zip(u[chosen], v[chosen], strict=True)]
        pairs += [(f"{side}-{a}", f"{side}-{a + 1}") for a in range(N_SIDE - 1)]
    pairs.append(("west-0", "east-0"))
    return written(tmp_path / "in" / "edges.parquet", pairs)


def written(path: Path, pairs: list[tuple[str, str]], last_weight: float = 1.0) -> Path:
    path.parent.mkdir(exist_ok=True)
    src, dst = zip(*pairs, strict=True)
    weight = np.ones(len(pairs), np.float32)
    weight[-1] = last_weight
    table = pa.table({"src": src, "dst": dst, "weight": weight})
    pq.write_table(table, path, row_group_size=200)
    return path


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    path = tmp_path / "truth.csv"
    rows = [f"{side}-{number},{side}" for side in ("west", "east") for number in range(N_SIDE)]
    path.write_text("\n".join(["node,label", *rows]) + "\n")
    return path


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    path = tmp_path / "labels.csv"
    path.write_text("node,label\nwest-3,west\neast-7,east\n")
    return path


@pytest.fixture
def database(home: Path) -> Iterator[Database]:
    database = open_database(Settings(home=home).database)
    yield database
    database.close()


@pytest.mark.usefixtures("processes")
def test_edges_and_two_labels_become_predictions(
    peewit: Peewit, edges: Path, labels: Path, truth: Path, tmp_path: Path
) -> None:
    peewit("graph", "create", "g", "--expected-nodes", 60)
    ingested = peewit("ingest", "g", edges, "--json").json
    assert ingested["progress"]["n_nodes"] == 2 * N_SIDE
    assert ingested["files"]["committed"] == 1
    assert peewit("labels", "put", "g", labels).exit_code == 0
    solved = peewit(
        "solve", "g", "--model", "stable-hfs", "--set", "graph_penalty=1", "--json"
    ).json
    assert solved["status"] == "succeeded"
    assert solved["parameters"] == {"graph_penalty": 1}
    evaluated = peewit("evaluate", "g", truth, "--json").json["of_classes"]
    assert evaluated["accuracy"] == 1.0
    assert evaluated["n_labeled"] == 2
    assert "1.0000" in peewit("evaluate", "g", truth).out
    output = tmp_path / "predictions.parquet"
    told = peewit("predictions", "g", "-o", output, "--json").json
    assert told["n_nodes"] == pq.read_metadata(output).num_rows == 2 * N_SIDE
    assert peewit("predictions", "g").out.startswith('"node","label"')
    assert peewit("predictions", "g", "--model", "hfs").exit_code == 1
    by_margin = ("predictions", "g", "--sort", "margin", "--top", 3)
    lines = [json.loads(line) for line in peewit(*by_margin, "--json").out.splitlines()]
    margins = pq.read_table(output)["margin"].to_pylist()
    assert [np.float32(line["margin"]) for line in lines] == sorted(margins)[:3]
    told = peewit(*by_margin, "--reverse", "-o", output, "--json").json
    assert told["n_nodes"] == 3
    assert pq.read_table(output)["margin"].to_pylist() == sorted(margins)[:-4:-1]
    assert "sort must be one of node, label" in peewit("predictions", "g", "--sort", "size").err
    assert peewit("predictions", "g", "--reverse").exit_code == 2
    exported = tmp_path / "kept.arrow"
    assert peewit("graph", "export", "g", "-o", exported).exit_code == 0
    with pa.ipc.open_stream(exported) as reader:
        kept = reader.read_all()
    assert set(kept["src"].to_pylist()) <= {f"{s}-{i}" for s in ("west", "east") for i in range(30)}
    assert kept.num_rows == ingested["progress"]["edges_kept"]
    assert peewit("graph", "export", "g", "-o", exported, "--snapshot", 9).exit_code == 1


@pytest.mark.slow
def test_bad_file_is_refused_with_its_reason_and_taken_once_it_is_mended(
    peewit: Peewit, edges: Path, tmp_path: Path
) -> None:
    peewit("graph", "create", "g")
    bad = written(tmp_path / "in" / "late.parquet", [("a", "b")] * 500, last_weight=np.nan)
    done = peewit("ingest", "g", edges.parent)
    assert done.exit_code == 1
    told = "1 row is bad, --skip-bad-rows 1 leaves it out: column 'weight' must be finite"
    assert f"quarantined {bad}: {told}" in done.err
    assert done.err.count("row 499") == 1
    n_nodes = peewit("graph", "show", "g", "--json").json["nodes"]
    assert n_nodes == 2 * N_SIDE
    written(bad, [("a", "b")] * 500)
    assert peewit("ingest", "g", edges.parent).exit_code == 0
    n_nodes = peewit("graph", "show", "g", "--json").json["nodes"]
    assert n_nodes == 2 * N_SIDE + 2


def test_running_again_adds_nothing(peewit: Peewit, edges: Path) -> None:
    peewit("graph", "create", "g")
    first = peewit("ingest", "g", edges, "--json").json["progress"]
    assert peewit("ingest", "g", edges, "--json").json["progress"] == first
    again = peewit("ingest", "g")
    assert (again.exit_code, again.err) == (0, "no new files; the graph stays as it is\n")
    (listed,) = peewit("source", "list", "g", "--json").json["sources"]
    assert listed["listed_at"] is not None


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["\n\n", ("\n", "\r\n"), ("\r\n", "\n")])
def test_a_file_of_a_content_that_came_before_counts_where_that_is_meant(
    peewit: Peewit, tmp_path: Path, ends: Sequence[str]
) -> None:
    first, copy = tmp_path / "a.csv", tmp_path / "b.csv"
    for path, end in zip((first, copy), ends, strict=True):
        path.write_text("src,dst\na,b\nb,c\n", newline=end)
    peewit("graph", "create", "g")
    peewit("ingest", "g", first)
    for _ in range(2):  # told whenever it is asked for
        told = peewit("ingest", "g", copy)
        assert told.exit_code == 0
        assert f"skipped {copy}: it has the same content as {first}; --again counts" in told.err
    assert "2 rows in" in peewit("ingest", "g", copy, "--once").out
    assert "4 rows in" in peewit("ingest", "g", copy, "--again").out
    assert "4 rows in" in peewit("ingest", "g", copy, "--again").out
    same = peewit("ingest", "g", first, "--again", "--json")
    assert same.json["progress"]["edges_seen"] == 4
    assert "copy one under another name" in same.err
    out = tmp_path / "kept.csv"
    assert peewit("graph", "export", "g", "-o", out).exit_code == 0
    assert [line.split(",")[2] for line in out.read_text().splitlines()[1:]] == ["2", "2"]


def test_files_that_came_later_are_found(peewit: Peewit, edges: Path) -> None:
    peewit("graph", "create", "g")
    peewit("ingest", "g", edges.parent)
    written(edges.parent / "more.parquet", [("x", "y")])
    done = peewit("ingest", "g", edges.parent, "--json").json
    assert done["files"]["committed"] == 2


def test_missing_file_is_named_and_nothing_is_added(peewit: Peewit, tmp_path: Path) -> None:
    peewit("graph", "create", "g")
    done = peewit("ingest", "g", tmp_path / "none.parquet")
    assert done.exit_code == 1
    assert "none.parquet" in done.err
    assert peewit("source", "list", "g", "--json").json["sources"] == []


@pytest.mark.parametrize("name", ["", "*.parquet"])
def test_a_place_without_tables_is_named_and_nothing_is_added(
    peewit: Peewit, tmp_path: Path, name: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "edges.txt").write_text("src,dst\na,b\n")
    peewit("graph", "create", "g")
    done = peewit("ingest", "g", tmp_path / "in" / name)
    assert done.exit_code == 1
    assert "none is there" in done.err
    assert str(tmp_path / "in") in done.err
    assert peewit("source", "list", "g", "--json").json["sources"] == []


def test_a_refused_file_is_told_whatever_names_it_until_its_source_is_removed(
    peewit: Peewit, edges: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad" / "a.parquet"
    bad.parent.mkdir()
    pq.write_table(pa.table({"from": ["a"], "to": ["b"]}), bad)
    peewit("graph", "create", "g")
    assert peewit("ingest", "g", bad).exit_code == 1
    again = peewit("ingest", "g", bad.parent)
    assert again.exit_code == 1
    assert "column 'src' is missing" in again.err
    sources = peewit("source", "list", "g", "--json").json["sources"]
    assert [each["url"] for each in sources] == [str(bad)], "the second had nothing of its own"
    assert peewit("ingest", "g", edges).exit_code == 0, "it names good files only"
    assert peewit("ingest", "g").exit_code == 1
    peewit("source", "remove", "g", bad)
    assert peewit("ingest", "g").exit_code == 0


def test_reading_a_followed_source_once_leaves_it_followed(peewit: Peewit, edges: Path) -> None:
    peewit("graph", "create", "g")
    peewit("ingest", "g", edges)
    peewit("source", "add", "g", edges.parent, "--follow")  # it will have nothing of its own
    assert peewit("ingest", "g", edges.parent).exit_code == 0
    sources = peewit("source", "list", "g", "--json").json["sources"]
    assert {each["url"]: each["follow"] for each in sources} == {
        str(edges.parent): True,
        str(edges): False,
    }


def test_ingest_whose_lease_was_taken_says_by_whom_and_ends_with_a_code_of_its_own(
    peewit: Peewit, edges: Path, database: Database
) -> None:
    peewit("graph", "create", "g")
    with database.write() as connection:
        connection.execute(
            text(
                "CREATE TRIGGER thief AFTER INSERT ON leases BEGIN"
                " UPDATE leases SET token = token + 1, holder = 'somebody else'; END"
            )
        )
    done = peewit("ingest", "g", edges)
    assert done.exit_code == 75
    assert "was taken by somebody else; nothing is lost" in done.err
    with database.write() as connection:
        connection.execute(text("DROP TRIGGER thief"))
        connection.execute(delete(leases))
    assert peewit("ingest", "g").exit_code == 0
    assert peewit("graph", "show", "g", "--json").json["edges_seen"] > 0


def test_ingest_waits_while_another_process_has_the_graph(
    peewit: Peewit, edges: Path, database: Database, home: Path
) -> None:
    graph_id = peewit("graph", "create", "g", "--json").json["id"]
    ingestor = Ingestor(database, Settings(home=home))
    with ingestor.open_graph(graph_id, should_stop=lambda: False) as graph:

        def read_when_told() -> None:
            while not graph.ingest_pending().n_committed:
                pass

        other = Thread(target=read_when_told)
        other.start()
        done = peewit("ingest", "g", edges)
        other.join()
    assert done.exit_code == 0
    assert "another process ingests this graph" in done.err


def test_solve_without_labels_says_what_is_missing(peewit: Peewit, edges: Path) -> None:
    peewit("graph", "create", "g")
    peewit("ingest", "g", edges)
    done = peewit("solve", "g")
    assert done.exit_code == 1
    assert "put labels" in done.err
    assert peewit("solve", "g", "--model", "none").exit_code == 2
    assert peewit("solve", "g", "--set", "graph_penalty=-1").exit_code == 2


def test_files_without_rows_are_told_of(peewit: Peewit, tmp_path: Path) -> None:
    edges, labels, empty = (tmp_path / name for name in ("e.csv", "l.csv", "empty.csv"))
    edges.write_text("src,dst\n")
    labels.write_text("node,label\n")
    empty.touch()
    assert peewit("graph", "create", "g").exit_code == 0
    assert f"{edges} has no rows" in peewit("ingest", "g", edges).err
    assert f"; {labels} has no labels" in peewit("labels", "put", "g", labels).err
    assert f"{empty}: it must be CSV with a header line" in peewit("labels", "put", "g", empty).err
    assert f"quarantined {empty}: it must be CSV" in peewit("ingest", "g", empty).err
