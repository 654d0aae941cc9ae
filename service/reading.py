"""Reading predictions as people ask for them: the latest or one job's, by the ids they know."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from service.catalog import GraphRecord
from service.formats import json_integer
from service.jobs import Job, JobQueue, UnknownJob
from service.known_nodes import KnownNodes
from service.predictions import (
    SCORE_PREFIX,
    PredictionFile,
    PredictionsNotFound,
    PredictionStore,
)
from service.uploads import NodeId, node_array


class NodeNotFound(LookupError):
    """The graph does not know the node."""


class NodeNotPredicted(LookupError):
    """The node came after the snapshot that the predictions were made from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What is predicted for one node.

    Attributes
    ----------
    node : str or int
        External id; a string of digits where a float would not hold the integer.
    label : str, int or float, optional
        None where no label reaches.
    score : float
        Of the winner; the number predicted where labels are real numbers.
    margin : float, optional
        Distance to the runner-up; None where labels are real numbers.
    reachable : bool
        Whether any label reaches the node.
    variance : float, optional
        Of the node given the labels; None unless it was asked for, and where no label reaches.
    scores : dict, optional
        Score of each class by its name; None where there are too many classes, or none.
    """

    node: NodeId
    label: str | int | float | None
    score: float
    margin: float | None
    reachable: bool
    variance: float | None
    scores: dict[str, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """What became of the nodes that were asked for, each in the order of asking.

    Attributes
    ----------
    predictions : list of Prediction
        Of the nodes that the snapshot holds.
    newer : list of str or int
        Nodes that came after the snapshot.
    unknown : list of str or int
        Nodes that the graph does not know.
    """

    predictions: list[Prediction]
    newer: list[NodeId]
    unknown: list[NodeId]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionReader:
    """Finds predictions and looks nodes up in them.

    Attributes
    ----------
    store : PredictionStore
        Holds the files.
    jobs : JobQueue
        Holds the jobs that made them.
    nodes : KnownNodes
        Tells which nodes there are.
    """

    store: PredictionStore
    jobs: JobQueue
    nodes: KnownNodes

    def find(
        self, graph: GraphRecord, *, model: str | None = None, job_id: str | None = None
    ) -> Job:
        """The job asked for, else the one with the freshest predictions.

        Raises
        ------
        UnknownJob
            The graph has no such job.
        PredictionsNotFound
            The job was for another model, or there are no predictions yet.
        """
        if job_id is not None:
            job = self.jobs.get(job_id)
            if job.graph_id != graph.id:
                raise UnknownJob(f"no job {job_id!r} of graph {graph.settings.name}")
            if model is not None and job.model != model:
                raise PredictionsNotFound(f"job {job_id} is for model {job.model}, not for {model}")
            return job
        latest = self.store.latest(graph.id, model)
        if latest is None:
            of_model = "" if model is None else f" of model {model}"
            raise PredictionsNotFound(
                f"graph {graph.settings.name} has no predictions{of_model} yet; put labels, submit "
                "a job of kind solve and wait for it"
            )
        return latest

    def open(self, job: Job) -> PredictionFile:
        """The predictions of a job; raises `PredictionsNotFound`."""
        return self.store.read(job)

    def lookup(self, graph: GraphRecord, file: PredictionFile, nodes: Sequence[NodeId]) -> Lookup:
        """The predictions of some nodes; those that have none are told apart."""
        ids = node_array(nodes, graph.settings.node_ids)
        dense = self.nodes.lookup(graph, ids)
        is_predicted = (dense >= 0) & (dense < file.n_nodes)
        is_known = dense >= 0
        absent = np.flatnonzero(~is_known)
        if len(absent):  # a push that waits is not unknown, only newer
            is_known[absent] = self.nodes.knows(graph, ids.take(pa.array(absent)))
        return Lookup(
            predictions=_predictions(file.lookup(dense[is_predicted])),
            newer=[nodes[row] for row in np.flatnonzero(is_known & ~is_predicted).tolist()],
            unknown=[nodes[row] for row in np.flatnonzero(~is_known).tolist()],
        )

    def one(self, graph: GraphRecord, file: PredictionFile, node: NodeId) -> Prediction:
        """The prediction of one node.

        Raises
        ------
        NodeNotFound
            The graph does not know the node.
        NodeNotPredicted
            The node is newer than the snapshot.
        """
        found = self.lookup(graph, file, [node])
        if found.unknown:
            raise NodeNotFound(f"graph {graph.settings.name} has no node {node!r}")
        if found.newer:
            raise NodeNotPredicted(
                f"node {node!r} is newer than snapshot {file.meta.snapshot}; solve again once a "
                "newer snapshot is there"
            )
        return found.predictions[0]


def _predictions(rows: pa.Table) -> list[Prediction]:
    columns = {name: _values(rows.column(name)) for name in rows.schema.names}
    classes = [name for name in columns if name.startswith(SCORE_PREFIX)]
    return [
        Prediction(
            node=columns["node"][row],
            label=columns["label"][row],
            score=columns["score"][row],
            margin=columns["margin"][row],
            reachable=columns["reachable"][row],
            variance=columns["variance"][row] if "variance" in columns else None,
            scores={name.removeprefix(SCORE_PREFIX): columns[name][row] for name in classes}
            or None,
        )
        for row in range(rows.num_rows)
    ]


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Python values; a 32-bit float becomes the shortest number that reads back as it."""
    values: list[Any] = column.to_pylist()
    if column.type == pa.float32():
        return [None if value is None else float(str(np.float32(value))) for value in values]
    if pa.types.is_integer(column.type):
        return [None if value is None else json_integer(value) for value in values]
    return values
