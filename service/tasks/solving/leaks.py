"""Features that give the label away, looked for once labels and features are both there."""

import numpy as np

from peewit.service.labels.feature_leaks import leak_of
from peewit.service.tasks.labels_task import LabelsTask
from peewit.service.tasks.warm_graphs import WarmGraph, table_rows
from peewit.solvers.labels import Labels, RealLabels
from peewit.solvers.models.contract.model import Model
from peewit.streaming.features.store import FeatureStore
from peewit.streaming.graph_paths import GraphPaths

_MOST_ROWS = 10_000


def told_leaks(
    task: LabelsTask, graph: WarmGraph, model: Model, labels: Labels | RealLabels
) -> tuple[str, ...]:
    """A warning of columns that give the classes away, where the model takes features.

    Sparse rows are looked at where they were made from columns of any kind.
    """
    if not (model.uses_features and task.features_version and isinstance(labels, Labels)):
        return ()
    meta = FeatureStore(GraphPaths(root=task.graph_directory).features).meta(task.features_version)
    rows, _ = table_rows(task, graph)
    if rows is None or (rows.is_sparse and meta.encoding is None):
        return ()
    nodes, places = labels.nodes, labels.nodes
    if rows.nodes is not None:
        nodes, places, _ = np.intersect1d(rows.nodes, nodes, return_indices=True)
    nodes, places = nodes[:_MOST_ROWS], places[:_MOST_ROWS]
    values = rows.take(places)
    classes = labels.classes[np.searchsorted(labels.nodes, nodes)]
    leak = leak_of(meta, values.toarray() if rows.is_sparse else values, classes)
    return () if leak is None else (f"{leak}, and put the features again",)
