"""What JSON bodies look like, in and out; pydantic ends here."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, asdict, fields, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)

from service.catalog import AutoSolve, GraphRecord, GraphSettings, SnapshotEvery
from service.certifying import validate_certify
from service.connecting import validate_knn
from service.feature_log import FeatureSetRecord, SetMode, SetStatus
from service.feature_sets import FeaturesStatus
from service.jobs import KINDS, Job, JobSpec, JobStatus, lane_of
from service.labels import LabelReceipt
from service.manifest import FileRecord, FileStatus, PushRecord, SourceRecord
from service.reading import Lookup, Prediction
from service.redaction import shown_url
from service.solve_options import validate_solve
from service.tuning import validate_tune
from solvers.neighbors import Metric, Symmetrization, WeightName
from streaming.blocks import NodeKind
from streaming.certificate import Certificate, CertifySettings
from streaming.knn import KnnSettings, Method
from streaming.snapshots import SnapshotMeta

MAX_LOOKUP: int = 10_000
"""Nodes in one lookup; more come as a table."""

NodeIn = int | str
"""JSON readers that hold numbers as floats send 64-bit integers as strings."""

_DEFAULTS = {
    each.name: each.default for each in fields(GraphSettings) if each.default is not MISSING
}


_CERTIFY = CertifySettings()
_KNN = KnnSettings()


class InvalidArgument(ValueError):
    """An argument breaks a rule that a store knows."""


@contextmanager
def refusing() -> Iterator[None]:
    """Around a call whose plain ValueErrors speak of arguments of the request."""
    try:
        yield
    except ValueError as error:
        if type(error) is ValueError:
            raise InvalidArgument(str(error)) from error
        raise


class _Input(BaseModel):
    """A body: what it does not know it refuses, and "1" is no number."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Output(BaseModel):
    """An answer."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class Problem(_Output):
    """An error (RFC 9457): what is wrong, with which argument, and what to do."""

    type: str = Field(examples=["urn:lapwing:problem:graph-not-found"])
    title: str
    status: int
    detail: str
    argument: str | None = Field(None, description="What breaks a rule.")
    rule: str | None = None
    row: int | None = Field(None, description="Row of the body, from 0.")
    value: str | None = Field(None, description="What stands there.")
    refused: list[str] | None = Field(None, description="Nodes that the graph does not know.")
    n_refused: int | None = None


class SnapshotEveryIn(_Input):
    """Publish a snapshot after so many edges or seconds, whichever comes first."""

    edges: int | None = None
    seconds: float | None = None

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        self.to_record()
        return self

    def to_record(self) -> SnapshotEvery:
        """The same for the catalog; raises ValueError."""
        return SnapshotEvery(edges=self.edges, seconds=self.seconds)


class Solve(_Input):
    """A model with its hyperparameters and the options of the job; see `/v1/models`.

    Those left out take their defaults.
    """

    model: str = Field(examples=["stable-hfs"])
    parameters: dict[str, Any] = {}

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        validate_solve(self.model, self.parameters)
        return self


class _GraphFields(_Input):
    node_ids: NodeKind = Field(_DEFAULTS["node_ids"], description="Fixed once the graph exists.")
    epsilon: float = Field(_DEFAULTS["epsilon"], description="Spectral accuracy asked, in (0, 1).")
    max_edges: int | None = Field(
        _DEFAULTS["max_edges"],
        description="Most edges to keep, but for a spanning forest; wins over epsilon.",
    )
    expected_nodes: int = Field(_DEFAULTS["expected_nodes"], description="Fixed, see node_ids.")
    max_nodes: int = Field(_DEFAULTS["max_nodes"], description="Fixed, see node_ids.")
    seed: int | None = Field(_DEFAULTS["seed"], description="Fixed; drawn when left out.")
    keep_raw: bool = Field(_DEFAULTS["keep_raw"], description="Keep pushed edges for later passes.")
    snapshot_every: SnapshotEveryIn | None = Field(
        None, description="Snapshots besides the one at the end of each run of files."
    )
    auto_solve: Solve | None = Field(
        None, description="Solved again after every new snapshot and every change of a label."
    )

    def _given(self) -> dict[str, Any]:
        """The fields that the body holds, as the catalog wants them."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        if isinstance(each := given.get("snapshot_every"), SnapshotEveryIn):
            given["snapshot_every"] = each.to_record()
        if isinstance(each := given.get("auto_solve"), Solve):
            given["auto_solve"] = AutoSolve(model=each.model, parameters=each.parameters)
        return given


