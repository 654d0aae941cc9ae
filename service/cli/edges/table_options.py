"""Options of commands that bring edges, beside what their columns are called."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from peewit.service.cli.option_groups import OptionGroup
from peewit.service.cli.session import given

DirectedOption = Annotated[
    bool,
    typer.Option(
        "--directed", help="The edges of --relation go from src to dst: see `graph set --directed`."
    ),
]


@dataclass(frozen=True, kw_only=True)
class FileRules(OptionGroup):
    """What a source does with its files."""

    skip_bad_rows: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Leave out up to N bad rows of each file, and report them; 0 takes it back.",
        ),
    ] = None
    replace: Annotated[
        bool | None,
        typer.Option(
            "--replace/--no-replace",
            help="Whether a file that changed takes the place of its earlier version; kept with "
            "the source.",
            show_default=False,
        ),
    ] = None
    again: Annotated[
        bool | None,
        typer.Option(
            "--again/--once",
            help="Whether a file counts though its content came before by another path or door; "
            "kept with the source.",
            show_default=False,
        ),
    ] = None

    def said(self) -> dict[str, Any]:
        """What was said, in the words of sources."""
        return given(max_bad_rows=self.skip_bad_rows, replaces=self.replace, again=self.again)
