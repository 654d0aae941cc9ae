"""Features of the nodes, and the sets that they came in.

Written from `peewit.service.operations.feature_sets`; `make generate` writes it anew.
"""

from pathlib import Path

import pyarrow as pa

from peewit.service.client.call_steps import Call, Flow
from peewit.service.client.calls.common import get, read, taken, until
from peewit.service.client.calls.downloads import batches_of, download, table_of
from peewit.service.client.errors import InvalidArgument
from peewit.service.wire.features import Features, FeatureSet


def features(graph: str) -> Call[Features]:
    """The present version of the features, how many nodes have none, and what waits."""
    return (yield from read(Features, get("graphs", graph, "features")))


def feature_set(graph: str, set_id: str, *, wait: float | None = 0.0) -> Call[FeatureSet]:
    """One set and what became of it; `wait` can wait until it is pending no more.

    A key that must not read sees its own.

    Parameters
    ----------
    graph : str
        Its name.
    set_id : str
    wait : float or None
        Longest wait for the end, in seconds; None for ever.

    Raises
    ------
    NotFound
        The graph has no set of features of this id, or it ended long ago and was forgotten.
    InvalidArgument
        Features break a rule of the data contract; nothing of their set is taken.
    """
    return taken(
        (
            yield from until(
                FeatureSet, get("graphs", graph, "features", "sets", set_id), seconds=wait
            )
        ),
        (InvalidArgument, "Features break the contract"),
    )


def filtered_features(graph: str, *, job: str | None = None) -> Call[pa.Table]:
    """Features of all nodes, smoothed along the edges by a job of kind `filter`.

    Parameters
    ----------
    graph : str
        Its name.
    job : str, optional
        Those of this job, else those of the last.

    Returns
    -------
    pyarrow.Table
        Columns `node` and `features`, a list of each; in CSV and NDJSON `f0`, `f1`, ... for its
        numbers. Headers name job, snapshot and features_version.

    Raises
    ------
    JobNotFound
        No job has this id.
    NotFound
        No version of this number is kept.
    """
    return (yield from table_of(get("graphs", graph, "features", "filtered", job=job)))[0]


def stream_filtered_features(graph: str, *, job: str | None = None) -> Flow[pa.RecordBatch]:
    """`filtered_features` a batch at a time; see `stream_predictions`."""
    return batches_of(get("graphs", graph, "features", "filtered", job=job))


def download_filtered_features(
    graph: str, target: Path | str, *, table_format: str | None = None, job: str | None = None
) -> Call[Path]:
    """`filtered_features` in a file; see `download_predictions`."""
    request = get("graphs", graph, "features", "filtered", job=job)
    return (yield from download(request, target, table_format))