class GraphCreate(_GraphFields):
    """A new graph."""

    name: str = Field(description="1 to 63 of a-z, 0-9, _ and -; unique.", examples=["papers"])

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        self.to_settings()
        return self

    def to_settings(self) -> GraphSettings:
        """The same for the catalog; raises ValueError."""
        return GraphSettings(**self._given())


class GraphPatch(_GraphFields):
    """Settings to change; those left out stay. The fixed ones may only be repeated."""

    name: str = Field("", description="A new name.")

    def changed(self, settings: GraphSettings) -> GraphSettings:
        """The settings with these changes; raises ValueError."""
        return replace(settings, **self._given())


class SettingsOut(_Output):
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


class GraphOut(_Output):
    """A graph: settings, and what is in it as of the last committed file."""

    name: str
    id: str
    settings: SettingsOut
    nodes: int
    edges_seen: int = Field(description="Rows of committed files.")
    edges_kept: int
    self_loops: int = Field(description="Rows dropped because both ends are the same node.")
    epsilon_asked: float
    epsilon_expected: float | None = Field(description="Of the newest snapshot.")
    snapshot: int | None = Field(description="Number of the newest.")
    labels_seq: int = Field(description="Number of the last label event.")
    features_version: int
    created_at: datetime

    @staticmethod
    def values(graph: GraphRecord) -> dict[str, Any]:
        """The fields of a graph."""
        settings, progress = asdict(graph.settings), asdict(graph.progress)
        return {
            "name": settings.pop("name"),
            "id": graph.id,
            "settings": settings,
            "nodes": progress.pop("n_nodes"),
            **progress,
            "epsilon_asked": graph.settings.epsilon,
            "labels_seq": graph.labels_seq,
            "features_version": graph.features_version,
            "created_at": graph.created_at,
        }

    @classmethod
    def of(cls, graph: GraphRecord) -> Self:
        """What people see of a graph."""
        return cls(**cls.values(graph))


class BacklogOut(_Output):
    """What waits to be ingested."""

    n_files: int
    n_bytes: int
    pushed_bytes: int


class CertificateOut(_Output):
    """The measured accuracy of a snapshot, from the extreme eigenvalues of L_H^+ L_G."""

    snapshot: int
    status: str = Field(description="Converged, max-passes, inexact or components-differ.")
    epsilon_certified: float | None = Field(
        description="Holds with the probability given; null where nothing can be certified."
    )
    epsilon_least: float | None = Field(description="No smaller epsilon holds.")
    ritz_min: float | None = Field(description="Inside the spectrum, as ritz_max.")
    ritz_max: float | None
    residual_min: float | None
    residual_max: float | None
    outer_min: float | None = Field(description="Outside the spectrum, as outer_max.")
    outer_max: float | None
    probability: float
    n_edges: int = Field(description="Raw edges.")
    n_passes: int
    seconds: float
    created_at: datetime

    @classmethod
    def of(cls, certificate: Certificate) -> Self:
        """What people see of a certificate."""
        created_at = datetime.fromtimestamp(certificate.created_at, UTC)
        return cls.model_validate({**asdict(certificate), "created_at": created_at})


