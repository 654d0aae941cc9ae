"""What is to be known first of the result of a solve, in sentences, the same at every door."""

import math
from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import Any, Final, Literal

_FEW_OTHERS = 10
"""Fewer labels left out of classes other than the commonest do not show how those are found."""

_MOSTLY = 0.75
"""Share of the commonest class from which on labels of others are counted."""

Door = Literal["command", "page", "python", "mcp"]
"""Where a text is read: it advises what can be done there."""


def solve_lines(
    result: Mapping[str, Any],
    *,
    graph: str = "NAME",
    label_column: str = "",
    door: Door = "command",
) -> list[str]:
    """What to know first of the result of a solve: at most four lines, the same at every door.

    They tell how often labels left out are right; what thinning decided, if edges were dropped, or
    which share of the labels is proven, if that was asked; how
    relations are weighed, if there are several; and whom the labels speak for, if that is not all
    nodes. ``graph`` and ``label_column`` stand in the advice.
    """
    judgement, thinning = result.get("judged"), result.get("thinning")
    lines = []
    if judgement is not None:
        lines.append(
            _accuracy_line(judgement, result, _to_do("label more", graph, label_column, door))
        )
    if (proof := result.get("proof")) is not None:
        lines.append(_proof_line(proof, graph, label_column, door))
    elif thinning is not None:
        lines.append(_thinning_line(thinning, result, graph, door))
    stats = result.get("stats", {})
    if said := [*_relations_said(stats.get("relations", ())), *_counts_said(stats)]:
        lines.append("; ".join(said))
    if judgement is not None and judgement["sample"] != "random" and _says_more(judgement):
        n_others = int(result["n_nodes"]) - int(result["n_labels"])
        if n_others:
            lines.append(_sample_line(judgement, n_others, graph, label_column, door))
    return lines


def how_sure(
    result: Mapping[str, Any],
    *,
    sets: Mapping[str, Any] | None,
    graph: str = "NAME",
    label_column: str = "",
    door: Door = "page",
) -> list[tuple[str, str]]:
    """Four questions on how sure an answer is, each with what is promised, if anything.

    ``sets`` are those of the predictions, None if none were kept; others as in `solve_lines`.
    """
    judgement, thinning, proof = (result.get(name) for name in ("judged", "thinning", "proof"))
    is_true = "nobody looked"
    if judgement is not None:
        to_label = _to_do("label more", graph, label_column, door)
        is_true = _accuracy_line(judgement, result, to_label)
    is_estimated = "every edge was kept, so nothing would"
    if "refined" in result.get("stats", {}):
        is_estimated = "all edges were read for this answer"
        if (proof or {}).get("walks_on") == "edges kept":
            is_estimated = "all edges were read, but walks went along those kept"
    elif thinning is not None:
        is_estimated = f"{_share_text(thinning)}; an estimate, which proves nothing"
    is_proven = "none was asked for: solve with prove=.01"
    if proof is not None:
        is_proven = _proof_line(proof, graph, label_column, door)
    are_sets = "none were kept: solve with sets=auto"
    if sets is not None:
        are_sets = (
            f"sets, by {sets['n_folds']} folds of labels left out, hold the true class as often as "
            "their coverage says, where labels are a random sample"
        )
    return [
        ("Is it true?", is_true),
        ("Would other edges change it?", is_estimated),
        ("Is it proven for all edges?", is_proven),
        ("Which classes may it be?", are_sets),
    ]


