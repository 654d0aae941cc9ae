"""Label sets, which hold the true label with a stated probability; read from stored p-values."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from peewit.service.predictions.left_out import sample_p_value
from peewit.service.predictions.prediction_files import (
    P_VALUE_PREFIX,
    Prediction,
    PredictionFile,
    label_values,
    require_few_classes,
)
from peewit.service.wire.predictions import SetGroup, SetsOfPredictions
from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import BoolArray, Int64Array
from peewit.solvers.assessment.conformal import guaranteed_coverage
from peewit.streaming.problems import Conflict


class SetsNotKept(Conflict, LookupError):
    """The job kept no p-values to read sets from."""

    title = "No sets kept"
    argument: ClassVar[str] = "job"


_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSets:
    """Label sets of one prediction file at one coverage.

    The set of a node holds the classes whose p-value is more than 1 - coverage, and the predicted
    class, so that no set is empty (J9).
    """

    file: PredictionFile
    coverage: float

    @classmethod
    def of(cls, file: PredictionFile, coverage: float) -> "LabelSets":
        """Sets of a file; raises ValueError for coverage outside (0, 1), and `SetsNotKept`."""
        if not 0.0 < coverage < 1.0:
            raise BadArgument("coverage", f"must lie in (0, 1), got {coverage}")
        if file.meta.score == "value":
            raise BadArgument("coverage", "must be left out where numbers are predicted")
        require_few_classes("coverage", len(file.meta.class_names))
        if file.meta.sets is None:
            raise SetsNotKept(
                f"job {file.meta.job_id} kept nothing that sets are read from; solve again with "
                "sets=auto"
            )
        return cls(file=file, coverage=coverage)

    @property
    def schema(self) -> pa.Schema:
        """Schema of rows with their sets: ``labels`` and ``certain`` come last."""
        labels = label_values(self.file.meta.class_names)
        added = [pa.field("labels", pa.list_(labels.type), nullable=False)]
        added.append(pa.field("certain", pa.bool_(), nullable=False))
        return pa.schema([*self.file.schema, *added], metadata=self.file.schema.metadata)

    def with_sets(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of predictions with their sets; ``certain`` where a set holds one label."""
        labels, schema = label_values(self.file.meta.class_names), self.schema
        for batch in batches:
            is_in = self._is_in(batch)
            sizes = is_in.sum(axis=1)
            offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
            held = labels.take(pa.array(np.nonzero(is_in)[1]))
            sets = pa.ListArray.from_arrays(pa.array(offsets), held)
            columns = [*batch.columns, sets, pa.array(sizes == 1)]
            yield pa.record_batch(columns, schema=schema)

    def of_node(self, prediction: Prediction) -> dict[str, Any]:
        """The prediction of one node with its set, as JSON values."""
        p_values = prediction["p_values"] or {}
        held = [
            name
            for name in self.file.meta.class_names
            if p_values[str(name)] > 1.0 - self.coverage or str(prediction["label"]) == str(name)
        ]
        return {**prediction, "labels": held, "certain": len(held) == 1}

    def sizes(self, batch: pa.RecordBatch) -> Int64Array:
        """(n_rows,) number of labels in the set of each node."""
        sizes: Int64Array = self._is_in(batch).sum(axis=1)
        return sizes

    def summary(self) -> SetsOfPredictions:
        """Coverage guaranteed to each group of classes, and how large the sets are."""
        meta, sets = self.file.meta, self.file.meta.sets or {}
        groups, n_compared = np.array(sets["groups"]), np.array(sets["n_compared"])
        is_promised = np.ones(groups.size, bool)
        is_promised[sets["unpromised"]] = False
        n_nodes, sizes = 0, np.zeros(len(meta.class_names) + 1, np.int64)
        for batch in self.file.shown():
            reachable = batch.column("reachable").to_numpy(zero_copy_only=False)
            of_batch = self.sizes(batch)[reachable]
            n_nodes += of_batch.size
            sizes += np.bincount(of_batch, minlength=sizes.size)
        return SetsOfPredictions(
            coverage=self.coverage,
            groups=tuple(
                self._group(
                    np.flatnonzero((groups == group) & is_promised),
                    n_compared,
                    int(sets["n_folds"]),
                )
                for group in np.unique(groups[is_promised])
            ),
            unpromised=tuple(meta.class_names[place] for place in sets["unpromised"]),
            n_nodes=n_nodes,
            mean_size=float(sizes @ np.arange(sizes.size) / n_nodes) if n_nodes else None,
            certain_share=float(sizes[1] / n_nodes) if n_nodes else None,
            warning=self.file.meta.judged_by or self._doubt(groups),
        )

    def _group(self, classes: Int64Array, n_compared: Int64Array, n_folds: int) -> SetGroup:
        n_labels = int(n_compared[classes[0]])
        return SetGroup(
            labels=tuple(self.file.meta.class_names[place] for place in classes.tolist()),
            n_labels=n_labels,
            guaranteed=guaranteed_coverage(self.coverage, n_labels, n_folds),
            excludes=1.0 / (n_labels + 1) <= 1.0 - self.coverage + _ROUNDING,
        )

    def _doubt(self, groups: Int64Array) -> str | None:
        p_value = sample_p_value(self.file)
        if p_value is None or np.unique(groups).size == groups.size:
            return None
        return (
            f"the labels are no random sample of the nodes (p = {p_value:.0e}). Sets of "
            "several classes together need one: label random nodes. Or solve with "
            "sets=by-class, if the labels of each class are a random sample of that class"
        )

    def _is_in(self, batch: pa.RecordBatch) -> BoolArray:
        """(n_rows, n_classes) whether each class belongs to the set of each node."""
        names = [f"{P_VALUE_PREFIX}{name}" for name in map(str, self.file.meta.class_names)]
        is_in = np.column_stack([batch.column(name).to_numpy() for name in names]) > (
            1.0 - self.coverage
        )
        labels = label_values(self.file.meta.class_names)
        predicted = batch.column("label").cast(labels.type)
        rows = np.flatnonzero(predicted.is_valid().to_numpy(zero_copy_only=False))
        place = pa.compute.index_in(predicted.take(pa.array(rows)), value_set=labels)
        is_in[rows, place.to_numpy()] = True
        return is_in
