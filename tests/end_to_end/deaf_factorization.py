"""`peewit` whose first thinning keeps the interpreter to itself for as long as a variable says.

``python -m tests.end_to_end.deaf_factorization ingest g edges`` computes for ``DEAF_SECONDS`` in
one C call, as the factorization of a large graph does: no other thread of the process runs
meanwhile. ``DEAF_LOG`` names a file that receives ``deaf`` when that begins, ``heard`` when it has
ended, and the rows of each group that is absorbed.
"""

import os
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any

from peewit.service.cli import main
from peewit.service.ingest.bookkeeping import Bookkeeper
from peewit.streaming.events import IngestEvent, Progress
from peewit.streaming.sparsifier.buffer_resistances import ResistanceSystem

LOG = Path(os.environ["DEAF_LOG"])
local_bounds, take = ResistanceSystem.local_bounds, Bookkeeper.take


def note(line: object) -> None:
    with LOG.open("a") as file:
        file.write(f"{line}\n")


@cache
def be_deaf() -> None:
    """Compute and hold the interpreter's lock: any, map and iter call C functions alone."""
    note("deaf")
    until = monotonic() + float(os.environ["DEAF_SECONDS"])
    any(map(until.__le__, iter(monotonic, None)))
    note("heard")


def slow_local_bounds(self: ResistanceSystem) -> Any:
    be_deaf()
    return local_bounds(self)


def noting_take(self: Bookkeeper, event: IngestEvent) -> None:
    if isinstance(event, Progress):
        note(event.n_rows)
    take(self, event)


if __name__ == "__main__":
    ResistanceSystem.local_bounds = slow_local_bounds
    Bookkeeper.take = noting_take
    main()