def _relations_said(relations: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """How much each relation counts, and who said so; nothing of a graph that has one."""
    if not relations:
        return
    named = [(each["name"] or "(no name)", each["weight"]) for each in relations]
    weights = ", ".join(f"{name} {weight:.3g}" for name, weight in named if weight)
    left_out = ", ".join(name for name, weight in named if not weight)
    is_asked = all(each["reading"] == "given" for each in relations)
    yield f"{'as asked' if is_asked else 'by the labels'} relations count {weights}"
    if left_out:
        yield f"left out: {left_out}"


def _counts_said(stats: Mapping[str, Any]) -> Iterator[str]:
    """How many features count what nodes do, also in relations that are left out."""
    if n_counts := stats.get("n_counts"):
        yield f"{n_counts} features count what nodes send and receive in all of them"


_TO_DO: Final[Mapping[str, Mapping[Door, str]]] = {
    "threshold": {
        "command": "`peewit solve {graph}{column} --set cross_validate=5` and then `peewit "
        "threshold {graph}{column} --positive CLASS --min-recall .8` choose a threshold",
        "page": "predict with cross_validate=5 in the settings, and open Suspects",
        "python": "solve(name, cross_validate=5) and threshold(name, positive=CLASS, "
        "min_recall=0.8) choose a threshold",
        "mcp": "who runs the server can choose a threshold",
    },
    "threshold at hand": {
        "command": "`peewit threshold {graph}{column} --positive CLASS --min-recall .8` chooses a "
        "threshold",
        "page": "Suspects chooses a threshold",
        "python": "threshold(name, positive=CLASS, min_recall=0.8) chooses a threshold",
        "mcp": "who runs the server can choose a threshold",
    },
    "label more": {
        "command": "`peewit suggest {graph}{column}` names nodes to label",
        "page": "Label next names nodes to label",
        "python": "suggestions(name{column}) names nodes to label",
        "mcp": "suggest_nodes names nodes to label",
    },
    "label random": {
        "command": "`peewit suggest {graph}{column} --strategy random -k 200` draws nodes to label",
        "page": "Label next by random draws nodes to label",
        "python": "suggestions(name, strategy='random', k=200{column}) draws nodes to label",
        "mcp": "suggest_nodes with strategy random draws nodes to label",
    },
    "label apart": {
        "command": "`peewit suggest {graph}{column} --strategy coverage` names nodes elsewhere",
        "page": "Label next by coverage names nodes elsewhere",
        "python": "suggestions(name, strategy='coverage'{column}) names nodes elsewhere",
        "mcp": "suggest_nodes with strategy coverage names nodes elsewhere",
    },
    "class shares": {
        "command": "`peewit solve {graph}{column} --set class_shares=CLASS=.02` takes that of a "
        "class, and leaves the rest to the others",
        "page": "Predict takes class_shares, as CLASS=.02, in the settings",
        "python": "solve(name, class_shares={{CLASS: 0.02}}{column}) takes that of a class, and "
        "leaves the rest to the others",
        "mcp": 'start_solve with parameters {{"class_shares": {{CLASS: 0.02}}}} takes that of a '
        "class, and leaves the rest to the others",
    },
    "other model": {
        "command": "`peewit solve {graph}{column} --model poisson` solves with another model",
        "page": "Predict has other models",
        "python": "solve(name, model='poisson'{column}) solves with another model",
        "mcp": "start_solve with model poisson solves with another",
    },
}
"""How to follow each advice."""

_LEFT_OUT: Final = frozenset({"cross_validation", "belief"})
"""Figures of jobs that keep scores of labels left out: of all models, of `auto`."""


def warning_text(
    result: Mapping[str, Any],
    *,
    graph: str = "NAME",
    label_column: str = "",
    door: Door = "command",
) -> str | None:
    """The warning of a solve with how to follow its advice; arguments as of `solve_lines`."""
    if not result.get("warning"):
        return None
    has_left_out = not _LEFT_OUT.isdisjoint(result.get("stats") or ())
    advice = (
        "threshold at hand" if each == "threshold" and has_left_out else each
        for each in result.get("advice", ())
    )
    ways = (_to_do(each, graph, label_column, door) for each in advice)
    return ". ".join([result["warning"], *ways])


def _to_do(advice: str, graph: str, label_column: str, door: Door) -> str:
    return _TO_DO[advice][door].format(graph=graph, column=_of_column(label_column, door))


def _of_column(label_column: str, door: Door) -> str:
    if not label_column:
        return ""
    by_door = {
        "command": f" --label-column {quote(label_column)}",
        "python": f", label_column={label_column!r}",
        "mcp": f" and label_column {label_column}",
    }
    return by_door.get(door, "")


def _says_more(judgement: Mapping[str, Any]) -> bool:
    """Whether there is a figure to be qualified, or labels that are no random sample."""
    if judgement["sample"] == "untested" and judgement["only_random"]:
        return False  # the line on thinning says why nothing is promised, and what to do
    return judgement["accuracy"] is not None or judgement["sample"] == "biased"


def _accuracy_line(judgement: Mapping[str, Any], result: Mapping[str, Any], to_label: str) -> str:
    if judgement["accuracy"] is None:
        if not judgement["is_measured"]:
            return (
                "how often it is right was not measured, as nobody asked for this solve; solve "
                "again to see"
            )
        return (
            "how often it is right is not known: no label could be left out to see; label two "
            f"nodes or more of each class: {to_label}"
        )
    drawn = "random labels" if judgement["sample"] == "random" else "labels"
    line = (
        f"right at {judgement['accuracy']:.0%} of {judgement['n_left_out']:,} {drawn} "
        "left out to test it"
    )
    if judgement["low"] is not None:
        line += f" (likely {judgement['low']:.0%} to {judgement['high']:.0%} at all nodes)"
    share, commonest = judgement["commonest_share"], judgement["commonest"]
    line += f"; always saying {commonest!r} would be right at {share:.0%}"
    if judgement.get("macro_f1") is not None:
        line += f"; the mean F-measure of the classes is {judgement['macro_f1']:.2f}"
    unreached = result["n_unreachable"] / max(1, result["n_nodes"])
    if unreached >= _MANY_UNREACHED:
        line += f"; {unreached:.0%} of the nodes are reached by no label and have no prediction"
    n_others = round((1.0 - share) * judgement["n_left_out"])
    if n_others >= _FEW_OTHERS or share < _MOSTLY:
        return line
    of_it = [each for each in result["class_shares"] or () if each["label"] == commonest]
    where = f"at some nodes that are not predicted as {commonest!r}"
    if of_it and of_it[0]["predicted"] == 1.0:  # there are none
        where = "at the nodes whose score of another class is highest"
    few = "none of these is" if not n_others else f"only {n_others} of these {_are(n_others)}"
    return (
        f"{line}, as {few} of another class: that says little of how well other classes are found; "
        f"look up the truth {where}"
    )


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


_MANY_UNREACHED = 0.05
"""Share of nodes without a prediction from which on the first lines say so."""

_KEEP_MORE = {
    "command": "keep all with `peewit graph set {graph} --max-edges {n_edges}{command}` and then "
    "`peewit ingest {graph}`",
    "python": "keep all with update_graph(name, max_edges={n_edges}{python})",
    "page": "who runs the server can keep all",
    "mcp": "who runs the server can keep all",
}
_NO_EPSILON = {"command": " --epsilon 0", "python": ", epsilon=None"}
"""For a graph with an epsilon, which otherwise keeps no more edges than that asks."""

_ANEW = (
    "nodes were erased, so these edges cannot be read again: create another graph with max_edges "
    "{n_edges}, and ingest there"
)

_READ_ALL = {
    ("refine", "command"): "solve with --set refine=true, which reads all edges",
    ("refine", "python"): "solve with refine=True, which reads all edges",
    ("model", "command"): "solve with --model stable-hfs, which reads all edges",
    ("model", "python"): "solve with the model 'stable-hfs', which reads all edges",
    ("model", "page"): "predict with the model stable-hfs, which reads all edges",
    ("refine", "mcp"): 'start_solve with parameters {{"refine": true}}, which reads all edges',
    ("model", "mcp"): "start_solve with model stable-hfs, which reads all edges",
}


def _thinning_line(
    thinning: Mapping[str, Any], result: Mapping[str, Any], graph: str, door: Door
) -> str:
    stats, correction = result["stats"], thinning["correction"]
    line = _share_text(thinning)
    if correction is not None:
        line += f"; all were read, {stats['passes']} times"
    if correction == "settled":
        changed = stats.get("n_changed")
        line += "" if changed is None else f", and {changed:,} predictions changed"
        return f"{line}; dropped edges do no harm now"
    if correction == "unfinished":
        line += ", which is not enough here"
    elif correction == "part":
        line += ", but a part of auto follows the edges that are kept"
    elif thinning["share"] is not None and not thinning["is_much"]:
        return line
    way_out = None if correction == "part" else thinning["way_out"]
    if correction == "unfinished" and result["status"] != "converged":  # which says what to raise
        way_out = None
    ways = [_KEEP_MORE[door], _READ_ALL.get((str(way_out), door), "")]
    if not thinning["can_keep"]:
        ways = [_ANEW]
    named = {"graph": graph, "n_edges": thinning["n_edges"]} | dict.fromkeys(_NO_EPSILON, "")
    if thinning["is_asked"]:
        named |= _NO_EPSILON
    return f"{line}: {'; or '.join(way.format(**named) for way in ways if way)}"


_UNPROVEN = {
    "command": "`peewit predictions {graph}{column} --unproven` lists the others",
    "python": "predictions(name{column}, unproven=True) has the others",
    "page": "Predictions lists the others",
    "mcp": "predictions of each node tell whether theirs is",
}


def _proof_line(proof: Mapping[str, Any], graph: str, label_column: str, door: Door) -> str:
    """How many labels are proven, of what, and with what chance of error."""
    some = f"at least {math.floor(1000 * proof['share']) / 1000:.1%} of the labels are"
    if proof["n_proven"] in {0, proof["n_reached"]}:
        some = "all labels are" if proof["n_proven"] else "no label is"
    passes = f"{proof['passes']} passes over them" if proof["passes"] else "none was dropped"
    failure = math.ceil(10_000 * proof["failure"] - 1e-6) / 10_000
    line = (
        f"{some} proven to be those of all {proof['n_edges']:,} edges ({passes}; chance of error "
        f"at most {failure:.2%})"
    )
    if proof["passes"] and (chosen := list(_as_chosen(proof))):
        line += f", with {' and '.join(chosen)} as chosen on the edges kept"
    if proof["n_proven"] and proof["walks_on"] is not None:
        line += (
            ", with the weights of arms and the walks that these passes came to: auto on a graph "
            "that keeps all edges may weigh its arms otherwise"
        )
    if not proof["is_enough"]:
        line += f"; {_WHY_ENDED[proof['ended_by'], proof['walks_on']]}"
    if 0 < proof["n_proven"] < proof["n_reached"]:
        column = _of_column(label_column, door)
        line += f"; {_UNPROVEN[door].format(graph=graph, column=column)}"
    return line


_SPENT = "max_passes ended it before so many were as was asked: raise it"
_WHY_ENDED = {
    (ended_by, walks_on): text
    for walks_on in (None, "all edges")
    for ended_by, text in (
        ("max-iter", _SPENT),
        ("stagnated", "more passes prove no more: the others are too close to another class"),
    )
} | {
    (
        "max-iter",
        "edges kept",
    ): "max_passes ended before walks had gone along all edges: raise it, to 60"
}


def _as_chosen(proof: Mapping[str, Any]) -> Iterator[str]:
    """What was chosen before all edges were read."""
    for name, value in proof["as_chosen"].items():
        yield f"{name} {f'{value:.3g}' if isinstance(value, float) else value}"
    if weights := proof["relations"]:
        yield "relations " + ",".join(f"{name}={weight:.3g}" for name, weight in weights.items())


def _share_text(thinning: Mapping[str, Any]) -> str:
    """How many predictions dropped edges decided."""
    some = f"{thinning['n_kept']:,} of {thinning['n_edges']:,} edges"
    if thinning["share"] is None:
        return f"{some} are kept, and how many predictions the others would change is not known"
    if thinning["is_unknown"]:
        return (
            f"so few edges are kept, {some}, that nobody knows how many predictions the others "
            "would change"
        )
    limit = "at least " if thinning["is_least"] else ""
    limit = "up to " if thinning["is_most"] else limit
    share = f"{limit}about {thinning['share']:.1%}"
    return f"{share} of the predictions would be different had no edges been dropped"


_BIASES = {
    "shares": "some classes seem more common among them than among the others",
    "spread": "they are spread out, so that most nodes are nearer to a label than labels are to "
    "each other",
    "more edges": "they have more edges than others",
    "fewer edges": "they have fewer edges than others",
    "close together": "they are more closely linked to each other than others are",
}


_ENOUGH_RANDOM = 200
_LEAST_MORE = 50
_LABEL_RANDOM = {
    "command": (
        "find out the true class of all {more} nodes of `peewit suggest "
        "{graph}{column} --strategy random -k {more}`. Load them with `peewit "
        "labels put {graph} FILE{column} --origin random`"
    ),
    "page": "open Label next, choose random, and say the true class of {more}",
    "python": "find out the true class of all {more} nodes of suggestions(name, strategy='random', "
    "k={more}{column}), and put these with origin='random'{column_too}",
    "mcp": "call suggest_nodes with strategy random and k {more}{column}, have a person find out "
    "the true class of all of them, and put_label for each",
}
_MARK_ANEW = {
    "command": "load labels that somebody chose anew with `peewit labels put {graph} FILE{column} "
    "--origin given`",
    "page": "put labels that somebody chose again, as given",
    "python": "put labels that somebody chose again, with origin='given'",
    "mcp": "have labels that somebody chose put again, as given",
}


def _sample_line(
    judgement: Mapping[str, Any], n_others: int, graph: str, label_column: str, door: Door
) -> str:
    """Whom the labels speak for, and how to know about all nodes."""
    n_random = judgement["n_random"]
    is_wrong = judgement["sample"] == "biased" and judgement["only_random"]
    more = _ENOUGH_RANDOM if is_wrong else max(_ENOUGH_RANDOM - n_random, _LEAST_MORE)
    more = min(more, n_others)
    named = {"more": more, "graph": graph, "column": _of_column(label_column, door)}
    named["column_too"] = f" and label_column={label_column!r}" if label_column else ""
    advice = f"to know, {_LABEL_RANDOM[door].format(**named)}"
    if judgement["sample"] == "biased":
        *others, last = (_BIASES[each] for each in judgement["biases"])
        what = f"{', '.join(others)} and {last}" if others else last
        why = f"the labels are no random sample ({what})"
        if is_wrong:
            why = f"the {n_random:,} labels marked as random do not look drawn at random ({what})"
            advice = f"{_MARK_ANEW[door].format(**named)}; {advice}"
    elif judgement["are_all_random"] and n_random:
        why = f"{n_random:,} random labels are too few to hold back enough of them"
    elif n_random:
        why = f"only {n_random:,} of the labels are marked as drawn at random"
    else:
        why = "nobody has said that the labels were drawn at random"
    return f"this may not hold at other nodes, as {why}; {advice}"
