"""What people are told of an answer that they asked to be judged."""

import json
from pathlib import Path

import pytest

from tests.service.cli.conftest import Peewit


@pytest.fixture
def graph(peewit: Peewit, tmp_path: Path) -> Path:
    """Two cliques n0..n14 and n15..n29, joined by one edge; the label of n3 is wrong."""
    edges, labels = tmp_path / "edges.csv", tmp_path / "labels.csv"
    pairs = [(a, b) for side in (0, 15) for a in range(side, side + 15) for b in range(side, a)]
    edges.write_text("src,dst\n" + "".join(f"n{a},n{b}\n" for a, b in [*pairs, (0, 15)]))
    sides = {n: "left" if n < 15 else "right" for n in (*range(1, 11), *range(16, 26))}
    rows = sides | {3: "right"}
    labels.write_text("node,label\n" + "".join(f"n{n},{side}\n" for n, side in rows.items()))
    peewit("graph", "create", "g", "--expected-nodes", 40)
    peewit("ingest", "g", edges)
    peewit("labels", "put", "g", labels)
    return labels


@pytest.mark.usefixtures("processes", "graph")
def test_sets_abstention_and_doubts_are_told(peewit: Peewit) -> None:
    sets = ("--model", "hfs", "--set", "sets=auto")
    assert peewit("solve", "g", *sets).exit_code == 0
    assert "changed since" not in peewit("sets", "g", "--coverage", 0.8).err
    doubted = peewit("labels", "doubtful", "g", "-k", 1)
    assert doubted.out.splitlines()[1].split()[:3] == ["n3", "right", "left"]
    assert doubted.out.splitlines()[1].split()[-1] == "no"
    assert "the other labels contradict 1 of 20 labels that were left out" in doubted.err
    assert "of the nodes" in peewit("abstain", "g", "--max-error", 0.5).out
    own = peewit("why", "g", "n3", "--json").json["reasons"]
    assert (own["node"], own["label"], own["labels"][0]["way"]) == ("n3", "right", ["n3"])
    robust = peewit("solve", "g", *sets, "--set", "without_doubtful=3", "--details")
    told = " ".join((robust.out + robust.err).split())
    assert "solved 30 nodes from 19 labels" in told
    assert "dropped 1 label" in told
    doubted = peewit("labels", "doubtful", "g", "-k", 2)
    assert [line.split()[-1] for line in doubted.out.splitlines()[1:3]] == ["yes", "no"]
    peewit("labels", "remove", "g", "n3")
    assert "labels have changed since" in peewit("sets", "g").err


@pytest.mark.usefixtures("processes")
def test_a_threshold_decides_and_what_was_not_judged_is_told(peewit: Peewit, graph: Path) -> None:
    graph.write_text("node,label\nn29,odd\n")
    peewit("labels", "put", "g", graph)
    options = ("--details", "--set", "variance=true", "--set", "cross_validate=3")
    done = peewit("solve", "g", "--model", "stable-hfs", "--set", "graph_penalty=1", *options)
    told = " ".join((done.out + done.err).split())
    assert (
        "no label was left out to test these classes, as they have one label or "
        "suggested ones only: odd" in told
    )
    assert "variances have a standard deviation of 12.5% or less" in told
    decided = ("predictions", "g", "--positive", "left", "--threshold")
    lines = [json.loads(line) for line in peewit(*decided, -9, "--json").out.splitlines()]
    assert {line["label"] for line in lines} == {"left"}
    assert peewit(*decided[:-1]).exit_code == 2  # a class alone decides nothing
    wrong = peewit(*decided, 0.5, "--sort", "margin")
    assert (wrong.exit_code, "--sort" in wrong.err) == (2, True)
