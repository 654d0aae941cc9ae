"""Features of a table as it comes: words, times, truth values and gaps, by every way in."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from tests.service.cli.conftest import Peewit

N_NODES = 120


def accounts() -> pa.Table:
    rng = np.random.default_rng(0)
    is_bad = np.arange(N_NODES) % 2 == 1
    countries = np.where(rng.random(N_NODES) < 0.9, np.where(is_bad, "XX", "DE"), "FR")
    amounts = [
        None if k % 7 == 0 else float(10 * b + r)
        for k, (b, r) in enumerate(zip(is_bad, rng.random(N_NODES), strict=True))
    ]
    return pa.table(
        {
            "account": [f"a{k}" for k in range(N_NODES)],
            "country": countries.tolist(),
            "amount": amounts,
            "is_new": (rng.random(N_NODES) < 0.5).tolist(),
        }
    )


@pytest.fixture
def graph(peewit: Peewit, tmp_path: Path) -> str:
    ring = [f"a{k},a{(k + 2) % N_NODES}" for k in range(N_NODES)]
    (tmp_path / "edges.csv").write_text("\n".join(["src,dst", *ring]) + "\n")
    peewit("graph", "create", "g", "--seed", 1)
    assert peewit("ingest", "g", tmp_path / "edges.csv").exit_code == 0
    return "g"


def written(table: pa.Table, path: Path) -> Path:
    match path.suffix:
        case ".parquet":
            pa.parquet.write_table(table, path)
        case ".csv":
            pa.csv.write_csv(table, path)
        case _:
            path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    return path


@pytest.mark.usefixtures("processes")
def test_columns_of_any_kind_are_features_and_points_are_encoded_alike(
    peewit: Peewit, graph: str, tmp_path: Path
) -> None:
    table = accounts()
    for suffix in (".ndjson", ".parquet", ".csv"):
        path = written(table, tmp_path / f"accounts{suffix}")
        put = peewit("features", graph, path, "--node", "account")
        assert put.exit_code == 0, put.err
        assert "3 columns became 6 features: 1 of words, 1 of numbers, 1 of truth values" in put.err
    labels = [f"a{k},{'bad' if k % 2 else 'good'}" for k in range(20)]
    (tmp_path / "labels.csv").write_text("\n".join(["who,label", *labels]) + "\n")
    peewit("labels", "put", graph, tmp_path / "labels.csv", "--node", "who")
    solved = peewit("solve", graph, "--model", "filtered-ridge", "--json")
    assert solved.exit_code == 0, solved.err
    points = table.select(["amount", "is_new", "country"]).slice(20, 30)
    answers = []
    for suffix in (".csv", ".parquet", ".ndjson"):
        told = peewit("predict", graph, written(points, tmp_path / f"points{suffix}"), "--json")
        assert told.exit_code == 0, told.err
        answers.append([json.loads(line)["label"] for line in told.out.splitlines()])
    assert answers[0] == answers[1] == answers[2]
    rows = [row | {"edges": [{"node": "a1"}]} for row in points.to_pylist()]
    joined = tmp_path / "joined.ndjson"
    joined.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = peewit("predict", graph, joined, "--json")
    assert told.exit_code == 0, told.err
    assert len(told.out.splitlines()) == 30
    right = [label == ("bad" if k % 2 else "good") for k, label in enumerate(answers[0], 20)]
    assert np.mean(right) > 0.8


@pytest.mark.usefixtures("processes")
def test_rows_are_added_by_the_columns_of_before(
    peewit: Peewit, graph: str, tmp_path: Path
) -> None:
    table = accounts()
    first = written(table.slice(0, 100), tmp_path / "first.csv")
    assert peewit("features", graph, first, "--node", "account").exit_code == 0
    more = written(
        table.slice(100).select(["is_new", "account", "amount", "country"]), tmp_path / "more.csv"
    )
    added = peewit("features", graph, more, "--node", "account", "--add")
    assert added.exit_code == 0, added.err
    shown = peewit("graph", "show", graph).out
    assert f"{N_NODES} rows of 6, 0 nodes without" in shown
    for changed, why in (
        (table.drop_columns(["country"]), "'country' is missing"),
        (table.append_column("age", pa.array(range(N_NODES))), "column 'age' must be left out"),
        (
            table.set_column(2, "amount", pa.array(["many"] * N_NODES)),
            "column 'amount' must hold numbers",
        ),
    ):
        refused = peewit(
            "features", graph, written(changed, tmp_path / "no.csv"), "--node", "account", "--add"
        )
        assert refused.exit_code != 0
        assert why in refused.err


@pytest.mark.usefixtures("processes")
def test_columns_that_give_the_label_away_are_named(
    peewit: Peewit, graph: str, tmp_path: Path
) -> None:
    labels = [f"a{k},{'bad' if k % 2 else 'good'}" for k in range(60)]
    (tmp_path / "labels.csv").write_text("\n".join(["node,label", *labels]) + "\n")
    assert peewit("labels", "put", graph, tmp_path / "labels.csv").exit_code == 0
    table = accounts()
    fine = peewit("features", graph, written(table, tmp_path / "a.csv"), "--node", "account")
    assert "gives the label" not in fine.err
    blocked = ["yes" if k % 2 else "no" for k in range(N_NODES)]
    refund = [f"2026-01-{1 + k % 28:02d}" if k % 2 else None for k in range(N_NODES)]
    leaking = table.append_column("blocked", pa.array(blocked)).append_column(
        "refund", pa.array(refund)
    )
    for suffix in (".csv", ".parquet"):
        path = written(leaking, tmp_path / f"leaking{suffix}")
        put = peewit("features", graph, path, "--node", "account")
        assert put.exit_code == 0, put.err
        told = "columns 'blocked', 'refund' give the label away"
        assert told in put.err
        assert "on all 60 labeled rows; name in `without` what is known only" in put.err
        without = peewit(
            "features", graph, path, "--node", "account", "--without", "blocked,refund"
        )
        assert without.exit_code == 0, without.err
        assert "give the label away" not in without.err
        assert "without 'blocked', 'refund'" in without.err
        added = peewit("features", graph, path, "--node", "account", "--add")
        assert added.exit_code == 0, added.err
    numbers = pa.table(
        {"node": table["account"], "x": np.arange(N_NODES) ** 0.5, "z": np.arange(N_NODES) % 2}
    )
    put = peewit("features", graph, written(numbers, tmp_path / "numbers.csv"))
    assert "column 'z' gives the label away" in put.err
    put = peewit("features", graph, tmp_path / "numbers.csv", "--without", "z")
    assert "gives the label away" not in put.err
    absent = peewit("features", graph, tmp_path / "numbers.csv", "--without", "zz")
    assert absent.exit_code == 1
    assert "without must name columns of the table, which has 'x', 'z', got 'zz'" in absent.err
    for made in ("numbers.csv", "leaking.csv"):  # labels that come later are looked at by solves
        peewit("features", graph, tmp_path / made, "--node", "node" if "num" in made else "account")
        told = peewit("solve", graph, "--model", "filtered-ridge")
        assert told.exit_code == 0, told.err
        assert "the label away, with one value in each class on all 60" in told.out + told.err


@pytest.mark.usefixtures("processes")
def test_texts_that_are_named_tell_by_their_words(
    peewit: Peewit, graph: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(2)
    words = [["cheap", "fast", "new"], ["old", "lamp", "fair"]]
    about = [
        " ".join(rng.choice(words[k % 2], 3)) + f" no {k}" if k % 11 else None
        for k in range(N_NODES)
    ]
    table = pa.table({"account": [f"a{k}" for k in range(N_NODES)], "about": about})
    path = written(table.append_column("x", pa.array(rng.random(N_NODES))), tmp_path / "t.csv")
    left_out = peewit("features", graph, path, "--node", "account")
    assert "'about'. Name those that are texts as such" in left_out.err
    put = peewit("features", graph, path, "--node", "account", "--text", "about")
    assert put.exit_code == 0, put.err
    assert "2 columns became 258 features: 1 of texts, 1 of numbers" in put.err
    labels = [f"a{k},{'odd' if k % 2 else 'even'}" for k in range(30)]
    (tmp_path / "labels.csv").write_text("\n".join(["node,label", *labels]) + "\n")
    peewit("labels", "put", graph, tmp_path / "labels.csv")
    assert peewit("solve", graph, "--model", "filtered-ridge").exit_code == 0
    told = peewit("why", graph, "a31", "--json").json
    features = told["reasons"]["features"]
    assert all(each["name"] == "x" or each["name"].startswith("about~") for each in features)
    assert len(features) > 1
    points = written(pa.table({"x": [0.5], "about": ["a fair old lamp"]}), tmp_path / "p.csv")
    told = peewit("predict", graph, points, "--json")
    assert json.loads(told.out)["label"] == "odd"
    refused = peewit("features", graph, path, "--node", "account", "--text", "about,")
    assert "text must name a column before and after each comma" in refused.err
    refused = peewit("features", graph, path, "--node", "account", "--text", "abut")
    assert refused.exit_code == 1
    assert "text must name columns of the table, which has 'about', 'x', got 'abut'" in refused.err
    added = peewit("features", graph, path, "--node", "account", "--text", "x", "--add")
    assert "were made with about as texts; replace the whole set" in added.err
    numbers = written(pa.table({"account": ["a1"], "x": [1.0]}), tmp_path / "n.csv")
    refused = peewit("features", graph, numbers, "--node", "account", "--text", "x")
    assert "text must be left out of a table of lists, or of numbers alone" in refused.err


@pytest.mark.parametrize("suffix", [".csv", ".ndjson", ".parquet"])
def test_codes_with_zeros_before_them_are_words(
    peewit: Peewit, graph: str, tmp_path: Path, suffix: str
) -> None:
    codes = ["01234", "10115", "00501"] * (N_NODES // 3)
    table = pa.table({"node": [f"a{k}" for k in range(N_NODES)], "zip": codes})
    told = peewit("features", graph, written(table, tmp_path / f"f{suffix}"))
    assert (
        "'zip' holds numbers with zeros before them, as '01234', and is read as words" in told.err
    )
    assert f"{N_NODES} rows of 3" in told.out


def test_odd_ids_of_features_are_told_and_a_header_between_rows_is_none(
    peewit: Peewit, graph: str, tmp_path: Path
) -> None:
    path = tmp_path / "f.csv"
    path.write_text("node,x\na1,1\na2\u00a0,2\n")
    assert "written with blanks, invisible characters" in peewit("features", graph, path).err
    path.write_text("node,x\na1,1\nnode,x\na2,2\n")
    told = peewit("features", graph, path)
    assert (told.exit_code, "name the columns again" in told.err) == (1, True)
