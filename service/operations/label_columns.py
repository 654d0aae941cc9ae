"""Columns of labels: of each node at most one label in each."""

from peewit.service.catalog import GraphRecord
from peewit.service.operations.answers import answer_of
from peewit.service.operations.declaration import operation
from peewit.service.operations.here import Here
from peewit.service.wire.labels import LabelColumn, LabelColumnList


@operation("GET /labels:columns", "read", client="label_columns", items="label_columns")
def list_label_columns(here: Here, graph: GraphRecord) -> LabelColumnList:
    """The columns in which labels were given, with how many nodes have one; reads all labels."""
    found = here.home.labels.described_columns(graph.id)
    return LabelColumnList(label_columns=[answer_of(LabelColumn, each) for each in found])
