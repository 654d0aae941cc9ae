"""Feature intake: an uploaded table of features, looked through and then taken."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.served_home import ServedHome
from peewit.service.catalog import GraphRecord
from peewit.service.dashboard.column_choices import FeatureChoice
from peewit.service.dashboard.label_intake import head_of
from peewit.service.dashboard.uploads import Upload
from peewit.service.inbox.feature_log import FeatureSetRecord
from peewit.service.inbox.feature_tables import table_blocks
from peewit.service.inbox.typed_graphs import as_typed, typed_graph
from peewit.service.labels.feature_leaks import leaks_note
from peewit.service.tables.column_names import column_wishes
from peewit.service.tables.table_heads import TableHead
from peewit.service.tables.uploads import TableTooLarge
from peewit.streaming.edges.bad_table import BadTable
from peewit.streaming.edges.node_kinds import named_column
from peewit.streaming.features.checked_tables import FeatureBlock
from peewit.streaming.features.encoding import EncodedColumn, Encoding
from peewit.streaming.features.feature_files import set_owners, write_set

_UNKNOWN_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureReport:
    """What a table of features holds, and what became of its columns."""

    n_rows: int = 0
    n_features: int = 0
    columns: Sequence[EncodedColumn] = ()  # empty of lists, and of numbers alone
    names: Sequence[str] | None = None  # of numbers that stay as they are
    left_out: Sequence[str] = ()
    n_unknown: int = 0  # nodes that the graph does not know
    unknown: Sequence[str | int] = ()  # the first of these
    doubts: str = ""  # columns that describe no node
    leaks: str | None = None  # columns that give the label away
    refusal: str | None = None  # why the table would not be taken


def proposal(
    upload: Upload,
    graph: GraphRecord,
    home: ServedHome,
    choice: FeatureChoice,
    *,
    last: Mapping[str, str],
) -> tuple[TableHead, FeatureChoice]:
    """Head of a table, and the choice of its columns, proposed where none is made."""
    head = head_of(upload, home, is_data=False, quote=None)
    if choice.node:
        return head, choice
    return head, FeatureChoice.proposed(head, graph, home.nodes, last=last)


def look(
    upload: Upload, graph: GraphRecord, home: ServedHome, choice: FeatureChoice
) -> FeatureReport:
    """What would be taken of a table; reads all of it."""
    if choice.node_kind and graph.settings.node_ids != "typed":
        graph = as_typed(graph)
    own_label = graph.settings.columns.get("label", "label")
    with TemporaryDirectory(dir=upload.path.parents[1]) as directory:
        path = Path(directory) / "looked-at.arrow"
        try:
            blocks = _blocks(upload, graph, home, choice)
            shape = write_set(path, blocks, own_labels=[own_label])
        except (BadTable, TableTooLarge) as error:
            return FeatureReport(refusal=str(error))
        encoding = None if shape.encoding is None else Encoding.from_json(shape.encoding)
        understood = "" if encoding is None else encoding.note()
        n_unknown, unknown = _unknown(path, graph, home)
        return FeatureReport(
            n_rows=shape.n_rows,
            n_features=shape.n_columns,
            columns=() if encoding is None else encoding.columns,
            names=shape.names,
            left_out=() if encoding is None else encoding.left_out,
            n_unknown=n_unknown,
            unknown=unknown,
            doubts=(shape.note or "").removeprefix(understood).removeprefix("; "),
            leaks=leaks_note(home.labels, graph, path, shape),
        )


def take(
    upload: Upload,
    graph: GraphRecord,
    home: ServedHome,
    choice: FeatureChoice,
    *,
    owner: str | None,
) -> FeatureSetRecord:
    """The set of a table, whose file is removed.

    Raises BadFeatures, BadUpload, TableTooLarge, BacklogFull and InvalidArgument as ``PUT
    /v1/graphs/{g}/features`` does.
    """
    home.features.require_room(graph.id)
    with refusing():
        graph = typed_graph(home.database, graph, {"node": choice.node_kind})
    blocks = _blocks(upload, graph, home, choice)
    record = home.features.add(graph, blocks, mode=choice.mode, owner=owner)
    upload.remove()
    return record


def _blocks(
    upload: Upload, graph: GraphRecord, home: ServedHome, choice: FeatureChoice
) -> Iterator[FeatureBlock]:
    with upload.opened() as file:
        yield from table_blocks(
            graph,
            file,
            upload.table_format,
            node=named_column(choice.node_kind, choice.node),
            encoding=home.features.encoding(graph) if choice.mode == "add" else None,
            wishes=column_wishes(choice.text or None, choice.without or None, choice.missing_ids),
            limits=home.upload_limits,
        )


def _unknown(path: Path, graph: GraphRecord, home: ServedHome) -> tuple[int, Sequence[str | int]]:
    """Number of the nodes that the graph does not know, and the first of them."""
    n_unknown = 0
    first: list[str | int] = []
    for nodes, _ in set_owners(path):
        unknown = np.flatnonzero(~home.nodes.knows(graph, nodes))
        n_unknown += unknown.size
        some = unknown[: _UNKNOWN_SHOWN - len(first)]
        first += nodes.take(pa.array(some)).to_pylist()
    return n_unknown, first
