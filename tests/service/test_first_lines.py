"""What is said first of a solve, and of the edges of a graph, at every door."""

import re
from pathlib import Path
from typing import Any

import pytest

from peewit.service.wire.graphs import edges_text, epsilon_text
from peewit.service.wire.solve_lines import _TO_DO, how_sure, solve_lines, warning_text

HELP = Path(__file__).parents[1] / "goldens" / "recorded" / "help.txt"

JUDGED: dict[str, Any] = {
    "sample": "random",
    "biases": [],
    "n_random": 250,
    "is_measured": True,
    "only_random": True,
    "are_all_random": True,
    "accuracy": 0.86,
    "n_left_out": 250,
    "low": 0.8,
    "high": 0.91,
    "commonest": "honest",
    "commonest_share": 0.61,
}
THINNING: dict[str, Any] = {
    "share": 0.057,
    "column": "densities",
    "is_much": True,
    "is_least": False,
    "is_most": False,
    "is_unknown": False,
    "is_asked": False,
    "can_keep": True,
    "correction": None,
    "way_out": "model",
    "n_edges": 40_000_000,
    "n_kept": 20_000_000,
}


def lines(
    *,
    judged: Any = None,
    thinning: Any = None,
    stats: Any = None,
    n_nodes: int = 5_000,
    n_unreachable: int = 0,
    class_shares: Any = None,
    status: str = "converged",
    **where: Any,
) -> list[str]:
    result = {
        "judged": None if judged is None else JUDGED | judged,
        "thinning": None if thinning is None else THINNING | thinning,
        "stats": stats or {},
        "status": status,
        "class_shares": class_shares,
        "n_nodes": n_nodes,
        "n_unreachable": n_unreachable,
        "n_labels": 300,
    }
    return solve_lines(result, **where)


def test_of_a_random_sample_all_edges_and_many_labels_one_line_is_enough() -> None:
    (line,) = lines(judged={})
    assert line == (
        "right at 86% of 250 random labels left out to test it (likely 80% to 91% at all nodes); "
        "always saying 'honest' would be right at 61%"
    )


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (1.0, "none of these is of another class"),
        (0.996, "only 1 of these is of another class"),
        (0.97, "only 8 of these are of another class"),
    ],
)
def test_where_hardly_another_class_was_tested_it_is_said(share: float, said: str) -> None:
    (line,) = lines(judged={"commonest_share": share})
    assert said in line
    assert line.endswith("look up the truth at some nodes that are not predicted as 'honest'")


def test_without_a_random_sample_there_is_no_interval_and_a_way_to_one() -> None:
    first, second = lines(
        judged={"sample": "untested", "n_random": 0, "only_random": False, "low": None},
        graph="bank",
    )
    assert "likely" not in first
    assert second == (
        "this may not hold at other nodes, as nobody has said that the labels were drawn at "
        "random; to know, find out the true class of all 200 nodes of `peewit suggest bank "
        "--strategy random -k 200`. Load them with `peewit labels put bank FILE --origin "
        "random`"
    )


def test_what_contradicts_a_random_sample_is_named() -> None:
    biases = ["shares", "more edges", "close together"]
    given = {"sample": "biased", "biases": biases, "n_random": 180, "only_random": False}
    _, second = lines(judged=given, door="page")
    assert "among the others, they have more edges than others and they are more" in second
    assert second.endswith("open Label next, choose random, and say the true class of 50")


@pytest.mark.parametrize(
    ("door", "way_out", "said"),
    [
        (
            "command",
            "model",
            ["`peewit graph set bank --max-edges 40000000`", "--model stable-hfs"],
        ),
        ("command", "refine", ["--set refine=true"]),
        ("command", None, ["`peewit graph set bank --max-edges 40000000`"]),
        ("python", "refine", ["update_graph(name, max_edges=40000000)", "refine=True"]),
        ("page", "model", ["keep all", "predict with the model stable-hfs"]),
        ("page", None, ["who runs the server can keep all"]),
        ("mcp", "model", ["start_solve with model stable-hfs"]),
        ("mcp", "refine", ['start_solve with parameters {"refine": true}']),
    ],
)
def test_each_door_advises_what_can_be_done_there(door: Any, way_out: Any, said: list[str]) -> None:
    (line,) = lines(thinning={"way_out": way_out}, graph="bank", door=door)
    assert line.startswith(
        "about 5.7% of the predictions would be different had no edges been dropped"
    )
    assert all(each in line for each in said)
    assert ("`" in line) is (door == "command")


