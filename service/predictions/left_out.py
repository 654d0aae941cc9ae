"""Scores of labels while they were left out, in a file beside the predictions of their job.

A job that cross-validates, or whose model leaves labels out, writes it before its predictions; both
are removed together (`peewit.service.predictions.store`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from peewit.service.predictions.prediction_files import PredictionFile, left_out_path, write_arrays
from peewit.solvers.arrays import BoolArray, Float32Array, Int64Array
from peewit.solvers.models.left_out.label_sample import DOUBT
from peewit.streaming.problems import Conflict


class NotCrossValidated(Conflict, LookupError):
    """The job kept no scores of left-out labels."""

    title = "No labels left out"
    argument: ClassVar[str] = "job"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeftOutScores:
    """Labels that were left out once, with the scores that the other labels give their nodes."""

    nodes: Int64Array  # (n_left_out,) dense ids
    classes: Int64Array  # (n_left_out,) places in ``PredictionMeta.class_names``
    scores: Float32Array  # (n_left_out, n_classes); -inf where no other label reaches
    is_dropped: BoolArray  # (n_left_out,) the final solve does without it


def write_left_out(
    path: Path,
    nodes: Int64Array,
    classes: Int64Array,
    scores: Float32Array,
    is_dropped: BoolArray | None = None,
) -> None:
    """Write the left-out labels whose scores are not nan beside a prediction file."""
    was_left_out = ~np.isnan(scores[:, 0])
    columns = {
        "nodes": nodes[was_left_out],
        "classes": classes[was_left_out],
        "scores": scores[was_left_out],
    }
    if is_dropped is not None:
        columns["is_dropped"] = is_dropped[was_left_out]
    write_arrays(left_out_path(path), columns)


def erase_left_out(path: Path, nodes: Int64Array) -> None:
    """Remove the left-out labels of some dense ids from the file beside a prediction file.

    Raises FileNotFoundError where there is no such file.
    """
    with np.load(left_out_path(path), allow_pickle=False) as parts:
        columns = dict(parts)
    stays = ~np.isin(columns["nodes"], nodes)
    if not stays.all():
        write_arrays(left_out_path(path), {name: values[stays] for name, values in columns.items()})


def sample_p_value(file: PredictionFile) -> float | None:
    """P-value of the labels being a random sample of the nodes; None where there is no doubt of it.

    Only `auto` computes it, over all labels; so it is None where only some labels are judged by.
    """
    if file.meta.judged_by is not None:
        return None
    p_value = float(file.meta.stats.get("sample_p_value", 1.0))
    return p_value if p_value < DOUBT else None


def read_left_out(file: PredictionFile) -> LeftOutScores:
    """Left-out labels of the job of a prediction file; raises `NotCrossValidated`."""
    meta = file.meta
    try:
        with np.load(left_out_path(file.path), allow_pickle=False) as parts:
            classes = parts["classes"]
            return LeftOutScores(
                nodes=parts["nodes"],
                classes=classes,
                scores=parts["scores"],
                is_dropped=parts.get("is_dropped", np.zeros(classes.size, bool)),
            )
    except FileNotFoundError:
        if not meta.parameters.get("cross_validate"):
            raise NotCrossValidated(
                f"job {meta.job_id} kept no scores of labels left out, by which this is measured; "
                "solve again with cross_validate=5"
            ) from None
        # the model is judged by other scores
        raise NotCrossValidated(
            f"job {meta.job_id} kept no scores of the labels that it left out; solve again, with "
            "scores=decision where the model has that parameter"
        ) from None
