"""Graphs, their settings and their snapshots."""

from dataclasses import MISSING, asdict, fields, replace
from datetime import UTC, datetime
from typing import Any, Self

from pydantic import Field, model_validator

from peewit.service.api.schemas.base import Answer, Body
from peewit.service.api.schemas.features import FeaturesOut
from peewit.service.api.schemas.jobs import Solve
from peewit.service.catalog import AutoSolve, GraphRecord, GraphSettings, SnapshotEvery
from peewit.service.inbox.records import FileStatus
from peewit.streaming.edges.blocks import NodeKind
from peewit.streaming.passes.certificate import Certificate
from peewit.streaming.snapshots.store import SnapshotMeta

_DEFAULTS = {
    each.name: each.default for each in fields(GraphSettings) if each.default is not MISSING
}


class SnapshotEveryIn(Body):
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


class _GraphFields(Body):
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


class SettingsOut(Answer):
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


class GraphOut(Answer):
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


class BacklogOut(Answer):
    """What waits to be ingested."""

    n_files: int
    n_bytes: int
    pushed_bytes: int


class CertificateOut(Answer):
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


class GraphDetails(GraphOut):
    """A graph with the state of its files, its features and its newest certificate."""

    epsilon_certified: float | None = Field(
        description="Of the newest snapshot that was certified: see certificate."
    )
    certificate: CertificateOut | None = Field(description="Says which snapshot it is of.")
    features: FeaturesOut
    backlog: BacklogOut
    files: dict[FileStatus, int] = Field(description="Files by status.")


class GraphList(Answer):
    """All graphs, by name."""

    graphs: list[GraphOut]


class SnapshotOut(Answer):
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


class SnapshotList(Answer):
    """The snapshots that are kept, newest first."""

    snapshots: list[SnapshotOut]
