"""Exit 0 when a server of this container answers 200, else 1 with what it says.

    python3 -IS healthcheck.py PORT PATH [COMMAND...]

The command decides instead where no answer comes in time: a long factorization keeps ingest from
answering, not from working. This runs every half minute for as long as the container does, so
that it loads the standard library alone.
"""

import os
import sys
from http.client import HTTPConnection, HTTPException

TIMEOUT_SECONDS = 4.0


def main(port: str, path: str, *command: str) -> int:
    """Ask once; the exit code."""
    try:
        connection = HTTPConnection("127.0.0.1", int(port), timeout=TIMEOUT_SECONDS)
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode()
    except (OSError, HTTPException) as error:
        if isinstance(error, TimeoutError) and command:
            os.execvp(command[0], command)  # noqa: S606 - the words of the compose file
        text = str(error)
    else:
        if answer.status == 200:
            return 0
    sys.stderr.write(f"{port}{path}: {text}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
