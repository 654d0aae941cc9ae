"""Labels that the others contradict, ranked by what each was predicted when it was left out."""

from typing import Final

import numpy as np

from peewit.service.predictions.left_out import NotCrossValidated, read_left_out
from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.wire.predictions import DoubtfulLabel, DoubtfulLabelList
from peewit.solvers.arguments import BadArgument

MAX_DOUBTFUL: Final = 10_000


def doubtful_labels(file: PredictionFile, *, k: int) -> DoubtfulLabelList:
    """The labels that look least like what the others say, the least first.

    They are ranked by how far the given class was behind the best of the others, of probabilities
    by how improbable it was. Labels that no other reaches, and those of nodes that are not shown,
    are passed over.

    Raises
    ------
    ValueError
        Numbers are predicted.
    NotCrossValidated
        The job left no labels out.
    """
    if file.meta.score == "value":
        raise BadArgument("model", "must predict classes for labels to be doubted, not numbers")
    left_out = read_left_out(file)
    if left_out.nodes is None:
        raise NotCrossValidated(
            f"job {file.meta.job_id} is of a release that did not keep which labels it left out; "
            "solve again"
        )
    scores, classes = left_out.scores, left_out.classes
    reached = np.flatnonzero(np.isfinite(scores).all(axis=1))
    places = np.arange(reached.size)
    of_given = scores[reached, classes[reached]]
    others = scores[reached].copy()
    others[places, classes[reached]] = -np.inf
    behind = others.max(axis=1) - of_given
    is_probability = file.meta.score == "probability"
    order = np.argsort(of_given if is_probability else -behind, kind="stable")
    nodes = left_out.nodes[reached]
    is_shown = file.take(nodes)["node"].is_valid().to_numpy()
    order = order[is_shown[order]][:k]
    names = file.meta.class_names
    return DoubtfulLabelList(
        n_left_out=int(classes.size),
        n_contradicted=int(np.count_nonzero(behind > 0.0)),
        labels=tuple(
            DoubtfulLabel(
                node=row["node"],
                label=names[classes[reached[place]]],
                predicted=names[int(scores[reached[place]].argmax())],
                behind=float(behind[place]),
                probability=float(of_given[place]) if is_probability else None,
            )
            for place, row in zip(order.tolist(), file.lookup(nodes[order]), strict=True)
        ),
    )
