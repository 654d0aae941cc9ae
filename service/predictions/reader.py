"""Reader of predictions by external ids: the freshest ones, or those of one job."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from peewit.service.catalog import GraphRecord
from peewit.service.database.read_cache import Recent
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.jobs.job import LABEL_COLUMN, Job, UnknownJob
from peewit.service.jobs.queue import JobQueue
from peewit.service.predictions.prediction_files import Prediction, PredictionFile
from peewit.service.predictions.store import PredictionsNotFound, PredictionStore
from peewit.service.tables.uploads import NodeId, node_array
from peewit.streaming.problems import NotFound


class NodeNotFound(NotFound):
    """The graph does not know the node."""

    title = "Node not found"


class NodeNotPredicted(NotFound):
    """The node is newer than the snapshot that the predictions were made from."""

    title = "Node newer than snapshot"


class NodeNotAsked(NotFound):
    """The node is of a kind that the predictions are not about."""

    title = "Node of a kind without predictions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """Predictions of the nodes asked for, and the nodes without one; each in the order asked."""

    predictions: list[Prediction]
    newer: list[NodeId]  # than the snapshot
    unknown: list[NodeId]  # to the graph
    unasked: list[NodeId]  # of kinds that the predictions are not about


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionReader:
    """Finds prediction files and looks nodes up in them."""

    store: PredictionStore
    jobs: JobQueue
    nodes: KnownNodes
    recent: Recent  # remembers which job is the freshest

    def find(
        self,
        graph: GraphRecord,
        *,
        model: str | None = None,
        job_id: str | None = None,
        column: str | None = None,
    ) -> Job:
        """The job asked for, else the one with the freshest predictions of a column of labels.

        Raises `UnknownJob` where the graph has no such job, and `PredictionsNotFound` where the job
        was for another model or column, or where there are no predictions yet.
        """
        if job_id is not None:
            job = self.recent.get(("job", job_id), lambda: self.jobs.get(job_id))
            if job.graph_id != graph.id:
                raise UnknownJob(f"no job {job_id!r} of graph {graph.settings.name}")
            if model is not None and job.model != model:
                raise PredictionsNotFound(f"job {job_id} is for model {job.model}, not for {model}")
            of_job = job.parameters.get(LABEL_COLUMN, "")
            if column is not None and of_job != column:
                raise PredictionsNotFound(
                    f"job {job_id} is for {of_column(of_job)}, not for {of_column(column)}"
                )
            return job
        column = column or ""
        latest = self.recent.get(
            _freshest(graph, model, column),
            lambda: self.store.latest(graph.id, model, column=column),
        )
        if latest is None:
            of_model = "" if model is None else f" of model {model}"
            if column:
                of_model += f" of {of_column(column)}"
            raise PredictionsNotFound(
                f"graph {graph.settings.name} has no predictions{of_model} yet; put labels, submit "
                "a job of kind solve and wait for it"
            )
        return latest

    def cached(
        self,
        graph: GraphRecord,
        node: NodeId,
        *,
        model: str | None,
        job_id: str | None,
        column: str | None = None,
    ) -> tuple[PredictionFile, Prediction] | None:
        """Result of `find`, `open` and `one` if it is in memory, else None.

        For callers that must not block: it reads no row and opens no file.
        """
        key = _freshest(graph, model, column or "") if job_id is None else ("job", job_id)
        if not self.recent.is_cached(key):
            return None
        job = self.find(graph, model=model, job_id=job_id, column=column)
        file = self.store.cached(job, graph)
        if file is None:
            return None
        dense = self.nodes.cached_ids(graph, node_array([node], graph.settings.node_ids))
        if dense is None or dense[0] >= file.n_nodes:
            return None
        (prediction,) = file.of_nodes(dense)
        return None if prediction is None else (file, prediction)

    def open(self, job: Job) -> PredictionFile:
        """The predictions of a job; raises `PredictionsNotFound`."""
        return self.store.read(job)

    def lookup(self, graph: GraphRecord, file: PredictionFile, nodes: Sequence[NodeId]) -> Lookup:
        """Predictions of some nodes; newer and unknown nodes are listed apart."""
        ids = node_array(nodes, graph.settings.node_ids)
        dense = self.nodes.lookup(graph, ids)
        is_predicted = (dense >= 0) & (dense < file.n_nodes)
        is_known = dense >= 0
        absent = np.flatnonzero(~is_known)
        if len(absent):  # nodes of waiting pushes are newer, not unknown
            is_known[absent] = self.nodes.knows(graph, ids.take(pa.array(absent)))
        predictions = file.of_nodes(dense[is_predicted])
        places = np.flatnonzero(is_predicted).tolist()
        return Lookup(
            predictions=[each for each in predictions if each is not None],
            unasked=[
                nodes[place]
                for place, each in zip(places, predictions, strict=True)
                if each is None
            ],
            newer=[nodes[row] for row in np.flatnonzero(is_known & ~is_predicted).tolist()],
            unknown=[nodes[row] for row in np.flatnonzero(~is_known).tolist()],
        )

    def one(self, graph: GraphRecord, file: PredictionFile, node: NodeId) -> Prediction:
        """The prediction of one node.

        Raises `NodeNotFound`, `NodeNotPredicted` and `NodeNotAsked`.
        """
        answer = self.lookup(graph, file, [node])
        if answer.unknown:
            raise NodeNotFound(f"graph {graph.settings.name} has no node {node!r}")
        if answer.newer:
            raise NodeNotPredicted(
                f"node {node!r} is newer than snapshot {file.meta.snapshot}; solve again once a "
                "newer snapshot is there"
            )
        if answer.unasked:
            raise NodeNotAsked(
                f"node {node!r} carries labels on and has no prediction: job {file.meta.job_id} "
                f"is about nodes of kind {', '.join(file.meta.answers)}; `graph set --answers` "
                "names others for the next solve"
            )
        return answer.predictions[0]


def of_column(column: str) -> str:
    """A column of labels in words."""
    return f"label column {column!r}" if column else "the labels without a column's name"


def _freshest(
    graph: GraphRecord, model: str | None, column: str
) -> tuple[str, str, str | None, str]:
    """Cache key of the freshest predictions."""
    return "freshest predictions", graph.id, model, column
