"""Kinds of live sources by name; the module of a kind is imported when first used."""

from dataclasses import dataclass
from importlib import import_module
from typing import Final

from peewit.service.live_sources.contract import Access, LiveSource, Position
from peewit.service.live_sources.node_columns import HOLDS, NodeColumns
from peewit.service.tables.uploads.label_columns import COLUMN_NAME_RULE, is_column_name
from peewit.solvers.arguments import BadArgument
from peewit.solvers.extras import how_to_install
from peewit.streaming.edges.column_mapping import EdgeColumns

FILES: Final = "files"
"""The kind of sources that list files; no live source."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Module and class of a kind, and the extra of the package that it needs."""

    module: str
    name: str
    extra: str


KINDS: Final[dict[str, Kind]] = {
    "delta": Kind("peewit.service.live_sources.delta", "DeltaSource", "delta"),
    "iceberg": Kind("peewit.service.live_sources.iceberg", "IcebergSource", "iceberg"),
    "kafka": Kind("peewit.service.live_sources.kafka", "KafkaSource", "kafka"),
}


def require_kind(name: str) -> None:
    """Raise ValueError unless there are sources of this kind."""
    if name != FILES and name not in KINDS:
        raise BadArgument("kind", f"must be one of {', '.join((FILES, *KINDS))}, got {name!r}")


def require_holding(kind: str, holds: str, label_column: str | None) -> None:
    """Raise ValueError unless a source of this kind can hold such rows."""
    if holds not in HOLDS:
        raise BadArgument("holds", f"must be one of {', '.join(HOLDS)}, got {holds!r}")
    if kind == FILES and holds != "edges":
        call = "labels put" if holds == "labels" else "features"
        raise BadArgument(
            "holds",
            f"must be edges for a source of files, got {holds!r}: put them by `peewit {call}`, or "
            f"have them read from a live source, {' or '.join(KINDS)}",
        )
    if label_column is None:
        return
    if holds != "labels":
        raise BadArgument(
            "label_column", f"must be left out for a source of {holds}, got {label_column!r}"
        )
    if not is_column_name(label_column):
        raise BadArgument("label_column", f"{COLUMN_NAME_RULE}, got {label_column!r}")


def start_of(
    kind: str, url: str, columns: EdgeColumns | NodeColumns, start: str | None
) -> Position | None:
    """The position named for a new source; None where none is named.

    Raises ValueError where there can be no such source or no such position.
    """
    if kind == FILES:
        if start is not None:
            raise BadArgument("start", f"must be left out for a source of files, got {start!r}")
        return None
    live = live_source(kind)
    live.open(Access(url=url, columns=columns, takes_changes=False)).close()
    return None if start is None else live.start(start)


def live_source(name: str) -> type[LiveSource]:
    """The class of a kind.

    Raises ValueError for an unknown kind, or where a package that it needs is not installed.
    """
    require_kind(name)
    kind = KINDS[name]
    try:
        module = import_module(kind.module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("peewit."):
            raise
        raise BadArgument(
            "kind",
            f"{name!r} needs the package {error.name}, which is not installed; "
            + how_to_install(kind.extra),
        ) from error
    source: type[LiveSource] = getattr(module, kind.name)
    return source
