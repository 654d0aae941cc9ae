"""How many nodes of other classes may score as much as those that are found (J4b)."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from peewit.service.predictions.filtered_rows import RowFilter
from peewit.service.predictions.left_out import read_left_out
from peewit.service.predictions.prediction_files import PredictionFile
from peewit.solvers.arrays import BoolArray
from peewit.solvers.assessment.agreement import wilson_interval

CONFIDENCE: Final = 0.9
_UNLABELED: Final = RowFilter(is_unlabeled=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseAlarms:
    """Nodes without a label that score at least so much, and how many may be of other classes."""

    n_found: int
    n_others: int  # left-out labels of other classes
    n_wrong: int  # of these, those that score so much
    most: int  # of the nodes found

    @classmethod
    def of(
        cls, file: PredictionFile, place: int, score: float, positive_share: float | None = None
    ) -> "FalseAlarms":
        """Of the class at a place; raises `NotCrossValidated`."""
        left_out = read_left_out(file)
        of_others = left_out.scores[left_out.classes != place, place]
        n_others, n_wrong = of_others.size, int((of_others >= np.float32(score)).sum())
        n_candidates, n_found = candidates_above(file, place, score)
        rate = wilson_interval(n_wrong, n_others, confidence=CONFIDENCE)[1] if n_others else 1.0
        n_of_others = (1.0 - (positive_share or 0.0)) * n_candidates
        return cls(
            n_found=n_found,
            n_others=n_others,
            n_wrong=n_wrong,
            most=min(int(rate * n_of_others), n_found),
        )

    @property
    def least_precision(self) -> float:
        """Of the nodes found, where labels of other classes were drawn at random."""
        return 1.0 - self.most / max(self.n_found, 1)


def candidates_above(file: PredictionFile, place: int, score: float) -> tuple[int, int]:
    """Number of nodes without a label that labels reach, and of those that score so much."""
    column = f"{file.score_column}:{file.meta.class_names[place]}"
    n_candidates = n_found = 0
    for batch in file.batches():
        is_candidate = is_unlabeled(batch)
        n_candidates += int(np.count_nonzero(is_candidate))
        is_found = is_candidate & (batch.column(column).to_numpy() >= np.float32(score))
        n_found += int(np.count_nonzero(is_found))
    return n_candidates, n_found


def is_unlabeled(batch: pa.RecordBatch) -> BoolArray:
    """Nodes without a label that labels reach; older files do not say which have one."""
    reachable: BoolArray = batch.column("reachable").to_numpy(zero_copy_only=False)
    return _UNLABELED.mask(batch) & reachable if "labeled" in batch.schema.names else reachable