def test_what_is_not_known_of_dropped_edges_is_said_with_the_way_out() -> None:
    (unknown,) = lines(thinning={"is_least": True, "is_unknown": True, "share": 0.001})
    assert unknown.startswith(
        "so few edges are kept, 20,000,000 of 40,000,000 edges, that nobody knows how many "
        "predictions the others would change: keep all with `peewit graph set NAME"
    )
    (untold,) = lines(thinning={"share": None, "is_much": False, "way_out": None})
    assert untold.startswith("20,000,000 of 40,000,000 edges are kept, and how many predictions")
    assert "keep all with" in untold
    (erased,) = lines(thinning={"can_keep": False, "way_out": None})
    assert erased.endswith("create another graph with max_edges 40000000, and ingest there")


@pytest.mark.parametrize(
    ("correction", "status", "said", "way_out"),
    [
        ("unfinished", "converged", "3 times, which is not enough here: ", True),
        ("unfinished", "max_iter", "3 times, which is not enough here: ", False),
        ("part", "converged", "a part of auto follows the edges that are kept: ", False),
    ],
)
def test_a_correction_that_is_none_does_not_call_itself_one(
    correction: str, status: str, said: str, way_out: bool
) -> None:
    thinning = {"correction": correction, "way_out": "refine"}
    (line,) = lines(thinning=thinning, stats={"passes": 3, "n_changed": 5}, status=status)
    assert said in line
    assert "no harm" not in line
    assert "keep all with" in line
    assert ("--set refine=true" in line) == way_out


def test_advice_names_the_column_of_the_labels() -> None:
    judged = {"sample": "untested", "n_random": 0, "only_random": False, "are_all_random": False}
    where: dict[str, Any] = {"judged": judged, "graph": "g", "label_column": "a topic"}
    assert "suggest g --label-column 'a topic' --strategy random" in lines(**where)[1]
    assert "put g FILE --label-column 'a topic' --origin random`" in lines(**where)[1]
    assert "label_column='a topic'" in lines(**where, door="python")[1]


def test_a_warning_ends_in_what_is_to_be_done_at_its_door() -> None:
    result = {"warning": "all is one class", "advice": ["other model", "label more"]}
    assert warning_text(result, graph="g", label_column="a topic") == (
        "all is one class. `peewit solve g --label-column 'a topic' --model poisson` solves with "
        "another model. `peewit suggest g --label-column 'a topic'` names nodes to label"
    )
    assert warning_text(result, door="page") == (
        "all is one class. Predict has other models. Label next names nodes to label"
    )
    rare = {"warning": "all is one class", "advice": ["threshold"]}
    assert "--set cross_validate=5` and then" in str(warning_text(rare, graph="g"))
    at_hand = warning_text(rare | {"stats": {"belief": 1.0}}, graph="g")
    assert str(at_hand).startswith("all is one class. `peewit threshold g --positive CLASS")
    assert warning_text({"warning": None}) is None
    assert warning_text({"warning": "of an earlier version"}) == "of an earlier version"


def test_what_is_advised_can_be_typed_as_it_is_printed() -> None:
    helps = HELP.read_text(encoding="utf-8")
    for ways in _TO_DO.values():
        assert set(ways) == {"command", "page", "python", "mcp"}
        for typed in re.findall("`(.*?)`", ways["command"].format(graph="g", column="")):
            _, name, *words = typed.split()
            described = helps.split(f"$ peewit {name} --help\n")[1].split("\n$ peewit")[0]
            for option in (word for word in words if word.startswith("-")):
                assert re.search(rf"(^|\s){option}\b", described), typed


def test_nodes_without_a_prediction_are_told_first() -> None:
    (line,) = lines(judged={}, n_nodes=4_000, n_unreachable=1_852)
    assert line.endswith("46% of the nodes are reached by no label and have no prediction")


def test_where_no_node_is_predicted_otherwise_nobody_is_sent_to_such_ones() -> None:
    shares = [{"label": "honest", "labels": 0.97, "predicted": 1.0}]
    (line,) = lines(judged={"commonest_share": 0.97}, class_shares=shares)
    assert line.endswith("look up the truth at the nodes whose score of another class is highest")


