"""How many kills does the service survive? All processes, and PostgreSQL, under load.

`python -m docs.benchmarks.crashes --database postgresql --kills 100 --seed 1` prints what was
killed, what clients were promised and whether it was kept. Exit 1 on a violation; home and logs
then stay where it says.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from docs.benchmarks.frame import options
from tests.end_to_end.crashing.run import Plan, crash


def main() -> None:
    asked = options(
        __doc__,
        quick={"kills": 10},
        database=("sqlite", ("sqlite", "postgresql")),
        kills=100,
        seconds=(float, "end after so long, with fewer kills"),
        seed=0,
        serve=(False, "kill `peewit serve` itself"),
        deletes=(False, "edges, files and nodes leave, too"),
    )
    directory = Path(tempfile.mkdtemp(prefix="peewit-crashes-"))
    plan = Plan(
        database=asked.database,
        seed=asked.seed,
        n_kills=asked.kills,
        seconds=asked.seconds,
        is_supervised=asked.serve,
        deletes=asked.deletes,
    )
    report = crash(plan, directory, say=lambda line: print(line, file=sys.stderr, flush=True))  # noqa: T201 - progress
    print(report.summary())  # noqa: T201 - the answer
    if report.violations:
        print(report.evidence())  # noqa: T201 - what is needed to look into it
        sys.exit(1)
    shutil.rmtree(directory)


if __name__ == "__main__":
    main()
