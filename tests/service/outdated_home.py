"""A home in which two graphs are stored with settings that there are no more."""

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
from sqlalchemy import update

from peewit.service.database.tables import graphs
from peewit.service.graph_settings import GraphSettings
from peewit.streaming.edges.column_mapping import CHANGES
from peewit.streaming.edges.windows import Window
from tests.service.places import Place

MONDAY: Final = "src,dst\nann,bob\nbob,cay\ncay,dan\ndan,eve\n"
_MARCH: Final = "src,dst,time\nann,bob,2026-03-01\nbob,cay,2026-03-20\ncay,dan,2026-04-03\n"
_WINDOW: Final = Window.of(2_592_000.0, buckets=30)
_MADE_WITH: Final[dict[str, dict[str, Any]]] = {
    "friends": {"deletions": "exact"},
    "plain": {},
    "recent": {"deletions": "exact", "window": _WINDOW},
    "visits": {"deletions": "exact"},
    "calls": {"deletions": "exact", "window": _WINDOW},
}
_STORED: Final = {"visits": "approximate", "calls": "off"}
"""Deletions of the outdated graphs, which no graph can be made with now."""


def copy_to(directory: Path) -> None:
    """Put the home into a directory."""
    shutil.copytree(Path(_made().name, "home"), directory, dirs_exist_ok=True)


def monday_file() -> Path:
    """The file of `MONDAY`, which the home has ingested."""
    return Path(_made().name, "mon.csv")


@cache
def _made() -> TemporaryDirectory[str]:
    """The home that is copied, beside the files it has ingested, until the process ends."""
    directory = TemporaryDirectory()
    monday, march = (Path(directory.name, name) for name in ("mon.csv", "march.csv"))
    monday.write_text(MONDAY)
    march.write_text(_MARCH)
    place = Place(Path(directory.name, "home"))
    for seed, (name, settings) in enumerate(_MADE_WITH.items(), start=1):
        graph = place.catalog.create(GraphSettings(name=name, seed=seed, **settings))
        place.manifest.sources.add(graph.id, str(march if "window" in settings else monday))
        place.ingest(name)
    for name in ("friends", "visits"):
        pair = pa.table({"src": ["ann"], "dst": ["bob"], "op": ["delete"]})
        place.push(name, pair, columns=CHANGES)
        place.ingest(name)
    for name, deletions in _STORED.items():
        with place.database.write() as connection:
            connection.execute(
                update(graphs).where(graphs.c.name == name).values(deletions=deletions)
            )
    place.database.close()
    return directory
