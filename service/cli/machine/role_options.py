"""Options of the commands that stay, and checks before they start."""

from typing import Annotated

import typer

from peewit.service.api.port import check_binding
from peewit.service.cli.session import open_home
from peewit.service.settings import Settings

Host = Annotated[str, typer.Option(help="Address to listen on; beyond loopback a key is needed.")]
Port = Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)]
Workers = Annotated[int, typer.Option(help="Processes of the API.", min=1)]
UntilStdinEnds = Annotated[bool, typer.Option("--until-stdin-ends", hidden=True)]
"""Given by the supervisor, so that a child ends when the supervisor does."""


def check_start(settings: Settings, host: str, port: int) -> None:
    """Open the stores once, and refuse an address that cannot be listened on."""
    with open_home(settings) as home:
        check_binding(host, port, settings=settings, database=home.database)
