"""Predictors of new points: the functions of a solve, in a file beside its predictions.

A predictor is an uncompressed ``.npz`` without pickled objects, published whole before the
predictions and removed with them (`peewit.service.predictions.store`). Where new points may have
edges, an ``.npy`` of what each node gives them is published, too; only rows of neighbors are read.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from peewit.service.catalog import GraphRecord
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.jobs.job import LABEL_COLUMN, Job, JobStatus
from peewit.service.predictions.checked_points import Neighbors, PointBlock, PointEdges
from peewit.service.predictions.prediction_files import (
    LABELED,
    P_VALUE_PREFIX,
    PROVEN,
    PredictionFile,
    PredictionMeta,
    class_columns,
    given_path,
    label_values,
    own_score,
    predictor_path,
    write_arrays,
)
from peewit.service.predictions.store import PredictionsNotFound, PredictionStore
from peewit.solvers.arrays import Float32Array, FloatArray
from peewit.solvers.gram.kernel_functions import KernelFunction, ScaledRows
from peewit.solvers.gram.space_base import Expansion
from peewit.solvers.gram.sparse_spaces import LocalExpansion
from peewit.solvers.linear.linear_functions import LinearFunctions
from peewit.solvers.linear.row_scaling import RowScaling
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.models.classes.score_calibration import Calibration
from peewit.solvers.models.contract.inductive_model import InductiveModel
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.linear.filtered_features import FilteredFeatures
from peewit.solvers.models.linear.filtered_ridge import FilteredRidge, edge_scores, joined_scores
from peewit.solvers.solution import Functions, Solution
from peewit.streaming.problems import Conflict, Unprocessable

_OF_NODES: Final = ("node", "reachable", LABELED, "variance", "stability", PROVEN)
"""Columns of predictions that new points lack, as they lack those of p-values."""


class JobNotSucceeded(Conflict, RuntimeError):
    """The job has no predictions, yet or ever."""

    title = "Job has not succeeded"
    argument: ClassVar[str] = "job"


class NotInductive(Unprocessable):
    """The job labeled only the nodes of its graph and cannot predict new points."""

    title = "Job predicts no new points"
    argument: ClassVar[str] = "job"


def write_predictor(path: Path, functions: Functions) -> None:
    """Write functions whole, flushed to the disk.

    Raises TypeError for functions other than `Expansion` and `LinearFunctions`.
    """
    if isinstance(functions, LinearFunctions):
        parts = _linear_parts(functions)
    elif isinstance(functions, Expansion):
        parts = _expansion_parts(functions)
    else:
        raise TypeError(f"functions of type {type(functions).__name__} cannot be written")
    write_arrays(path, parts)


def read_functions(path: Path) -> Functions:
    """The functions that `write_predictor` wrote; raises FileNotFoundError."""
    with np.load(path, allow_pickle=False) as parts:
        return _read_linear(parts) if "weights" in parts else _read_expansion(parts)


def given_of(model: Model, prepared: Any, solution: Solution) -> FloatArray | None:
    """(n_nodes, n_classes) what nodes give new points by edges; None where points have no edges."""
    functions = solution.functions
    if not isinstance(model, FilteredRidge) or not isinstance(functions, LinearFunctions):
        return None
    features: FilteredFeatures = prepared
    inverse_root = features.columns.pagerank.inverse_root
    return edge_scores(solution.scores, inverse_root, functions.weights[-1])


def _linear_parts(functions: LinearFunctions) -> dict[str, Any]:
    parts: dict[str, Any] = {
        "weights": functions.weights,
        "is_unit": functions.form.is_unit,
        "constant": functions.form.constant,
        "center": functions.form.center,
        "zeros_stay": functions.form.zeros_stay,
    }
    if functions.sigmoid is not None:
        parts["sigmoid"] = functions.sigmoid
    return parts


def _read_linear(parts: Mapping[str, Any]) -> LinearFunctions:
    form = RowScaling(
        is_unit=bool(parts["is_unit"]),
        constant=float(parts["constant"]),
        center=parts["center"],
        zeros_stay=bool(parts["zeros_stay"]),
    )
    return LinearFunctions(weights=parts["weights"], form=form, sigmoid=parts.get("sigmoid"))


def _expansion_parts(functions: Expansion) -> dict[str, Any]:
    kernel, values = functions.kernel, functions.basis.values
    parts: dict[str, Any] = {
        "kernel": kernel.name,
        "width": kernel.width,
        "degree": kernel.degree,
        "center": kernel.center,
        "half_squares": functions.basis.half_squares,
        "coef": functions.coef,
        "intercept": functions.intercept,
    }
    if isinstance(functions, LocalExpansion):
        parts["n_nearest"] = functions.n_nearest
    if not sp.issparse(values):
        return parts | {"values": values}
    return parts | {
        "data": values.data,
        "indices": values.indices,
        "indptr": values.indptr,
        "shape": values.shape,
    }


def _read_expansion(parts: Mapping[str, Any]) -> Expansion:
    kernel = KernelFunction(
        name=str(parts["kernel"]),  # type: ignore[arg-type]  # as it was written
        width=float(parts["width"]),
        degree=int(parts["degree"]),
        center=parts["center"],
    )
    if "values" in parts:
        values: Any = parts["values"]
    else:
        values = sp.csr_array(
            (parts["data"], parts["indices"], parts["indptr"]), shape=tuple(parts["shape"])
        )
    expansion = Expansion(
        kernel=kernel,
        basis=ScaledRows(values=values, half_squares=parts["half_squares"]),
        coef=parts["coef"],
        intercept=parts["intercept"],
    )
    if "n_nearest" not in parts:
        return expansion
    return LocalExpansion.of(expansion, int(parts["n_nearest"]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Joining:
    """Scores of new points by features and edges (K5b).

    Arguments of `peewit.solvers.models.linear.filtered_ridge.joined_scores`.
    """

    edge_scores: Float32Array  # (n_nodes, n_classes) what nodes give by edges; memory-mapped
    teleport: float
    constant: FloatArray  # (n_classes,)

    def scores(self, own: FloatArray, edges: PointEdges) -> FloatArray:
        """(n_points, n_classes) scores of points whose features alone give the scores ``own``."""
        edge_scores = self.edge_scores[edges.nodes].astype(np.float64)
        return joined_scores(own, edges.weights, edge_scores, self.teleport, self.constant)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predictor:
    """Predicts new points with the functions of a job's solve.

    ``schema`` is that of the answers: ``label``, ``score`` or ``probability``, ``margin`` and,
    unless there are many classes, one column per class, as in the predictions of the job.
    ``joining`` is None where points have no edges.
    """

    meta: PredictionMeta
    schema: pa.Schema
    functions: Functions
    joining: Joining | None = None

    @property
    def n_columns(self) -> int:
        """Number of features of a point."""
        return self.functions.n_columns

    def neighbors(self, graph: GraphRecord, nodes: KnownNodes) -> Neighbors | None:
        """Nodes that points may have edges to; None where they may have none."""
        if self.joining is None:
            return None
        n_nodes = len(self.joining.edge_scores)
        return Neighbors(graph=graph, nodes=nodes, snapshot=self.meta.snapshot, n_nodes=n_nodes)

    def batches(self, blocks: Iterable[PointBlock]) -> Iterator[pa.RecordBatch]:
        """Answers in the order of the points."""
        labels = label_values(self.meta.class_names)
        for block in blocks:
            scores = self.functions.class_scores(block.features)
            if self.joining is not None and block.edges is not None:
                scores = self.joining.scores(scores, block.edges)
            if self.meta.calibration is not None:
                scores = Calibration.restored(self.meta.calibration).probabilities(scores)
            is_reached, score = np.ones(len(scores), bool), own_score(self.schema.names)
            of_scores = class_columns(labels, scores, is_reached, score, self.meta.rule)
            columns = [column for name, column in of_scores.items() if name in self.schema.names]
            yield pa.record_batch(columns, schema=self.schema)


def predictor_of(store: PredictionStore, job: Job) -> Predictor:
    """Predictor of a job.

    Raises `JobNotSucceeded`; `NotInductive` where the model, or its input, cannot predict new
    points; and `PredictionsNotFound` where newer jobs have replaced its predictions.
    """
    inductive = ", ".join(inductive_models())
    if job.kind != "solve" or job.model not in inductive_models():
        description = f"a solve by {job.model}" if job.kind == "solve" else f"of kind {job.kind}"
        raise NotInductive(
            f"job must be a solve by one of {inductive}, which predict new points; got job "
            f"{job.id}, which is {description}"
        )
    if job.status is not JobStatus.SUCCEEDED or job.result is None:
        raise JobNotSucceeded(
            f"job must have succeeded, got job {job.id}, which is {job.status}"
            + (f" ({job.error}); solve again" if job.status.is_final else "; wait for it")
        )
    file = store.read(job)
    reason = barred(job.model, file.meta.stats, file.meta.calibration is not None)
    if reason is not None:
        raise NotInductive(f"job must predict new points, got job {job.id}: {reason}")
    if not job.result.get("inductive"):
        raise NotInductive(_without_features(job))
    try:
        functions = read_functions(predictor_path(file.path))
    except FileNotFoundError:
        went = "as nodes were erased since" if file.path.exists() else "with its predictions"
        raise PredictionsNotFound(
            f"the predictor of job {job.id} was removed {went}; solve again for a new one"
        ) from None
    return Predictor(
        meta=file.meta, schema=_schema(file), functions=functions, joining=_joining(file, functions)
    )


def _without_features(job: Job) -> str:
    """Why a job found no functions of features, and the way out."""
    if job.parameters.get("norm_penalty") == 0:
        found, way = "whose functions have no norm", "solve with norm_penalty above 0"
    else:
        found = f"which worked on the {(job.result or {}).get('input', 'graph')} alone"
        way = "give the nodes features and solve again"
    return f"job must have worked on features, got job {job.id}, {found}; {way}"


def _joining(file: PredictionFile, functions: Functions) -> Joining | None:
    path = given_path(file.path)
    if not isinstance(functions, LinearFunctions) or not path.exists():
        return None
    return Joining(
        edge_scores=np.asanyarray(np.load(path, mmap_mode="r")),
        teleport=float(file.meta.stats["teleport"]),
        constant=functions.weights[-1],
    )


def latest_predictor(store: PredictionStore, graph_id: str, *, column: str = "") -> Job | None:
    """The job with the freshest predictions of a column among those that predict new points."""
    for job in store.kept(graph_id):
        if (job.result or {}).get("inductive") and job.parameters.get(LABEL_COLUMN, "") == column:
            return job
    return None


def barred(model: str, stats: Mapping[str, Any], is_calibrated: bool) -> str | None:
    """Why functions of a solve with these stats predict no new points, and the way out, or None."""
    made = CATALOGUE[model]
    if not issubclass(made, InductiveModel):
        return None
    return made.barred(stats, is_calibrated=is_calibrated)


def inductive_models() -> list[str]:
    """Public names of the models that predict new points."""
    return sorted(name for name, model in CATALOGUE.items() if issubclass(model, InductiveModel))


def _schema(file: PredictionFile) -> pa.Schema:
    fields = [
        field
        for field in file.schema
        if field.name not in _OF_NODES and not field.name.startswith(P_VALUE_PREFIX)
    ]
    return pa.schema(fields, metadata=file.schema.metadata)