class FeatureSetOut(_Output):
    """A set of features and what became of it."""

    id: str
    mode: SetMode = Field(description="Replaces all rows, or adds to them.")
    status: SetStatus
    kind: Literal["dense", "sparse"]
    n_rows: int
    n_columns: int = Field(description="Of sparse rows, one more than the largest index.")
    features_version: int | None = Field(description="What the set made; null until then.")
    n_new_nodes: int | None = Field(description="Nodes that came with it.")
    reason: str | None = Field(description="The rule that a refused set breaks.")
    row: int | None = Field(description="The row that breaks it, from 0.")
    value: str | None = Field(description="What stands there.")
    created_at: datetime
    finished_at: datetime | None

    @classmethod
    def of(cls, record: FeatureSetRecord) -> Self:
        """What people see of a set."""
        kind = "sparse" if record.is_sparse else "dense"
        return cls.model_validate({**asdict(record), "kind": kind})


class FeaturesOut(_Output):
    """The features of a graph."""

    features_version: int = Field(description="0 before the first set.")
    kind: Literal["dense", "sparse"] | None
    n_rows: int = Field(description="Nodes that have a row.")
    n_columns: int | None
    n_missing: int = Field(description="Nodes that have none.")
    n_pending: int = Field(description="Sets that wait for ingest.")
    refused: FeatureSetOut | None = Field(description="The last set, if it was refused.")

    @classmethod
    def of(cls, status: FeaturesStatus) -> Self:
        """What people see of them."""
        present = status.present
        return cls(
            features_version=status.features_version,
            kind=None if present is None else "sparse" if present.is_sparse else "dense",
            n_rows=0 if present is None else present.n_rows,
            n_columns=None if present is None else present.n_columns,
            n_missing=status.n_missing,
            n_pending=status.n_pending,
            refused=None if status.refused is None else FeatureSetOut.of(status.refused),
        )


class GraphDetails(GraphOut):
    """A graph with the state of its files, its features and its newest certificate."""

    epsilon_certified: float | None = Field(
        description="Of the newest snapshot that was certified: see certificate."
    )
    certificate: CertificateOut | None = Field(description="Says which snapshot it is of.")
    features: FeaturesOut
    backlog: BacklogOut
    files: dict[FileStatus, int] = Field(description="Files by status.")


class GraphList(_Output):
    """All graphs, by name."""

    graphs: list[GraphOut]


class FileOut(_Output):
    """One version of a file and what became of it; pushes are gathered into files too."""

    id: int
    source_id: str | None
    push_id: str | None
    path: str
    size: int = Field(description="Bytes.")
    status: FileStatus
    reason: str | None = Field(description="The rule that a quarantined file breaks.")
    row: int | None = Field(description="The row that breaks it, from 0.")
    value: str | None = Field(description="What stands there.")
    n_rows: int | None
    n_self_loops: int | None
    created_at: datetime
    finished_at: datetime | None

    @classmethod
    def of(cls, file: FileRecord) -> Self:
        """What people see of a file."""
        return cls.model_validate(replace(file, path=shown_url(file.path)))


class FilePage(_Output):
    """Part of a manifest, oldest first."""

    files: list[FileOut]
    next_page: str | None = Field(description="For ?page=; null on the last one.")


class PushOut(_Output):
    """Edges that are on disk, and how far they are."""

    id: str
    n_rows: int
    n_bytes: int = Field(description="Of the block on disk.")
    idempotency_key: str | None
    status: FileStatus
    file: FileOut | None = Field(
        description="What it was gathered into with its neighbors; null before that."
    )

    @classmethod
    def of(cls, push: PushRecord) -> Self:
        """What people see of a push."""
        return cls(
            id=push.id,
            n_rows=push.n_rows,
            n_bytes=push.n_bytes,
            idempotency_key=push.idempotency_key,
            status=push.status,
            file=None if push.file is None else FileOut.of(push.file),
        )


class SourceIn(_Input):
    """A place to read edges from."""

    url: Annotated[str, StringConstraints(min_length=1)] = Field(
        description="Absolute path of a file or directory, a glob, or an fsspec URL.",
        examples=["/data/edges/*.parquet", "s3://bucket/edges/"],
    )
    follow: bool = Field(False, description="Look for new files until the source is removed.")


