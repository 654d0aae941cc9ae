"""What options of `peewit try` say of tables, in place of what is guessed of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from peewit.service.cli.option_groups import OptionGroup
from peewit.service.first_look.changed_tables import as_changed
from peewit.service.first_look.changes import USES, TableChange
from peewit.service.first_look.columns import TableLook
from peewit.solvers.arguments import BadArgument

_OF_COLUMN = "Begin with FILE: to mean one table."


@dataclass(frozen=True, kw_only=True)
class TableOptions(OptionGroup):
    """What tables are, where it is not as guessed."""

    use: Annotated[
        list[str] | None,
        typer.Option(
            "--use",
            metavar="COLUMN=USE",
            help=f"What a column is for: {', '.join(USES)}. {_OF_COLUMN}",
        ),
    ] = None
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            metavar="COLUMN=KIND",
            help=f"What the ids of a column name, as account or card. {_OF_COLUMN}",
        ),
    ] = None
    relation: Annotated[
        list[str] | None,
        typer.Option("--relation", metavar="FILE=NAME", help="Kind of the edges of a table."),
    ] = None
    directed: Annotated[
        list[str] | None,
        typer.Option("--directed", metavar="FILE", help="A table whose edges go one way."),
    ] = None
    undirected: Annotated[
        list[str] | None,
        typer.Option("--undirected", metavar="FILE", help="A table whose edges have no direction."),
    ] = None
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            metavar="LENGTH",
            help="Edges live so long by their times, as 90d; else for ever.",
        ),
    ] = None

    def applied(self, tables: Sequence[TableLook]) -> list[TableLook]:
        """The tables as they are said to be; raises BadArgument where they cannot be so."""
        changes = [TableChange()] * len(tables)
        for place, column, use in _of_columns("use", self.use, tables):
            if use not in USES:
                raise BadArgument("use", f"must be one of {', '.join(USES)}, got {use!r}")
            uses = {**changes[place].uses, column: use}
            changes[place] = replace(changes[place], uses=uses)
        for place, column, kind in _of_columns("kind", self.kind, tables):
            kinds = {**changes[place].kinds, column: kind}
            changes[place] = replace(changes[place], kinds=kinds)
        for said in self.relation or ():
            file, _, name = said.rpartition("=")
            place = _place("relation", file, tables)
            changes[place] = replace(changes[place], relation=name)
        for argument, files in (("directed", self.directed), ("undirected", self.undirected)):
            for file in files or ():
                place = _place(argument, file, tables)
                changes[place] = replace(changes[place], is_directed=argument == "directed")
        return [as_changed(table, each) for table, each in zip(tables, changes, strict=True)]


def _of_columns(
    argument: str, said: Sequence[str] | None, tables: Sequence[TableLook]
) -> Iterator[tuple[int, str, str]]:
    """Places of tables, columns, and what is said of these; without a file of all such columns."""
    for each in said or ():
        name, _, value = each.rpartition("=")
        found = [
            (place, column)
            for place, table in enumerate(tables)
            if (column := name.removeprefix(f"{table.path.name}:")) in table.columns
        ]
        if not found:
            names = dict.fromkeys(name for table in tables for name in table.columns)
            rule = f"must read COLUMN={argument.upper()} or FILE:COLUMN={argument.upper()}"
            raise BadArgument(argument, f"{rule} of the columns {', '.join(names)}, got {each!r}")
        yield from ((place, column, value) for place, column in found)


def _place(argument: str, file: str, tables: Sequence[TableLook]) -> int:
    """The place of a table among others, by the name of its file."""
    files = [table.path.name for table in tables]
    if file not in files:
        raise BadArgument(argument, f"must name one of the files {', '.join(files)}, got {file!r}")
    return files.index(file)
