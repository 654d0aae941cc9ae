"""How many kills does the service survive? All processes, and PostgreSQL, under load.

`python -m docs.benchmarks.crashes --database postgresql --kills 100 --seed 1` prints what was
killed, what clients were promised and whether it was kept. Exit 1 on a violation; home and logs
then stay where it says.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.end_to_end.crashing.run import Plan, crash


def main() -> None:
    """Read the options, run, tell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seconds", type=float, help="end after so long, with fewer kills")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--serve", action="store_true", help="kill `peewit serve` itself")
    parser.add_argument("--deletes", action="store_true", help="edges, files and nodes leave, too")
    parser.add_argument("--quick", action="store_true", help="10 kills")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="peewit-crashes-"))
    plan = Plan(
        database=options.database,
        seed=options.seed,
        n_kills=10 if options.quick else options.kills,
        seconds=options.seconds,
        is_supervised=options.serve,
        deletes=options.deletes,
    )
    report = crash(plan, directory, say=lambda line: print(line, file=sys.stderr, flush=True))  # noqa: T201 - progress
    print(report.summary())  # noqa: T201 - the answer
    if report.violations:
        print(report.evidence())  # noqa: T201 - what is needed to look into it
        sys.exit(1)
    shutil.rmtree(directory)


if __name__ == "__main__":
    main()