class SourceOut(_Output):
    """A source, its files by status, and what the last try to list or read it came to."""

    id: str
    url: str = Field(description="Without password and signature.")
    follow: bool
    created_at: datetime
    listed_at: datetime | None = Field(description="When ingest last listed it.")
    error: str | None = Field(description="Why the last try failed; it is tried again.")
    error_at: datetime | None
    n_failures: int = Field(description="Tries that failed since the last success.")
    files: dict[FileStatus, int]

    @classmethod
    def of(cls, source: SourceRecord, files: dict[FileStatus, int]) -> Self:
        """What people see of a source."""
        values = asdict(source)
        del values["graph_id"]
        return cls(**values | {"url": shown_url(source.url)}, files=files)


class SourceList(FilePage):
    """The sources of a graph, and part of its manifest."""

    sources: list[SourceOut]


class RetryOut(_Output):
    """How many files wait to be read again."""

    n_files: int


class LabelIn(_Input):
    """A node and its label: a class, or a real number for ``target=real``."""

    node: NodeIn
    label: int | str | float


class LabelsIn(_Input):
    """Labels to put; of a node named twice the later one holds."""

    labels: list[LabelIn]


class LabelsOut(_Output):
    """What became of labels."""

    labels_seq: int = Field(description="Number of the graph's last label event, with these.")
    accepted: int
    refused: list[str] = Field(description="Always empty: when one is refused, the answer is 422.")

    @classmethod
    def of(cls, receipt: LabelReceipt) -> Self:
        """What people see of a receipt."""
        return cls(
            labels_seq=receipt.labels_seq, accepted=receipt.accepted, refused=list(receipt.refused)
        )


class SolveIn(Solve):
    """A job that predicts labels."""

    kind: Literal["solve"] = "solve"

    def to_spec(self, graph_id: str, idempotency_key: str | None) -> JobSpec:
        """The same for the queue."""
        return JobSpec(
            graph_id=graph_id,
            kind=self.kind,
            model=self.model,
            parameters=self.parameters,
            lane=lane_of(self.model, self.parameters),
            idempotency_key=idempotency_key,
        )


class TuneIn(_Input):
    """A job that chooses hyperparameters by cross-validation over the labels."""

    kind: Literal["tune"]
    model: str = Field(examples=["lapsvm"])
    parameters: dict[str, Any] = Field(
        {},
        description="grid: lists of values by hyperparameter, the model's own where left out; "
        "folds: at least 2, 5 where left out; and hyperparameters that stay as they are.",
        examples=[{"grid": {"norm_penalty": [0.1, 0.01], "graph_penalty": [1, 0.1]}}],
    )

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        validate_tune(self.model, self.parameters)
        return self

    def to_spec(self, graph_id: str, idempotency_key: str | None) -> JobSpec:
        """The same for the queue."""
        return JobSpec(
            graph_id=graph_id,
            kind=self.kind,
            model=self.model,
            parameters=self.parameters,
            lane="heavy",
            idempotency_key=idempotency_key,
        )


class EstimateOut(_Output):
    """What a solve on the newest snapshot and the present features would take."""

    model: str
    input: str = Field(description="graph, features, or what serves in their place.")
    snapshot: int
    features_version: int = Field(description="0 where no features are used.")
    n_nodes: int
    n_edges: int
    n_points: int | None = Field(description="Nodes that take part, for models of points.")
    n_features: int | None = Field(description="Numbers of each.")
    gram: str | None = Field(description="Form of the Gram matrix; null where none fits.")
    precision: str | None
    gram_bytes: int | None = Field(description="Memory of it and of what is factored.")
    n_bytes: int | None = Field(description="Memory of the process, about; null as gram is.")
    limit_bytes: int = Field(description="What it may take.")
    fits: bool = Field(description="Whether the job would be taken.")
    message: str | None = Field(description="Why not, and what would do.")
    seconds: float | None = Field(
        description="What the last equal job took; null where there was none."
    )
    seconds_job: str | None = Field(description="That job.")
    seconds_snapshot: int | None = Field(description="What it solved.")


