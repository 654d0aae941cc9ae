"""Opinions as a table for other programs."""

import json
from collections.abc import Iterator, Sequence

import pyarrow as pa

from peewit.service.labels.opinions import Opinion
from peewit.service.tables.formats import encode
from peewit.service.tables.uploads import id_type
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.table_formats import Format


def encode_opinions(
    opinions: Sequence[Opinion], node_kind: NodeKind, table_format: Format
) -> Iterator[bytes]:
    """A table of ``node``, ``annotator``, ``key``, ``label`` as JSON, ``at``, ``withdrawn_at``."""
    time = pa.timestamp("ms", "UTC")
    nodes = pa.array([each.node for each in opinions], pa.large_string())
    labels = [json.dumps(each.label, ensure_ascii=False) for each in opinions]
    table = pa.table(
        {
            "node": nodes.cast(id_type(node_kind)),
            "annotator": pa.array([each.annotator for each in opinions], pa.string()),
            "key": pa.array([each.key for each in opinions], pa.string()),
            "label": pa.array(labels, pa.string()),
            "at": pa.array([each.at for each in opinions], time),
            "withdrawn_at": pa.array([each.withdrawn_at for each in opinions], time),
        }
    )
    return encode(table.schema, table.to_batches(), table_format)
