"""Columns of labels: of each node at most one label in each.

Written from `peewit.service.operations.label_columns`; `make generate` writes it anew.
"""

from peewit.service.client.call_steps import Call, Request
from peewit.service.client.calls.common import path, read
from peewit.service.wire.labels import LabelColumn, LabelColumnList


def label_columns(graph: str) -> Call[list[LabelColumn]]:
    """The columns in which labels were given, with how many nodes have one; reads all labels."""
    request = Request(
        method="GET", path=path("graphs", graph, "labels", verb="columns"), is_repeatable=True
    )
    return (yield from read(LabelColumnList, request)).label_columns
