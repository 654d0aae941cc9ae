"""`peewit mcp`: tools for agents."""

import os
import sys
from typing import Annotated

import anyio
import typer

from peewit.service.cli.session import command_group
from peewit.service.settings import Settings
from peewit.solvers.extras import how_to_install

app = command_group()


@app.command()
def mcp(
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help=(
                "Address of a Peewit server, which gets the key of PEEWIT_API_KEY; "
                "PEEWIT_URL by default, else the home of this machine."
            ),
        ),
    ] = None,
) -> None:
    """Serve tools for agents by the Model Context Protocol.

    An agent starts this command itself and speaks on its standard input and output. Without a
    server it works on PEEWIT_HOME as other commands do, within the scopes of the key of
    PEEWIT_API_KEY once the home has keys. Needs the extra mcp.
    """
    try:
        from peewit.service.mcp.server import serve  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        raise RuntimeError(f"peewit mcp needs the SDK mcp; {how_to_install('mcp')}") from error
    if None in (sys.stdin, sys.stdout):
        raise RuntimeError("peewit mcp must have standard input and output, as an agent gives them")
    try:
        anyio.run(serve, url or os.environ.get("PEEWIT_URL") or None, Settings())
    except BaseExceptionGroup as group:
        raise _single(group) from None


def _single(error: BaseException) -> BaseException:
    """The error in a group of one, in which tasks raise it, such as that nobody reads any more."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
