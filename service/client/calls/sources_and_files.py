"""Sources that ingest reads, and their files.

Written from `peewit.service.operations.sources_and_files`; `make generate` writes it anew.
"""

from collections.abc import Mapping
from typing import Literal

from peewit.service.client.call_steps import Call, Flow, Request, answered
from peewit.service.client.calls.common import get, pages, path, read, settled, until
from peewit.service.client.errors import Conflict
from peewit.service.wire.sources_and_pushes import (
    File,
    FilePage,
    FileStatus,
    Retry,
    Source,
    SourceList,
)


def add_source(
    graph: str,
    url: str,
    *,
    kind: str = "files",
    holds: Literal["edges", "labels", "features"] = "edges",
    label_column: str | None = None,
    start: str | int | None = None,
    follow: bool = False,
    columns: Mapping[str, str] | None = None,
    max_bad_rows: int | None = None,
    replaces: bool | None = None,
    again: bool | None = None,
) -> Call[Source]:
    """Have ingest read a source; one that is there already gets the new `follow`.

    It must lie where the server's settings allow it: PEEWIT_SOURCE_ROOTS, _SCHEMES and _HOSTS. One
    that holds labels needs the scope `label`, too.

    Parameters
    ----------
    graph : str
        Its name.
    url : str
        Absolute path of a file or directory, a glob, or an fsspec URL. A live source has the
        place that it names.
    kind : str, optional
        What is read: files, delta, iceberg, kafka.
    holds : Literal['edges', 'labels', 'features'], optional
        What the rows of a live source are; labels need a key that may label, too.
    label_column : str, optional
        The column of labels that labels go to; by default the one without a name.
    start : str or int, optional
        Where a live source begins: a version of a table, or, for a topic, earliest, latest or a
        time. By default it is read from its beginning, or from where it was.
    follow : bool, optional
        Look for new files until the source is removed.
    columns : Mapping[str, str], optional
        What its columns are called, where that is not as the graph says.
    max_bad_rows : int, optional
        Most rows of each file that may be left out because they break a rule.
    replaces : bool, optional
        Whether a file that changed takes the place of its earlier version.
    again : bool, optional
        Whether a file counts though its content came before by another path or door.

    Raises
    ------
    InvalidArgument
        A source added over HTTP names a place that it may not read.
    Conflict
        The graph has as many sources as it may have.
    """
    request = Request(
        method="POST",
        path=path("graphs", graph, "sources"),
        json={
            "url": url,
            "kind": kind,
            "holds": holds,
            "label_column": label_column,
            "start": start,
            "follow": follow,
            "columns": None if columns is None else dict(columns),
            "max_bad_rows": max_bad_rows,
            "replaces": replaces,
            "again": again,
        },
        is_repeatable=True,
    )
    return (yield from read(Source, request))


def sources(graph: str) -> Call[list[Source]]:
    """The sources, each with its files by status and its last error, and a page of the files."""
    return (yield from read(SourceList, get("graphs", graph, "sources", limit=1))).sources


def remove_source(graph: str, source_id: str) -> Call[None]:
    """Read nothing more from a source; what is committed stays, its refused files are forgotten.

    Parameters
    ----------
    graph : str
        Its name.
    source_id : str
        The `id` that adding it gave.

    Raises
    ------
    NotFound
        The graph has no source of this id, or it was removed.
    """
    request = Request(method="DELETE", path=path("graphs", graph, "sources", source_id))
    yield from answered(request)


def retry_source(graph: str, source_id: str) -> Call[int]:
    """Offer the quarantined files of a source again; try it at once if it could not be read.

    Parameters
    ----------
    graph : str
        Its name.
    source_id : str
        The `id` that adding it gave.

    Raises
    ------
    NotFound
        The graph has no source of this id, or it was removed.
    """
    request = Request(
        method="POST",
        path=path("graphs", graph, "sources", source_id, verb="retry"),
        is_repeatable=True,
    )
    return (yield from read(Retry, request)).n_files


def files(graph: str, *, status: FileStatus | None = None) -> Flow[File]:
    """The files of a graph, pushes included, oldest first: committed, or quarantined and why.

    Parameters
    ----------
    graph : str
        Its name.
    status : FileStatus, optional
        Only files that stand so.
    """
    return pages(FilePage, lambda page: page.files, "graphs", graph, "files", status=status)


def file(graph: str, file_id: int, *, wait: float | None = 0.0) -> Call[File]:
    """One file; `wait` can wait until it waits for ingest no more.

    Parameters
    ----------
    graph : str
        Its name.
    file_id : int
        The `id` of the file, as the list tells.
    wait : float or None
        Longest wait for the end, in seconds; None for ever.

    Raises
    ------
    NotFound
        The graph's manifest has no file of this id.
    """
    return (yield from until(File, get("graphs", graph, "files", file_id), seconds=wait))


def retract_file(
    graph: str, file_id: int, inserts_only: bool = False, *, wait: float | None = 0.0
) -> Call[File]:
    """Retract a file: its edges leave the graph, and one that waits is left out.

    Whoever ingests the graph does it. The file itself is not touched, and does not come again until
    its content changes or somebody asks for it.

    Parameters
    ----------
    graph : str
        Its name.
    file_id : int
        The `id` of the file, as the list tells.
    inserts_only : bool, optional
        Let edges stay deleted that the file deleted or set.
    wait : float or None
        Longest wait for the end, in seconds; None for ever.

    Raises
    ------
    NotFound
        The graph's manifest has no file of this id.
    Conflict
        The file is not in the graph, or cannot be taken out of it.
    """
    request = Request(
        method="DELETE",
        path=path("graphs", graph, "files", file_id),
        params={"inserts_only": inserts_only},
        is_repeatable=True,
    )
    return (
        yield from settled(
            File,
            request,
            lambda first: get("graphs", graph, "files", first.id),
            seconds=wait,
            refused=(Conflict, "File cannot be retracted"),
        )
    )


def retry_file(graph: str, file_id: int, *, wait: float | None = 0.0) -> Call[File]:
    """Offer a file again that is quarantined, or was retracted and has no newer version.

    Parameters
    ----------
    graph : str
        Its name.
    file_id : int
        The `id` of the file, as the list tells.
    wait : float or None
        Longest wait for the end, in seconds; None for ever.

    Raises
    ------
    NotFound
        The graph's manifest has no file of this id.
    """
    request = Request(
        method="POST",
        path=path("graphs", graph, "files", file_id, verb="retry"),
        is_repeatable=True,
    )
    return (
        yield from settled(
            File, request, lambda first: get("graphs", graph, "files", first.id), seconds=wait
        )
    )
