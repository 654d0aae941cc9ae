"""A home as version 0.1 of November 2026 stored it, before deletions were off or exact alone.

`home.zip` holds its database and its graphs as these commands left them::

    graph create friends --deletions exact --seed 1
    graph create plain --seed 2
    graph create recent --window 30d --seed 3
    graph create visits --deletions approximate --seed 4
    graph create calls --window 30d --deletions off --seed 5
    ingest mon.csv into friends, plain, visits; march.csv into recent, calls
    delete ann bob from friends and visits
"""

from pathlib import Path
from zipfile import ZipFile

_HOME = Path(__file__).parent / "home.zip"

MONDAY = "src,dst\nann,bob\nbob,cay\ncay,dan\ndan,eve\n"
"""What mon.csv held."""


def unpack(directory: Path) -> None:
    """Put the home into a directory."""
    with ZipFile(_HOME) as packed:
        packed.extractall(directory)
