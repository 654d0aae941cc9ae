"""Paths of one graph: where each kind of its files lies."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPaths:
    """Paths of one graph, all below ``root``."""

    root: Path

    @property
    def nodes(self) -> Path:
        """Segments of the node index."""
        return self.root / "nodes"

    @property
    def pushes(self) -> Path:
        """Pushed blocks, one Parquet file each."""
        return self.root / "pushes"

    @property
    def uploads(self) -> Path:
        """Files sent by a page that wait for somebody to say what is in them."""
        return self.root / "uploads"

    @property
    def staging(self) -> Path:
        """Copies of files while they are read."""
        return self.root / "staging"

    @property
    def bad_rows(self) -> Path:
        """Reports of rows that were left out, one for each file of edges that had some."""
        return self.root / "bad_rows"

    @property
    def log(self) -> Path:
        """Log of all edges and deletes of the first relation, one file for each file of edges."""
        return self.relation_log(0)

    def relation_log(self, number: int) -> Path:
        """Log of one relation, counted from 0 in the order in which they came."""
        return self.root / ("log" if number == 0 else f"log-{number}")

    @property
    def checkpoints(self) -> Path:
        """Newest and clean checkpoint."""
        return self.root / "checkpoints"

    @property
    def snapshots(self) -> Path:
        """Published snapshots."""
        return self.root / "snapshots"

    @property
    def features(self) -> Path:
        """Published features of the nodes, a directory for each version."""
        return self.root / "features"

    @property
    def feature_sets(self) -> Path:
        """Sets of features that wait for ingest, one Arrow file each."""
        return self.root / "feature_sets"

    @property
    def knn(self) -> Path:
        """k-NN edges, one Parquet file for each run."""
        return self.root / "knn"

    @property
    def knn_work(self) -> Path:
        """k-NN lists while they are made, a directory for each attempt."""
        return self.root / "knn_work"

    @property
    def embedding(self) -> Path:
        """Node embedding of a snapshot, made on request."""
        return self.root / "embedding"

    @property
    def counts(self) -> Path:
        """Counts of what nodes send and receive, made for solves."""
        return self.root / "counts"

    @property
    def map(self) -> Path:
        """Map of a snapshot, made on request."""
        return self.root / "map"

    @property
    def filtered_features(self) -> Path:
        """Features smoothed along the edges, made on request, one file for each run."""
        return self.root / "filtered_features"

    @property
    def predictions(self) -> Path:
        """Prediction files."""
        return self.root / "predictions"


def bad_rows_name(digest: str) -> str:
    """Name of the report on the bad rows of the file with that digest."""
    return f"{digest.partition(':')[2]}.json"