class CertifyParameters(_Input):
    """What to certify, and how hard to try; those left out take their defaults."""

    snapshot: int | None = Field(default=None, description="Number; the newest when left out.")
    passes: int = Field(default=_CERTIFY.passes, description="Most passes over the raw edges.")
    n_vectors: int = Field(default=_CERTIFY.n_vectors, description="Vectors of one pass.")
    gap: float = Field(
        default=_CERTIFY.gap,
        description="How far above the least possible epsilon is close enough.",
    )
    probability: float = Field(default=_CERTIFY.probability, description="Of the outer bounds.")
    seed: int = Field(default=_CERTIFY.seed, description="Draws the start.")


class CertifyIn(_Input):
    """A job that measures the accuracy of a snapshot against its raw edges."""

    kind: Literal["certify"]
    parameters: CertifyParameters = CertifyParameters()

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        validate_certify(self._given())
        return self

    def _given(self) -> dict[str, Any]:
        return self.parameters.model_dump(exclude_unset=True)

    def to_spec(self, graph_id: str, idempotency_key: str | None) -> JobSpec:
        """The same for the queue."""
        return JobSpec(
            graph_id=graph_id,
            kind=self.kind,
            model=None,
            parameters=self._given(),
            lane="heavy",
            idempotency_key=idempotency_key,
        )


class KnnParameters(_Input):
    """Which graph of nearest neighbors to make; those left out take their defaults."""

    k: int = Field(default=_KNN.k, description="Neighbors of each node.")
    weights: WeightName = Field(
        default=_KNN.weights,
        description="exp(-4 d^2 / d_k^2), exp(-d^2 / (2 width^2)) or 1, d the distance.",
    )
    symmetrize: Symmetrization = Field(
        default=_KNN.symmetrize,
        description="Weight of an edge by those of both directions, of which one may be 0.",
    )
    metric: Metric = Field(default=_KNN.metric, description="Distance of two nodes.")
    width: float | None = Field(
        default=None, description="Of heat weights; the mean length of the edges when left out."
    )
    method: Method = Field(
        default=_KNN.method, description="How to search; auto is exact where that is quick."
    )
    n_probes: int = Field(
        default=_KNN.n_probes, description="Cells that the approximate method looks at."
    )


class KnnIn(_Input):
    """A job that makes edges from features."""

    kind: Literal["knn"]
    parameters: KnnParameters = KnnParameters()

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        validate_knn(self._given())
        return self

    def _given(self) -> dict[str, Any]:
        return self.parameters.model_dump(exclude_unset=True)

    def to_spec(self, graph_id: str, idempotency_key: str | None) -> JobSpec:
        """The same for the queue."""
        return JobSpec(
            graph_id=graph_id,
            kind=self.kind,
            model=None,
            parameters=self._given(),
            lane="heavy",
            idempotency_key=idempotency_key,
        )


def _kind_of(body: Any) -> Any:
    """The kind of job that a body asks for; ``solve`` when it does not say."""
    return body.get("kind", "solve") if isinstance(body, dict) else "solve"


JobIn = Annotated[
    Annotated[SolveIn, Tag("solve")]
    | Annotated[TuneIn, Tag("tune")]
    | Annotated[CertifyIn, Tag("certify")]
    | Annotated[KnnIn, Tag("knn")],
    Discriminator(
        _kind_of,
        custom_error_type="kind",
        custom_error_message=f"kind must be one of {', '.join(KINDS)}",
    ),
]
"""A job to run."""


class JobOut(_Output):
    """A job at this moment."""

    id: str
    graph_id: str
    kind: str
    model: str | None
    parameters: dict[str, Any]
    status: JobStatus
    phase: str | None = Field(description="What it is doing.")
    progress: float | None = Field(description="Part of the phase that is done, in [0, 1].")
    cancel_requested: bool
    attempt: int
    idempotency_key: str | None
    snapshot: int | None = Field(description="What it works on, as the two that follow.")
    labels_seq: int | None
    features_version: int | None
    result: dict[str, Any] | None
    error: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @classmethod
    def of(cls, job: Job) -> Self:
        """What people see of a job."""
        return cls.model_validate(job)


