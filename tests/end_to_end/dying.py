"""A process that writes a graph and is killed at a given line of it.

`python -m tests.end_to_end.dying WORK NAME HOME:LINE...` forks a child for each home, which brings
in features, erases nodes or reads live sources. The child counts the lines it runs of the modules
that do so, and ends itself by SIGKILL at that number; one that comes to the end first prints how
many there were.
"""

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from peewit.service.catalog import Catalog
from peewit.service.database.engine import open_database
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.settings import Settings

STREAM = (
    "service/ingest/ingestor.py",
    "service/ingest/open_graph.py",
    "streaming/snapshots/checkpoints.py",
    "streaming/durable_files.py",
    "streaming/features/store.py",
    "streaming/nodes/index.py",
    "streaming/graph_stream.py",
    "streaming/stream/absorption.py",
    "streaming/stream/commitment.py",
    "streaming/stream/publication.py",
    "streaming/snapshots/store.py",
)
WATCHED = {
    "features": (*STREAM, "service/ingest/feature_commit.py", "service/inbox/feature_log.py"),
    "erasures": (
        *STREAM,
        "service/ingest/erased_traces.py",
        "service/ingest/erasing.py",
        "service/inbox/leaving/erased_rows.py",
        "service/inbox/leaving/erasures.py",
        "service/predictions/prediction_files.py",
        "service/predictions/store.py",
        "streaming/nodes/segments.py",
    ),
    "reading": (
        "service/inbox/file_outcomes.py",
        "service/inbox/live_intakes.py",
        "service/inbox/live_positions.py",
        "service/inbox/live_reader.py",
        "service/inbox/push_log.py",
        "service/inbox/source_store.py",
        "service/ingest/ingestor.py",
        "service/live_sources/delta.py",
        "service/live_sources/delta_log.py",
        "streaming/durable_files.py",
    ),
}
"""By what is done, the modules whose lines count."""


def write(work: str, name: str, home: Path, line: int) -> None:
    """Commit, erase or read what waits; die at the line."""
    settings = Settings(home=home, threads=1)
    database = open_database(settings.database)
    graph_id = Catalog(database).get(name).id
    n_lines = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal n_lines
        if not frame.f_code.co_filename.endswith(WATCHED[work]):
            return None
        if event == "line":
            n_lines += 1
            if n_lines == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    ingestor = Ingestor(database, settings)
    with ingestor.open_graph(graph_id, should_stop=lambda: False) as graph:
        sys.settrace(trace)
        if work == "reading":
            ingestor.read_live(graph_id)
        elif work == "features":
            graph.commit_features()
        else:
            graph.ingest_pending()
        sys.settrace(None)
    sys.stdout.write(f"{n_lines}\n")
    sys.stdout.flush()


def main() -> None:
    """Fork a child for each home."""
    work, name, *points = sys.argv[1:]
    for point in points:
        home, _, line = point.rpartition(":")
        child = os.fork()
        if child == 0:
            write(work, name, Path(home), int(line))
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
