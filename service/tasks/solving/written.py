"""What a solve job leaves: its files of predictions, and its result for the job's record."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.predictions.feature_reasons import LEAST_BELIEF, CountsUsed, FeatureWeights
from peewit.service.predictions.kept_labels import write_labels
from peewit.service.predictions.left_out import write_left_out
from peewit.service.predictions.prediction_files import (
    MAX_SCORE_COLUMNS,
    FileScoreKind,
    PredictionMeta,
    densities_path,
    given_path,
    predictor_path,
    shares_path,
    write_array,
    write_predictions,
)
from peewit.service.predictions.predictors import barred, given_of, write_predictor
from peewit.service.tasks.labels_task import LabelsTask
from peewit.service.tasks.solving.state import Answered, Assessment, Solving
from peewit.service.tasks.solving.thinning import thinning_summary
from peewit.solvers.arrays import BoolArray, Float32Array
from peewit.solvers.assessment.plausibility import CLOSE_TOGETHER, ComparedShares, answer_warnings
from peewit.solvers.labels import Labels
from peewit.solvers.linear.linear_functions import LinearFunctions
from peewit.solvers.models.contract.feature_model import FEATURES
from peewit.solvers.models.contract.model import as_classes
from peewit.solvers.models.left_out.label_sample import NO_SAMPLE
from peewit.solvers.solution import Advice, Advised, Functions, Solution
from peewit.solvers.status import Status
from peewit.streaming.edges.node_ids import nodes_of_kinds
from peewit.streaming.features.store import FeatureStore
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.nodes.index import open_nodes


def write_result(solving: Solving) -> dict[str, Any]:
    """Result of the job, once the files are on the disk."""
    answer, task, assessment = solving.answer, solving.task, solving.assessment
    labels, solution, shown = answer.labels, answer.solution, solving.shown(answer.solution)
    shares, (names, is_asked) = None, _named_nodes(solving)
    if isinstance(labels, Labels):  # by component where edges were used: features reach all nodes
        by_edges = solution.stats.get("input", "graph") == "graph"
        component = answer.snapshot.graph.component if by_edges else None
        shares = ComparedShares.of(labels, shown, component)
    doubts = [*assessment.warnings, *_doubts(solving, shown, shares)]
    warning, notes, advice = _texts(solution, doubts, solving.judgement)
    functions = solution.functions  # of new points, where the model worked on given features
    if isinstance(functions, LinearFunctions) and solving.graph.counts is not None:
        functions = _of_table(functions, task)
    is_of_features = solution.stats.get("input") == FEATURES
    is_barred = barred(task.model, solution.stats, assessment.calibration is not None) is not None
    functions = functions.trimmed() if functions and is_of_features and not is_barred else None
    with solving.stages.stage("writing"):
        file_name = _write(solving, shown, names, functions)
    return {
        "file": file_name,
        "status": solution.status.value,
        "warning": warning,
        "advice": advice,
        "notes": notes,
        "n_nodes": int(np.count_nonzero(is_asked)),
        "n_unreachable": int(np.count_nonzero(is_asked & ~solution.reachable)),
        "n_labels": labels.n_labeled,
        "n_labels_waiting": solving.n_waiting,
        "n_classes": labels.n_classes if isinstance(labels, Labels) else None,
        "class_shares": None if shares is None else shares.listed(),
        "input": solution.stats.get("input", "graph"),
        "n_without_features": solution.stats.get("n_without_features", 0),
        "features_version": task.features_version if answer.model.uses_features else 0,
        "inductive": functions is not None,
        "warm": solving.is_warm,
        "started_from": solving.started_from,
        "seconds": solving.stages.seconds,
        "phase_seconds": solving.stages.iteration.seconds,
        "passes": dict(solving.stages.passes),
        "judged": solving.judgement,
        "thinning": thinning_summary(solving),
        "proof": solving.proof,
        "stats": {**solution.stats, **assessment.figures},
    }


def _of_table(functions: LinearFunctions, task: LabelsTask) -> LinearFunctions | None:
    """The functions of new points, of which a table tells the features, and nothing was counted."""
    if not task.features_version:
        return None
    store = FeatureStore(GraphPaths(root=task.graph_directory).features)
    return functions.of_first(store.meta(task.features_version).n_columns)


def _write_feature_weights(solving: Solving, file: Path) -> None:
    """Keep what features say of classes, where that is a part of the answer."""
    solution, counts = solving.answer.solution, solving.graph.counts
    functions = solution.of_features
    belief = float(solution.stats.get("belief_features", 1.0))
    if not isinstance(functions, LinearFunctions) or belief < LEAST_BELIEF:
        return
    used = None
    if counts is not None:
        used = CountsUsed(
            snapshot=counts.snapshot, directed=counts.directed, scaling=counts.scaling
        )
    teleport = float(solution.stats["teleport"])
    FeatureWeights.of(functions, teleport, used, solving.graph.used_relations).write(file)


def _named_nodes(solving: Solving) -> tuple[pa.ChunkedArray, BoolArray]:
    """External ids of all nodes, null for those that are not asked about, and which are.

    Nodes may have been erased since the graph was loaded; they have none.
    """
    meta, paths = solving.answer.snapshot.meta, GraphPaths(root=solving.task.graph_directory)
    names = open_nodes(
        paths.nodes, kind=meta.node_kind, n_nodes=meta.n_nodes, writable=False
    ).external_ids()
    if meta.node_kind != "typed":
        return names, np.ones(len(names), bool)
    is_asked = nodes_of_kinds(names, solving.task.answer_kinds)
    return pc.if_else(pa.array(is_asked), names, None), is_asked


def _write(
    solving: Solving, shown: Solution, names: pa.ChunkedArray, functions: Functions | None
) -> str:
    """Write the file of predictions; returns its name.

    Companion files are written first, so that whoever finds predictions finds them too.
    """
    task, answer, assessment = solving.task, solving.answer, solving.assessment
    made_of, solution, labels = answer.snapshot.meta, answer.solution, solving.first.labels
    meta = PredictionMeta(
        graph_id=task.graph_id,
        job_id=task.job_id,
        attempt=task.attempt,
        model=task.model,
        parameters=asdict(answer.model) | solving.options.chosen(),
        snapshot=task.snapshot,
        labels_seq=task.labels_seq,
        features_version=task.features_version,
        epsilon_asked=made_of.epsilon_asked,
        epsilon_expected=made_of.epsilon_expected,
        solver_status=solution.status.value,
        score=_score_kind(answer, assessment),
        class_names=labels.class_names if isinstance(labels, Labels) else (),
        stats=dict(solution.stats),
        sets=assessment.figures.get("sets"),
        calibration=None if assessment.calibration is None else assessment.calibration.stored,
        judged_by=answer.leave_out_plan.warning,
        answers=tuple(task.answer_kinds) if made_of.node_kind == "typed" else (),
        relation_weights=solving.graph.weights,
        decision=None if solution.decision is None else solution.decision.stored,
    )
    paths = GraphPaths(root=task.graph_directory)
    file = paths.predictions / meta.file_name
    if functions is not None:
        write_predictor(predictor_path(file), functions)
        given_labels = given_of(answer.model, answer.prepared, solution)
        if given_labels is not None:
            write_array(given_path(file), given_labels.astype(np.float32))
    _write_feature_weights(solving, file)
    if isinstance(labels, Labels):
        write_labels(file, as_classes(answer.labels))
    if solution.densities is not None and solution.densities.shape[1] <= MAX_SCORE_COLUMNS:
        write_array(densities_path(file), solution.densities)
    if assessment.label_shares is not None:
        write_array(shares_path(file), assessment.label_shares)
    left_out = _left_out_scores(answer, assessment)
    if left_out is not None and isinstance(labels, Labels):
        write_left_out(file, labels.nodes, labels.classes, left_out, assessment.is_dropped)
    path = write_predictions(
        paths.predictions,
        meta,
        nodes=names,
        scores=shown.scores,
        reachable=solution.reachable,
        variance=assessment.variance,
        p_values=assessment.p_values,
        stability=assessment.stability,
        proven=assessment.proven,
        labeled=labels.nodes,
    )
    return path.name


def _left_out_scores(answer: Answered, assessment: Assessment) -> Float32Array | None:
    """Scores of labels left out by a cross-validation, else by the model itself; None of neither.

    nan where a label was not left out, or is not judged by.
    """
    rows = answer.solution.left_out
    if assessment.left_out_scores is not None or rows is None:
        return assessment.left_out_scores
    scores = np.full((answer.labels.n_labeled, rows.scores.shape[1]), np.nan, np.float32)
    scores[rows.places] = np.where(rows.reachable[:, None], rows.scores, -np.inf)
    scores[~answer.leave_out_plan.may_leave_out] = np.nan
    return scores


def _score_kind(answer: Answered, assessment: Assessment) -> FileScoreKind:
    if not isinstance(answer.labels, Labels):
        return "value"
    return answer.model.score_kind if assessment.calibration is None else "probability"


def _doubts(solving: Solving, shown: Solution, shares: ComparedShares | None) -> Iterator[str]:
    """Warnings from labels, predicted shares and left-out accuracy."""
    answer, assessment, judgement = solving.answer, solving.assessment, solving.judgement
    labels, folds = answer.labels, assessment.figures.get("cross_validation")
    if shares is None or not isinstance(labels, Labels):
        return
    accuracy: tuple[float, int, BoolArray] | None = None
    by = answer.leave_out_plan.may_leave_out
    if shown.decision is not None or shown.class_shares is not None:
        accuracy = (
            None  # aimed at something else, or at other nodes: the model's own figure is told
        )
    elif folds is not None and assessment.is_dropped is None:
        accuracy = folds["accuracy"], folds["n_left_out"], by
    elif judgement is not None and judgement["n_left_out"]:
        accuracy = judgement["accuracy"], judgement["n_left_out"], by
    yield from answer_warnings(
        labels,
        answer.snapshot.graph,
        shown,
        shares,
        left_out=accuracy,
        are_random=judgement is not None and judgement["are_all_random"],
        is_thinned=solving.is_thinned,
    )


def _texts(
    solution: Solution, others: Sequence[str], judgement: Mapping[str, Any] | None
) -> tuple[str | None, str | None, list[Advice]]:
    """Warning, notes (details that the first lines say already), and advice.

    The first lines tell whom the labels speak for, also by leaving it out.
    """
    own, status = list(solution.warnings), solution.status
    if status is not Status.CONVERGED:
        advice = status.advice
        if status is Status.MAX_ITER and "refined" in solution.stats:
            advice = f"raise max_passes, of which {solution.stats['passes']} were made, or max_iter"
        own.append(f"{status.message}; {advice}")
    texts = [*own, *others]
    is_said = judgement is not None and (judgement["biases"] or judgement["sample"] == "random")
    notes = [each for each in texts if is_said and each.startswith((NO_SAMPLE, CLOSE_TOGETHER))]
    warnings = [each for each in texts if each not in notes]
    ways: list[Advice] = []
    for each in warnings:
        if isinstance(each, Advised):
            ways += [way for way in each.advice if way not in ways]
    return ". ".join(warnings) or None, ". ".join(notes) or None, ways