class JobList(_Output):
    """Some jobs, newest first."""

    jobs: list[JobOut]
    next_page: str | None = Field(description="For ?page=; null on the last one.")


class PointIn(_Input):
    """A point: all of its numbers, or those that are not 0 and where they stand."""

    features: list[float] | None = None
    indices: list[int] | None = None
    values: list[float] | None = None


class PointsIn(_Input):
    """New points, all dense or all sparse."""

    points: list[PointIn]


class LookupIn(_Input):
    """Nodes to look up."""

    nodes: Annotated[list[NodeIn], Field(min_length=1, max_length=MAX_LOOKUP)]


class PredictionOut(_Output):
    """What is predicted for one node."""

    node: NodeIn = Field(description="A string where a float would not hold the integer.")
    label: int | str | float | None = Field(description="Null where no label reaches.")
    score: float = Field(description="Of the winner; of real targets the number predicted.")
    margin: float | None = Field(description="Winner minus runner-up; null of real targets.")
    reachable: bool
    variance: float | None = Field(description="Null unless the job was asked for it.")
    scores: dict[str, float] | None = Field(description="By class; null where there are many.")


class Provenance(_Output):
    """What predictions were made from."""

    job: str
    model: str
    snapshot: int
    labels_seq: int
    features_version: int
    solver_status: str
    refined: bool = Field(description="Whether scores are those of the full graph.")
    score: str = Field(description="How to read scores: probability, class score or value.")


class NodePrediction(Provenance):
    """The prediction of one node, with where it comes from."""

    prediction: PredictionOut

    @classmethod
    def of(cls, provenance: Provenance, prediction: Prediction) -> Self:
        """What people see of a prediction."""
        shown = PredictionOut.model_validate(prediction)
        return cls(**provenance.model_dump(), prediction=shown)


class LookupOut(Provenance):
    """The predictions of some nodes, with where they come from."""

    predictions: list[PredictionOut]
    newer: list[NodeIn] = Field(description="Nodes that came after the snapshot.")
    unknown: list[NodeIn] = Field(description="Nodes that the graph does not know.")

    @classmethod
    def of(cls, provenance: Provenance, lookup: Lookup) -> Self:
        """What people see of a lookup."""
        return cls(
            **provenance.model_dump(),
            predictions=[PredictionOut.model_validate(each) for each in lookup.predictions],
            newer=lookup.newer,
            unknown=lookup.unknown,
        )


class SnapshotOut(_Output):
    """Provenance of a snapshot."""

    number: int
    n_nodes: int
    edges_seen: int
    edges_kept: int
    self_loops: int
    epsilon_asked: float
    epsilon_expected: float
    note: str = Field(description="Why the accuracy is not the one asked; empty when it is.")
    n_files: int
    seed: int
    created_at: datetime
    certificate: CertificateOut | None = Field(description="Null until it is certified.")

    @classmethod
    def of(cls, meta: SnapshotMeta, certificate: Certificate | None) -> Self:
        """What people see of a snapshot."""
        return cls.model_validate(
            {
                **asdict(meta),
                "note": meta.note,
                "created_at": datetime.fromtimestamp(meta.created_at, UTC),
                "certificate": None if certificate is None else CertificateOut.of(certificate),
            }
        )


class SnapshotList(_Output):
    """The snapshots that are kept, newest first."""

    snapshots: list[SnapshotOut]


class ModelOut(_Output):
    """A model of the catalogue."""

    name: str
    description: str
    uses_features: bool = Field(
        description="Whether it takes node features; it works on a graph without them too."
    )
    parameters: dict[str, Any] = Field(description="JSON Schema of its hyperparameters.")
    options: dict[str, Any] = Field(
        description="JSON Schema of what else may stand among a job's parameters."
    )


class ModelList(_Output):
    """The catalogue."""

    models: list[ModelOut]


class Health(_Output):
    """The process answers."""

    status: Literal["ok"] = "ok"


class VersionOut(_Output):
    """What runs here."""

    name: Literal["lapwing"] = "lapwing"
    version: str
    api: Literal["v1"] = "v1"
