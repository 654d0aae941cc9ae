"""Labels of nodes: put, read, taken back; and their columns.

Written from `peewit.service.operations.labels`; `make generate` writes it anew.
"""

import pyarrow as pa

from peewit.service.client.call_steps import Call, Request
from peewit.service.client.calls.common import get, path, read
from peewit.service.client.calls.downloads import table_of
from peewit.service.wire.labels import LabelColumn, LabelColumnList


def labels(graph: str, *, label_column: str | None = None) -> Call[pa.Table]:
    """The present label of every labeled node.

    Parameters
    ----------
    graph : str
        Its name.
    label_column : str, optional
        A named column of labels; the one without a name otherwise.

    Returns
    -------
    pyarrow.Table
        Columns `node` and `label`, or that of `label_column`, ready to be put again. Also
        `origin`, where each label comes from, `annotator`, who has given it, and `key`, the
        name of the key that signed so.

    Raises
    ------
    NotFound
        No label was ever given in the column.
    """
    return (yield from table_of(get("graphs", graph, "labels", label_column=label_column)))[0]


def label_columns(graph: str) -> Call[list[LabelColumn]]:
    """The columns in which labels were given, with how many nodes have one."""
    request = Request(
        method="GET", path=path("graphs", graph, "labels", verb="columns"), is_repeatable=True
    )
    return (yield from read(LabelColumnList, request)).label_columns


def opinions(
    graph: str, *, withdrawn: bool = False, label_column: str | None = None
) -> Call[pa.Table]:
    """What each person has said of nodes that several people have labeled.

    Parameters
    ----------
    graph : str
        Its name.
    withdrawn : bool, optional
        Also those that count no longer.
    label_column : str, optional
        A named column of labels; the one without a name otherwise.

    Returns
    -------
    pyarrow.Table
        Columns `node`, `annotator`, `key`, `label` (as JSON), `at` and `withdrawn_at`, of nodes
        that several people have labeled.
    """
    request = get("graphs", graph, "opinions", withdrawn=withdrawn, label_column=label_column)
    return (yield from table_of(request))[0]
