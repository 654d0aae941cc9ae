"""Files of a place that commands take, with a line for each that is passed over."""

from typing import Final

from peewit.service.cli.session import say
from peewit.service.redaction import shown_url
from peewit.streaming.edges.parts import EdgeFile
from peewit.streaming.edges.sources import EdgeFiles

_SHOWN: Final = 10


def listed(source: EdgeFiles) -> list[EdgeFile]:
    """The files of a source; those passed over are told on stderr."""
    files = source.list()
    for path in source.skipped_files[:_SHOWN]:
        say(f"passed over {shown_url(path)}: the name of a file must be UTF-8")
    if len(source.skipped_files) > _SHOWN:
        say(f"and {len(source.skipped_files) - _SHOWN:,} more such files")
    if unlike := source.unlike_tables:
        names = "1 file, whose name ends" if len(unlike) == 1 else f"{len(unlike):,} files"
        names = names if len(unlike) == 1 else f"{names}, whose names end"
        say(
            f"passed over {names} unlike those of tables: {shown_url(unlike[0])}; to read a "
            "file, name it itself"
        )
    return files
