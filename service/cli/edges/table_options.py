"""Options of tables of edges: what their columns mean, and how files are read."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from peewit.service.cli.labels.table_files import DstOption, QuoteOption, SrcOption
from peewit.service.cli.option_groups import OptionGroup
from peewit.service.cli.session import given
from peewit.service.graphs.directed_relations import directed_relation
from peewit.streaming.edges.reading_options import MissingIds
from peewit.streaming.edges.time_units import TimeUnit


def _column(what: str) -> Any:
    return typer.Option(metavar="COLUMN", help=what)


@dataclass(frozen=True, kw_only=True)
class EdgeColumns(OptionGroup):
    """What a table of edges says by its columns."""

    src: SrcOption = None
    dst: DstOption = None
    weight: Annotated[str | None, _column("Column of the weight.")] = None
    op: Annotated[str | None, _column("Column that says insert, delete or set.")] = None
    time: Annotated[str | None, _column("Column of the time, in graphs with a window.")] = None
    relation: Annotated[
        str | None, typer.Option(metavar="NAME", help="Kind of edges that all rows are of.")
    ] = None
    directed: Annotated[
        bool,
        typer.Option(
            "--directed",
            help="The edges of --relation go from src to dst: see `graph set --directed`.",
        ),
    ] = False
    relation_column: Annotated[str | None, _column("Column of the kind of edges of each row.")] = (
        None
    )
    src_kind_column: Annotated[
        str | None, _column("Column of the kind of the node at one end of each row.")
    ] = None
    dst_kind_column: Annotated[
        str | None, _column("Column of the kind of that at the other end.")
    ] = None
    entity: Annotated[
        str | None, _column("Column that --via joins with others, as KIND:COLUMN.")
    ] = None
    via: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN,...",
            help="Columns of events, instead of --src and --dst: --entity is joined with each by a "
            "kind of edges of its name.",
        ),
    ] = None
    time_unit: Annotated[
        TimeUnit | None,
        typer.Option(
            help="What times that are numbers count: s, ms, us or ns; by default seconds, which "
            "must lie between 1990 and the end of next year.",
        ),
    ] = None
    time_format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            help="How times are written, as strptime has it: %Y%m%d for 20260301.",
        ),
    ] = None
    quote: QuoteOption = None
    missing_ids: Annotated[
        MissingIds | None,
        typer.Option(
            help="Ids that are words for nothing, as NULL and NA: refuse the file, or keep them.",
        ),
    ] = None

    def named(self) -> dict[str, Any]:
        """What was said, but for the direction."""
        return {name: value for name, value in given(**vars(self)).items() if name != "directed"}

    def directed_relation(self) -> str | None:
        """The relation of which was said that its edges go one way."""
        return directed_relation(self.relation, is_directed=self.directed)


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
