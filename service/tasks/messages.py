"""Messages between a worker and its warm child, over their pipe.

A task carries all that the child needs besides the files of the graph, so that the child never
talks to the database. It answers each task once, after any number of progress messages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from peewit.streaming.edges.blocks import NodeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveTask:
    """Solve one snapshot for one set of labels.

    Attributes
    ----------
    job_id : str
    attempt : int
        Name the file of predictions.
    graph_id : str
    graph_directory : Path
        Where the graph keeps its snapshots, nodes and predictions.
    snapshot, labels_seq, features_version : int
        What was captured when the attempt began.
    model : str
        Public name.
    parameters : mapping
        As asked for.
    nodes : pyarrow.LargeStringArray
        External ids of the labeled nodes, as text.
    labels : sequence of str, int or float
        Their labels.
    keep_raw : bool
        Whether the graph keeps raw edges for later passes.
    n_threads : int
        Threads to read raw edges with.
    """

    job_id: str
    attempt: int
    graph_id: str
    graph_directory: Path
    snapshot: int
    labels_seq: int
    features_version: int
    model: str
    parameters: Mapping[str, Any]
    nodes: pa.LargeStringArray
    labels: Sequence[str | int | float]
    keep_raw: bool = True
    n_threads: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneTask(SolveTask):
    """Choose hyperparameters for one snapshot and one set of labels; fields as of `SolveTask`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifyTask:
    """Measure one snapshot against its raw edges.

    Attributes
    ----------
    job_id : str
    attempt : int
        For the log.
    graph_id : str
    graph_directory : Path
        Where the graph keeps its snapshots, nodes and raw edges.
    snapshot : int
        What was captured when the attempt began.
    parameters : mapping
        As asked for.
    keep_raw : bool
        Whether the graph keeps raw edges for later passes.
    n_threads : int
        Threads to compute with.
    """

    job_id: str
    attempt: int
    graph_id: str
    graph_directory: Path
    snapshot: int
    parameters: Mapping[str, Any]
    keep_raw: bool
    n_threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnnTask:
    """Make edges from features.

    Attributes
    ----------
    job_id : str
    attempt : int
        Name the file of edges.
    graph_id : str
    graph_directory : Path
        Where the graph keeps its nodes and features, and edges made from them.
    node_kind : {"string", "int64", "dense"}
        Kind of the node ids.
    features_version, n_nodes : int
        What was captured when the attempt began.
    seed : int
        Of random choices.
    parameters : mapping
        As asked for.
    """

    job_id: str
    attempt: int
    graph_id: str
    graph_directory: Path
    node_kind: NodeKind
    features_version: int
    n_nodes: int
    seed: int
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedTask:
    """Find where the nodes of a snapshot lie.

    Attributes
    ----------
    job_id : str
    attempt : int
        For the log.
    graph_id : str
    graph_directory : Path
        Where the graph keeps its snapshots and its embedding.
    snapshot : int
        What was captured when the attempt began.
    n_threads : int
        Threads to compute with.
    """

    job_id: str
    attempt: int
    graph_id: str
    graph_directory: Path
    snapshot: int
    n_threads: int


Task = SolveTask | CertifyTask | KnnTask | EmbedTask
"""What a child can do."""


@dataclass(frozen=True, slots=True)
class Stop:
    """From the worker: end the present task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced:
    """From the child: how far the task is.

    Attributes
    ----------
    phase : str
        What it is doing.
    fraction : float, optional
        Part of the phase that is done, in [0, 1].
    stage : str, optional
        Which stage of the job the phase belongs to; its result times these.
    """

    phase: str
    fraction: float | None = None
    stage: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """The file of predictions lies on the disk; ``result`` is what the job will say."""

    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The hyperparameters are chosen; ``result`` is what the job will say."""

    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certified:
    """The certificate lies beside its snapshot; ``result`` is what the job will say."""

    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """The embedding lies on the disk; ``result`` is what the job will say."""

    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """The edges lie in a Parquet file at ``path``; ``result`` is what the job will say."""

    path: Path
    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The task cannot be done.

    Attributes
    ----------
    error : str
        For the user.
    retry : bool
        Whether another attempt may do better.
    trace : str
        For the log; empty where the error says it all.
    is_disk_full : bool
        Whether it could be done if the disk had room.
    """

    error: str
    retry: bool = False
    is_disk_full: bool = False
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The task ended because it was told to."""


Answer = Solved | Tuned | Certified | Connected | Embedded | Failed | Stopped
