"""What the server answers, as frozen records; the fields are those of the API's documentation.

Fields that a newer server adds are ignored. Records hold no connection: both clients give the same,
and they can be kept, compared and pickled.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa

NodeKind = Literal["string", "int64", "dense"]
NodeId = str | int
Label = str | int | float
FileStatus = Literal["pending", "committed", "quarantined", "duplicate"]
JobStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What is wrong with a call (RFC 9457); see `peewit.service.client.errors.PeewitError`."""

    title: str
    detail: str
    type: str = "about:blank"
    status: int | None = None
    argument: str | None = None
    rule: str | None = None
    row: int | None = None
    value: str | None = None
    refused: tuple[str, ...] | None = None
    n_refused: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a graph."""

    node_ids: NodeKind
    epsilon: float
    max_edges: int | None
    expected_nodes: int
    max_nodes: int
    seed: int
    keep_raw: bool
    snapshot_every: dict[str, Any] | None
    auto_solve: dict[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A graph: settings, and what is in it as of the last committed file."""

    name: str
    id: str
    settings: Settings
    nodes: int
    edges_seen: int
    edges_kept: int
    self_loops: int
    epsilon_asked: float
    epsilon_expected: float | None
    snapshot: int | None
    labels_seq: int
    features_version: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The measured accuracy of a snapshot; ``epsilon_certified`` holds with ``probability``."""

    snapshot: int
    status: str
    epsilon_certified: float | None
    epsilon_least: float | None
    ritz_min: float | None
    ritz_max: float | None
    residual_min: float | None
    residual_max: float | None
    outer_min: float | None
    outer_max: float | None
    probability: float
    n_edges: int
    n_passes: int
    seconds: float
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureSet:
    """Features that were sent at once, and what became of them."""

    id: str
    mode: Literal["replace", "add"]
    status: Literal["pending", "committed", "refused"]
    kind: Literal["dense", "sparse"]
    n_rows: int
    n_columns: int
    features_version: int | None
    n_new_nodes: int | None
    reason: str | None
    row: int | None
    value: str | None
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """The present features of a graph; ``refused`` is the last set, if it was refused."""

    features_version: int
    kind: Literal["dense", "sparse"] | None
    n_rows: int
    n_columns: int | None
    n_missing: int
    n_pending: int
    refused: FeatureSet | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waits to be ingested."""

    n_files: int
    n_bytes: int
    pushed_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDetails(Graph):
    """A graph with the state of its files, its features and its newest certificate."""

    epsilon_certified: float | None
    certificate: Certificate | None
    features: Features
    backlog: Backlog
    files: dict[FileStatus, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Provenance of a snapshot; ``note`` says why its accuracy is not the one asked."""

    number: int
    n_nodes: int
    edges_seen: int
    edges_kept: int
    self_loops: int
    epsilon_asked: float
    epsilon_expected: float
    note: str
    n_files: int
    seed: int
    created_at: datetime
    certificate: Certificate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One version of a file and what became of it."""

    id: int
    source_id: str | None
    push_id: str | None
    path: str
    size: int
    status: FileStatus
    reason: str | None
    row: int | None
    value: str | None
    n_rows: int | None
    n_self_loops: int | None
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """Edges that are on the server's disk; ``file`` is what they were gathered into."""

    id: str
    n_rows: int
    n_bytes: int
    idempotency_key: str | None
    status: FileStatus
    file: File | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A place that edges are read from, and what the last try to list or read it came to."""

    id: str
    url: str
    follow: bool
    created_at: datetime
    listed_at: datetime | None
    error: str | None
    error_at: datetime | None
    n_failures: int
    files: dict[FileStatus, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelReceipt:
    """What became of labels; ``labels_seq`` is the number of the graph's last label event."""

    labels_seq: int
    accepted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job at the moment of the answer."""

    id: str
    graph_id: str
    kind: Literal["solve", "tune", "certify", "knn", "embed"]
    model: str | None
    parameters: dict[str, Any]
    lane: Literal["fast", "heavy"]
    priority: int
    status: JobStatus
    phase: str | None
    progress: float | None
    expected_end_at: datetime | None
    cancel_requested: bool
    attempt: int
    idempotency_key: str | None
    snapshot: int | None
    labels_seq: int | None
    features_version: int | None
    result: dict[str, Any] | None
    error: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def is_final(self) -> bool:
        """True when the job never changes again."""
        return self.status not in {"queued", "running"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """One line of a job's history; ``seq`` counts from 1, ``kind`` says what happened."""

    seq: int
    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a solve on the newest snapshot and the present features would take."""

    model: str
    input: str
    snapshot: int
    features_version: int
    n_nodes: int
    n_edges: int
    n_points: int | None
    n_features: int | None
    gram: str | None
    precision: str | None
    gram_bytes: int | None
    n_bytes: int | None
    limit_bytes: int
    fits: bool
    message: str | None
    seconds: float | None
    seconds_job: str | None
    seconds_snapshot: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What is predicted for one node; ``label`` is None where no label reaches it."""

    node: NodeId
    label: Label | None
    score: float
    margin: float | None
    reachable: bool
    variance: float | None
    scores: dict[str, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePrediction:
    """The prediction of one node, with where it comes from."""

    job: str
    model: str
    snapshot: int
    labels_seq: int
    features_version: int
    solver_status: str
    refined: bool
    score: str
    prediction: Prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """The predictions of some nodes; ``newer`` came after the snapshot, ``unknown`` never."""

    job: str
    model: str
    snapshot: int
    labels_seq: int
    features_version: int
    solver_status: str
    refined: bool
    score: str
    predictions: tuple[Prediction, ...]
    newer: tuple[NodeId, ...]
    unknown: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predictions:
    """A table of predictions, and where it comes from.

    Attributes
    ----------
    table : pyarrow.Table
        Columns ``node`` (not of new points), ``label``, ``score``, ``margin`` and others.
    job, model, snapshot, labels_seq, features_version, solver_status
        What it was made from.
    etag : str or None
        For `if_changed_since` of the next call; new points have none.
    """

    table: pa.Table
    job: str
    model: str
    snapshot: int
    labels_seq: int
    features_version: int
    solver_status: str
    etag: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A node to label; ``prediction`` is None while nothing is predicted of it."""

    node: NodeId
    prediction: Prediction | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestions:
    """Nodes to label, the most useful first; none of them had a label at ``labels_seq``.

    ``job``, ``model``, ``snapshot`` and ``predicted_labels_seq`` say which predictions were looked
    at; they are None without any. ``embedding_snapshot`` is None for margins.
    """

    strategy: Literal["margin", "variance", "coverage"]
    job: str | None
    model: str | None
    snapshot: int | None
    predicted_labels_seq: int | None
    labels_seq: int
    embedding_snapshot: int | None
    suggestions: tuple[Suggestion, ...]

    @property
    def nodes(self) -> list[NodeId]:
        """The nodes alone."""
        return [each.node for each in self.suggestions]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model of the catalogue, with the JSON Schemas of its hyperparameters and options."""

    name: str
    description: str
    uses_features: bool
    parameters: dict[str, Any]
    options: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """What runs on the server."""

    name: str
    version: str
    api: str