def test_little_and_what_was_corrected_ask_for_nothing() -> None:
    (little,) = lines(thinning={"share": 0.004, "is_much": False})
    assert little.endswith("of the predictions would be different had no edges been dropped")
    (asked,) = lines(thinning={"is_asked": True}, graph="bank")
    assert "`peewit graph set bank --max-edges 40000000 --epsilon 0`" in asked
    (asked,) = lines(thinning={"is_asked": True}, door="python")
    assert "update_graph(name, max_edges=40000000, epsilon=None)" in asked
    (least,) = lines(thinning={"is_least": True})
    assert least.startswith("at least about 5.7% of the predictions would be different")
    (most,) = lines(thinning={"is_least": True, "is_most": True})
    assert most.startswith("up to about 5.7% of the predictions would be different")
    stats = {"refined": 1, "passes": 3, "n_changed": 13_031}
    (mended,) = lines(thinning={"correction": "settled"}, stats=stats)
    assert "all were read, 3 times, and 13,031 predictions changed; dropped edges" in mended


def test_labels_that_say_they_are_random_and_are_not_are_to_be_marked_otherwise() -> None:
    _, second = lines(judged={"sample": "biased", "biases": ["fewer edges"], "n_random": 60})
    assert "the 60 labels marked as random do not look drawn at random (they have fewer" in second
    assert "anew with `peewit labels put NAME FILE --origin given`; to know, find out" in second
    assert "all 200 nodes of" in second
    some = {"sample": "untested", "n_random": 20, "only_random": False, "are_all_random": False}
    _, few = lines(judged=some)
    assert "as only 20 of the labels are marked as drawn at random" in few
    assert "all 180 nodes of" in few
    untested = {"sample": "untested", "n_random": 0, "only_random": False}
    assert "all 74 nodes of" in lines(judged=untested, n_nodes=374)[1]
    assert len(lines(judged=untested, n_nodes=300)) == 1
    all_random = untested | {"n_random": 40, "are_all_random": True}
    assert "as 40 random labels are too few to hold back" in lines(judged=all_random)[1]


def test_random_labels_of_a_graph_thinned_too_far_are_not_to_be_drawn_again() -> None:
    first, second = lines(judged={"sample": "untested", "low": None}, thinning={})
    assert "likely" not in first
    assert "had no edges been dropped" in second


def test_what_cannot_be_told_is_said() -> None:
    nothing = {"accuracy": None, "n_left_out": 0, "sample": "untested"}
    (line,) = lines(judged=nothing)
    assert line.startswith("how often it is right is not known: no label could be left out")
    (line,) = lines(judged=nothing | {"is_measured": False})
    assert line.endswith("was not measured, as nobody asked for this solve; solve again to see")
    spread = nothing | {"sample": "biased", "biases": ["spread"], "only_random": False}
    assert "most nodes are nearer to a label than labels are" in lines(judged=spread)[1]
    assert solve_lines({"status": "converged"}) == []  # of other kinds, and of earlier versions


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"expected": 0.0}, "all 90 edges kept"),
        ({"expected": 0.0, "n_edges": 120}, "120 rows, 90 different pairs, all kept"),
        ({"expected": None, "max_edges": 200}, "none yet, at most 200 kept"),
        (
            {"expected": 0.18, "n_edges": 1_200, "max_edges": 100},
            "90 of 1,200 edges kept (at most 100, whatever comes; epsilon 0.18 expected)",
        ),
        (
            {"expected": 3e7, "n_edges": 1_200, "max_edges": 10, "n_nodes": 91},
            (
                "90 of 1,200 edges kept (at most 10, but for a spanning forest, which always "
                "stays; so few that no spectral error is promised)"
            ),
        ),
        (
            {"expected": 0.3, "n_edges": 1_200, "max_edges": 80, "n_nodes": 90},
            "90 of 1,200 edges kept (at most 80 from the next snapshot on; epsilon 0.30 expected)",
        ),
        ({"expected": 0.0, "n_edges": 300, "n_live": 90}, "all 90 edges kept"),
        (
            {"expected": 0.0, "n_edges": 300, "n_live": 120},
            "120 rows, 90 different pairs, all kept",
        ),
        (
            {"expected": 0.18, "n_edges": 1_200, "n_live": 200},
            "90 of 200 edges kept (epsilon 0.18 expected)",
        ),
        (
            {"expected": 0.4, "asked": 0.7, "n_edges": 1_200},
            "90 of 1,200 edges kept (epsilon 0.40 expected, 0.7 asked)",
        ),
    ],
)
def test_how_many_edges_are_kept(given: dict[str, Any], said: str) -> None:
    assert edges_text(**({"n_nodes": 30, "n_edges": 90, "n_kept": 90} | given)) == said


