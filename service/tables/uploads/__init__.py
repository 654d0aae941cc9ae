"""Uploads: tables that people send, in any `Format`; errors name the row.

Edges, features and new points come out as Arrow batches, which `read_columns` of edges and
`read_features` check by the data contract; labels are few and come out as Python values. Nothing
here knows the graph's nodes.
"""

from peewit.service.tables.uploads.batches import (
    decoding_bytes,
    edge_batches,
    feature_batches,
    json_point_batches,
    point_batches,
)
from peewit.service.tables.uploads.faults import TableTooLarge
from peewit.service.tables.uploads.label_columns import LabelColumns
from peewit.service.tables.uploads.labels import (
    LabelValue,
    UploadedLabels,
    json_labels,
    read_labels,
    read_nodes,
)
from peewit.service.tables.uploads.limits import UploadLimits
from peewit.streaming.edges.bad_table import BadUpload
from peewit.streaming.edges.node_ids import NodeId, id_type, node_array, node_id

__all__ = [
    "BadUpload",
    "LabelColumns",
    "LabelValue",
    "NodeId",
    "TableTooLarge",
    "UploadLimits",
    "UploadedLabels",
    "decoding_bytes",
    "edge_batches",
    "feature_batches",
    "id_type",
    "json_labels",
    "json_point_batches",
    "node_array",
    "node_id",
    "point_batches",
    "read_labels",
    "read_nodes",
]
