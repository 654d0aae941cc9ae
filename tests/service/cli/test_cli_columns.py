"""Files with columns of other names and with bad rows, through the command line."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.service.cli.conftest import Peewit

ROWS = "source\ttarget\tamount\na\tb\t1.5\nb\tc\t2\nc\tc\t1\nx\t\t1\n"


def test_columns_that_are_named_once_are_kept(peewit: Peewit, tmp_path: Path) -> None:
    table = tmp_path / "accounts.tsv.gz"
    table.write_bytes(gzip.compress(ROWS.encode()))
    peewit("graph", "create", "g")
    plain = peewit("ingest", "g", table)
    assert plain.exit_code == 1
    assert "--src source --dst target" in plain.err
    named = ("--src", "source", "--dst", "target", "--weight", "amount")
    refused = peewit("ingest", "g", table, *named)  # the same file again, read otherwise
    assert refused.exit_code == 1
    assert "at least one character" in refused.err
    taken = peewit("ingest", "g", table, "--skip-bad-rows", "1", "--json")
    assert taken.exit_code == 0
    assert taken.json["bad_rows"] == 1
    assert taken.json["left_out"]["self_loops"] == 1
    assert taken.json["new_nodes"] == 3
    (report,) = (tmp_path / "home" / "graphs").glob("*/bad_rows/*.json")
    told = json.loads(report.read_text())
    assert told["path"] == str(table)
    assert [row["row"] for row in told["rows"]] == [3]
    other = tmp_path / "more.csv"
    other.write_text("target,source,amount\nd,a,3\n")
    more = peewit("ingest", "g", other)
    assert more.exit_code == 0
    assert "4 nodes" in more.out
    assert "src=source, dst=target, weight=amount" in peewit("graph", "show", "g").out


def test_columns_of_labels_that_are_named_once_are_kept(peewit: Peewit, tmp_path: Path) -> None:
    table = tmp_path / "labels.csv"
    table.write_text("id,kind,who,from,when\na,x,ann,random,2026-01-02\na,y,bob,,2026-01-01\n")
    peewit("graph", "create", "g")
    put = "labels", "put", "g", table, "--unknown", "keep", "--contradictions", "last"
    named = "--annotator-column", "who", "--origin-column", "from", "--time-column", "when"
    said = peewit(*put, "--node", "id", "--label", "kind", *named)
    assert "keeps the columns node=id, label=kind, origin=from, annotator=who, label" in said.err
    assert peewit(*put).exit_code == 0
    (label,) = peewit("labels", "list", "g", "--json").json
    assert [label[each] for each in ("label", "origin", "annotator")] == ["x", "random", "ann"]
    again = peewit(*put, "--label", "who", "--annotator-column", "")
    assert again.exit_code == 0
    assert "keeps" not in again.err  # what the graph calls otherwise
    peewit("graph", "set", "g", "--column", "annotator=")
    assert peewit(*put, "--label", "from", "--annotator-column", "kind").exit_code == 1
    assert "label=kind, origin=from, label_time=when" in peewit("graph", "show", "g").out
    assert peewit(*put, "--annotator-column", "from", "--origin-column", "").exit_code == 0
    assert "label=kind, origin=from, label_time=when" in peewit("graph", "show", "g").out


def test_options_of_files_need_a_file(peewit: Peewit) -> None:
    peewit("graph", "create", "g")
    assert "need a PATH" in peewit("ingest", "g", "--src", "source").err


def test_labels_keep_their_columns_and_come_out_as_they_went_in(
    peewit: Peewit, tmp_path: Path
) -> None:
    edges = tmp_path / "edges.csv"
    edges.write_text("src,dst\nn1,n2\nn2,n3\n")
    peewit("graph", "create", "g")
    peewit("ingest", "g", edges)
    labels = tmp_path / "labels.parquet"
    pq.write_table(pa.table({"account_id": ["n1", "n3"], "is_fraud": [True, False]}), labels)
    assert "say --node" in peewit("labels", "put", "g", labels).err
    named = ("--node", "account_id", "--label", "is_fraud")
    assert peewit("labels", "put", "g", labels, *named).exit_code == 0
    out = peewit("labels", "export", "g").out
    assert out.splitlines() == [
        '"account_id","is_fraud","origin","annotator","key"',
        '"n1","true","imported",,',
        '"n3","false","imported",,',
    ]
    packed = tmp_path / "again.csv.gz"
    packed.write_bytes(gzip.compress(out.encode()))
    assert peewit("labels", "put", "g", packed, "--json").json["accepted"] == 2
    column = ("--label-column", "is_fraud")
    assert peewit("labels", "put", "g", labels, "--node", "account_id", *column).exit_code == 0
    assert "labels, is_fraud" in peewit("graph", "show", "g").out
    peewit("labels", "remove", "g", "n1", *column)
    left = peewit("labels", "export", "g", *column).out
    assert left.splitlines() == [line for line in out.splitlines() if "n1" not in line]


def test_a_dry_run_tells_what_is_wrong_and_keeps_nothing(peewit: Peewit, tmp_path: Path) -> None:
    good, dirty = tmp_path / "good.csv", tmp_path / "dirty.tsv"
    good.write_text("src,dst,weight\na,b,2\n")
    dirty.write_text("src\tdst\na\tb\n\tc\nd\n")
    peewit("graph", "create", "g")
    done = peewit("ingest", "g", good, dirty, "--dry-run", "--json")
    assert done.exit_code == 1
    first, second = done.json["files"]
    assert first == {
        "path": str(good),
        "n_rows": 1,
        "first_rows": [["a", "b", 2.0, "insert"]],
        "n_changes": {},
        "relations": {},
        "bad_rows": [],
        "refusal": None,
        "digest": first["digest"],
        "n_late": None,
        "late_relations": {},
        "note": None,
    }
    assert [row["row"] for row in second["bad_rows"]] == [1, 2]
    assert "--skip-bad-rows 2" in second["refusal"]
    assert done.json["memory_bytes"] > 2**28
    assert peewit("source", "list", "g", "--json").json["sources"] == []
    told = peewit("ingest", "g", good, dirty, "--dry-run", "--skip-bad-rows", "2")
    assert told.exit_code == 0
    assert "at least one character" in told.out
    missing = peewit("ingest", "g", good, "--dry-run", "--src", "x")
    assert missing.exit_code == 1
    assert "column 'x' is missing" in missing.out


def test_features_have_a_column_of_nodes_and_may_be_packed(peewit: Peewit, tmp_path: Path) -> None:
    peewit("graph", "create", "g")
    packed = tmp_path / "features.tsv.gz"
    packed.write_bytes(gzip.compress(b"account_id\theight\twidth\na\t1\t2\nb\t3\t4\n"))
    assert "account_id" in peewit("features", "g", packed).err
    taken = peewit("features", "g", packed, "--node", "account_id", "--json")
    assert (taken.json["set"]["n_rows"], taken.json["set"]["n_columns"]) == (2, 2)
    table = tmp_path / "features.parquet"
    columns = {"account_id": ["a", "c"], "features": [[1.0, 2.0], [5.0, 6.0]]}
    pq.write_table(pa.table(columns), table)
    peewit("graph", "set", "g", "--column", "node=account_id")
    added = peewit("features", "g", table, "--add", "--json").json
    assert added["features"]["present"]["n_rows"] == 3


def test_a_refused_file_of_a_directory_is_read_by_itself_otherwise(
    peewit: Peewit, tmp_path: Path
) -> None:
    place = tmp_path / "day"
    place.mkdir()
    (place / "a.csv").write_text("src,dst\na,b\nb,c\n")
    (place / "b.ndjson").write_text('{"from_id": "c", "to_id": "d", "n": 2}\n')
    peewit("graph", "create", "g")
    assert peewit("ingest", "g", place).exit_code == 1
    again = peewit("ingest", "g", place / "b.ndjson", "--src", "from_id", "--dst", "to_id")
    assert again.exit_code == 0, again.err
    assert "4 nodes" in again.out
    assert peewit("ingest", "g", place).exit_code == 0  # nothing of it is refused any more


def test_bad_rows_alone_make_no_file_and_columns_are_kept_when_read(
    peewit: Peewit, tmp_path: Path
) -> None:
    table = tmp_path / "e.ndjson"
    table.write_text('{"from_id": "a", "to_id": "b"}\n{"from_id": "b", "to_id": "c"}\n')
    peewit("graph", "create", "g")
    looked = peewit("ingest", "g", table, "--dry-run")
    assert "no row is an edge" in looked.out
    assert "--skip-bad-rows" not in looked.out
    some = tmp_path / "some.csv"
    some.write_text("src,dst,weight\na,b,1\nb,c,-1\nc,d,0.5\nd,e,-2\n")
    refused = (peewit("ingest", "g", some, *option) for option in (("--dry-run",), ()))
    for said in (each.out + each.err for each in refused):
        assert "got -1.0 in row 1 (rows count from 0)" in said
        assert "2 rows are bad, --skip-bad-rows 2 leaves them out; one of them: " in said
    refused = peewit("ingest", "g", table, "--src", "from", "--dst", "to", "--skip-bad-rows", "9")
    assert refused.exit_code == 1
    assert "src=" not in peewit("graph", "show", "g").out
    taken = peewit("ingest", "g", table, "--src", "from_id", "--dst", "to_id")
    assert taken.exit_code == 0
    assert "src=from_id, dst=to_id" in peewit("graph", "show", "g").out


def test_a_weight_in_another_case_is_asked_for(peewit: Peewit, tmp_path: Path) -> None:
    table = tmp_path / "e.csv"
    table.write_text("src,dst,amount\na,b,900\n")
    peewit("graph", "create", "g", "--column", "weight=Amount")
    refused = peewit("ingest", "g", table)
    assert refused.exit_code == 1
    assert "say --weight amount where that is meant" in refused.err
    assert peewit("ingest", "g", table, "--weight", "amount").exit_code == 0


@pytest.mark.skipif(
    not Path("/proc/self/mem").exists(), reason="a file that opens and cannot be read"
)
def test_a_dry_run_goes_on_after_a_file_that_cannot_be_read(peewit: Peewit, tmp_path: Path) -> None:
    place = tmp_path / "day"
    place.mkdir()
    (place / "a.csv").symlink_to("/proc/self/mem")
    (place / "b.csv").write_text("src,dst\na,b\n")
    peewit("graph", "create", "g")
    looked = peewit("ingest", "g", place, "--dry-run", "--json")
    assert looked.exit_code == 1
    unreadable, sound = looked.json["files"]
    assert unreadable["refusal"].startswith("it cannot be read now")
    assert (sound["refusal"], sound["n_rows"]) == (None, 1)