def test_a_budget_below_a_forest_promises_nothing() -> None:
    assert epsilon_text(None, 3e7) == "so few that no spectral error is promised"
    assert epsilon_text(None, None) == "no error is known yet"


PROOF: dict[str, Any] = {
    "share": 0.99449,
    "n_reached": 1_000_000,
    "n_proven": 994_490,
    "most_unproven": 0.01,
    "is_enough": True,
    "n_edges": 100_000_000,
    "passes": 9,
    "seconds": 60.0,
    "failure": 1.0 - 0.995 + 0.0025,
    "low": 0.6,
    "high": None,
    "as_chosen": {"graph_penalty": 1e-05, "class_mass": "contrasts"},
    "relations": {},
    "ended_by": "converged",
    "walks_on": None,
}


def proven(door: Any = "command", **changes: Any) -> str:
    result = {"judged": None, "thinning": THINNING, "proof": PROOF | changes, "stats": {}}
    (line,) = solve_lines(result, graph="bank", label_column="risk", door=door)
    return line


def test_a_proof_tells_its_share_rounded_down_and_its_chance_of_error_rounded_up() -> None:
    assert proven() == (
        "at least 99.4% of the labels are proven to be those of all 100,000,000 edges (9 passes "
        "over them; chance of error at most 0.75%), with graph_penalty 1e-05 and class_mass "
        "contrasts as chosen on the edges kept; `peewit predictions bank --label-column risk "
        "--unproven` lists the others"
    )
    assert "predictions(name, label_column='risk', unproven=True)" in proven("python")
    short = {"most_unproven": 0.001, "is_enough": False}
    assert "before so many were as was asked: raise it" in proven(**short, ended_by="max-iter")
    assert "more passes prove no more" in proven(**short, ended_by="stagnated")
    every = proven(n_proven=1_000_000, share=1.0, as_chosen={})
    assert every.startswith("all labels are proven")
    assert every.endswith("at most 0.75%)")
    assert proven(n_proven=0, share=0.0).startswith("no label is proven")
    assert "(none was dropped; chance of error at most 0.75%);" in proven(passes=0)
    assert "and relations a=1,b=0.5 as chosen" in proven(relations={"a": 1.0, "b": 0.5})
    assert "auto on a graph that keeps all edges may weigh its arms otherwise" in proven(
        as_chosen={}, walks_on="all edges"
    )
    stayed = proven(**short, ended_by="max-iter", walks_on="edges kept", n_proven=0, share=0.0)
    assert "max_passes ended before walks had gone along all edges: raise it" in stayed


def test_four_questions_have_an_answer_each() -> None:
    nothing = dict(how_sure({"judged": None, "stats": {}}, sets=None))
    assert list(nothing.values()) == [
        "nobody looked",
        "every edge was kept, so nothing would",
        "none was asked for: solve with prove=.01",
        "none were kept: solve with sets=auto",
    ]
    result = {"judged": JUDGED, "thinning": THINNING, "proof": None, "stats": {}}
    result |= {"n_nodes": 5_000, "n_unreachable": 0, "class_shares": None, "status": "converged"}
    true, estimate, _, sets = dict(how_sure(result, sets={"n_folds": 5})).values()
    assert true.startswith("right at 86% of 250 random labels")
    assert estimate.startswith("about 5.7% of the predictions would be different")
    assert estimate.endswith("an estimate, which proves nothing")
    assert sets.startswith("sets, by 5 folds of labels left out")
    read = dict(how_sure(result | {"proof": PROOF, "stats": {"refined": 1}}, sets=None))
    assert read["Would other edges change it?"] == "all edges were read for this answer"
    assert read["Is it proven for all edges?"].startswith("at least 99.4% of the labels")
