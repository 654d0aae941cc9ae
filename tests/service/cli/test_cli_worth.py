"""What people are told of an answer that they asked to be judged."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.service.cli.conftest import Peewit


@pytest.mark.usefixtures("processes")
def test_what_was_asked_of_the_answer_is_told(peewit: Peewit, tmp_path: Path) -> None:
    edges = tmp_path / "edges.parquet"
    pairs = [(a, b) for first in (0, 8) for a in range(first, first + 8) for b in range(first, a)]
    src, dst = zip(*pairs, (0, 8), strict=True)
    pq.write_table(pa.table({"src": src, "dst": dst}), edges)
    labels = tmp_path / "labels.csv"
    labels.write_text("node,label\n1,x\n2,x\n3,x\n9,y\n10,y\n11,y\n12,odd\n")
    peewit("graph", "create", "g", "--node-ids", "int64", "--expected-nodes", 20)
    peewit("ingest", "g", edges)
    peewit("labels", "put", "g", labels)
    options = ("--details", "--set", "variance=true", "--set", "cross_validate=3")
    done = peewit("solve", "g", "--model", "stable-hfs", "--set", "graph_penalty=1", *options)
    told = " ".join((done.out + done.err).split())
    assert done.exit_code == 0
    assert "cross-validated accuracy 1 over 6 labels in 3 folds" in told
    assert "of these classes no label was left out, as of one alone or suggested: odd" in told
    assert "variances have a standard deviation of 12.5% or less" in told
    assert "variance" in peewit("predictions", "g").out.splitlines()[0]
    truth = tmp_path / "truth.csv"
    truth.write_text("node,label\n" + "".join(f"{n},{'x' if n < 8 else 'y'}\n" for n in range(16)))
    assert "predicted, and of the labels: " in told
    judged = peewit("evaluate", "g", truth, "--positive", "x", "--cost-fn", 3)
    assert judged.exit_code == 0
    printed = [line.split() for line in judged.out.splitlines()]
    assert ["accuracy", "1.0000"] in printed
    assert ["always", "the", "commonest", "class", "0.5556"] in printed  # 5 of 9 judged are x
    (of_x,) = (words for words in printed if words[:1] == ["x"])
    assert of_x[1:] == ["5", "5", *["1.0000"] * 5, "0.5556", "0.5556", "0.4286"]
    assert ["decided", "by", "found", "precision", "recall", "F1", "cost"] in printed
    chosen = peewit("threshold", "g", "--positive", "x", "--cost-fn", 3, "--json").json["chosen"]
    assert (chosen["n_nodes"], chosen["n_positive"]) == (6, 3)
    said = peewit("threshold", "g", "--positive", "x", "--cost-fn", 3)
    command = f"`peewit predictions g --positive x --threshold {chosen['threshold']:.9g}`"
    assert command in said.err
    decided = ("predictions", "g", "--positive", "x", "--threshold")
    lines = [json.loads(line) for line in peewit(*decided, -9, "--json").out.splitlines()]
    assert {line["label"] for line in lines} == {"x"}
    assert peewit(*decided[:-1]).exit_code == 2  # a class alone decides nothing
    wrong = peewit(*decided, 0.5, "--sort", "margin")
    assert (wrong.exit_code, "--sort" in wrong.err) == (2, True)
    assert peewit("threshold", "g", "--positive", "z", "--cost-fn", 3).exit_code == 1


@pytest.mark.usefixtures("processes")
def test_sets_abstention_and_doubts_are_told(peewit: Peewit, tmp_path: Path) -> None:
    edges, labels = tmp_path / "edges.csv", tmp_path / "labels.csv"
    pairs = [(a, b) for side in (0, 15) for a in range(side, side + 15) for b in range(side, a)]
    edges.write_text("src,dst\n" + "".join(f"n{a},n{b}\n" for a, b in [*pairs, (0, 15)]))
    sides = {n: "left" if n < 15 else "right" for n in (*range(1, 11), *range(16, 26))}
    rows = sides | {3: "right"}
    labels.write_text("node,label\n" + "".join(f"n{n},{side}\n" for n, side in rows.items()))
    peewit("graph", "create", "g", "--expected-nodes", 40)
    peewit("ingest", "g", edges)
    peewit("labels", "put", "g", labels)
    sets = ("--model", "hfs", "--set", "sets=auto")
    done = peewit("solve", "g", *sets)
    told = " ".join((done.out + done.err).split())
    assert "`peewit sets` says what sets of labels promise, by 5 folds" in told
    said = peewit("sets", "g", "--coverage", 0.8)
    assert "nodes of left, right" in said.out
    assert "80%" in said.out
    assert "in the mean, and one alone at" in said.out
    assert "changed since" not in said.err
    kept = peewit("predictions", "g", "--coverage", 0.8, "--top", 1).out.splitlines()
    assert kept[0].endswith('"p_value:left","p_value:right","labels","certain"')
    doubted = peewit("labels", "doubtful", "g", "-k", 1)
    assert doubted.out.splitlines()[1].split()[:3] == ["n3", "right", "left"]
    assert "of 20 labels left out the others contradict 1" in doubted.err
    abstained = peewit("abstain", "g", "--max-error", 0.5)
    assert "of the nodes" in abstained.out
    few = peewit("abstain", "g", "--max-error", 0.01, "--json").json["abstention"]
    assert (few["chosen"], few["n_left_out"]) == (None, 20)
    explained = peewit("why", "g", "n12", "-k", 2)
    assert explained.out.startswith("n12: left (")
    assert "for left" in explained.out
    assert "of what speaks for left" in explained.out
    assert "hfs weighs labels in its own way" in explained.err
    own = peewit("why", "g", "n3", "--json").json["reasons"]
    assert (own["node"], own["label"], own["labels"][0]["way"]) == ("n3", "right", ["n3"])
    assert peewit("why", "g", "n99").exit_code == 1
    assert doubted.out.splitlines()[1].split()[-1] == "no"
    robust = peewit("solve", "g", *sets, "--set", "without_doubtful=3", "--details")
    told = " ".join((robust.out + robust.err).split())
    assert "solved 30 nodes from 19 labels" in told
    assert "dropped 1 label" in told
    doubted = peewit("labels", "doubtful", "g", "-k", 2)
    assert [line.split()[-1] for line in doubted.out.splitlines()[1:3]] == ["yes", "no"]
    peewit("labels", "remove", "g", "n3")
    assert "labels have changed since" in peewit("sets", "g").err
    assert peewit("sets", "g", "--coverage", 1.5).exit_code == 1
