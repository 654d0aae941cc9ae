"""Oddities: what is told of edges that are taken, as something else may be meant."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from peewit.solvers.missing_words import DOUBTFUL_WORDS, SELDOM_NAMES
from peewit.streaming.edges.column_mapping import NO_COLUMN, EdgeColumns, bare_name, obvious_ends

_SHOWN: Final = 3

_UNSEEN: Final = r"^[\s\p{Z}\p{Cf}]+|[\s\p{Z}\p{Cf}]+$"
"""White space and characters that show nothing, as a byte order mark, at either end."""

_WEIGHTS: Final = frozenset(
    {"weights", "w", "wt", "edge_weight", "strength", "amount", "value", "count", "n", "n_times"}
)
"""What columns of weights are called, in small letters, beside ``weight``."""

_WITH_UNIT: Final = re.compile(
    rf"(weights?[\s_.:/(\[-].*)|(({'|'.join(_WEIGHTS - {'n'})})\s*[(\[/].*)", re.DOTALL
)
_TOTALS: Final = frozenset({"total", "subtotal", "grand total"})
_MARKS: Final = r"^[!-/:-@\[-`{-~]+$"
"""Ids without letter or digit."""


def odd_columns(
    names: Sequence[str],
    columns: EdgeColumns,
    values: Mapping[str, Sequence[str]] | None = None,
    *,
    as_weight: str = "say weight={!r}",
) -> list[str]:
    """What is to be told of the columns that a table has, and that nobody reads.

    ``values`` are the different ones of some that ask for no delete. ``as_weight`` says how a
    column is made the weight, for ``str.format``.
    """
    watched = columns.watched(names) if values is None else values
    told = [_changes_text(name, (values or {}).get(name, ())) for name in watched]
    if columns.weight == NO_COLUMN or columns.weight in names:
        return told
    if columns.src.startswith("#"):
        others = [name for name in names if name not in list(columns)]
        if others:
            told.append(
                f"column {others[0]} is not read, and every edge counts 1; "
                f"{as_weight.format(others[0])} where it is the weight"
            )
        return told
    like = [each for each in names if _is_like_weight(each) and each not in list(columns)]
    if like:
        told.append(
            f"column {like[0]!r} is passed over, and every edge counts 1; "
            f"{as_weight.format(like[0])} where it is the weight"
        )
    return told


def _is_like_weight(name: str) -> bool:
    small = bare_name(name)
    return small in _WEIGHTS or _WITH_UNIT.fullmatch(small) is not None


def _changes_text(column: str, values: Sequence[str]) -> str:
    more = f" and {len(values) - _SHOWN:,} more" if len(values) > _SHOWN else ""
    shown = f" ({', '.join(map(repr, values[:_SHOWN]))}{more})" if values else ""
    return (
        f"column {column!r} is passed over, as it asks for no delete in the first rows{shown}: "
        "every row counts as an edge"
    )


def ended_notes(ended: Mapping[str, int], what: str = "an edge") -> list[str]:
    """That columns nobody reads say of some rows, see `rows_ended`, that they hold no more."""
    return [
        f"column {name!r} is passed over, and says that "
        f"{'1 of the first rows does' if n_rows == 1 else f'{n_rows:,} of the first rows do'} not "
        f"hold any more: every row counts as {what}; take such rows out where they should not"
        for name, n_rows in ended.items()
    ]


def odd_first_row(src: pa.Array, dst: pa.Array) -> str | None:
    """That the first row of a table may name its columns once more, as two words above numbers."""
    if len(src) < 3 or len(src) != len(dst) or pa.types.is_integer(src.type):
        return None
    are_whole = [pc.match_substring_regex(ids, r"^-?[0-9]+$") for ids in (src, dst)]
    if any(whole[0].as_py() for whole in are_whole):
        return None
    if not all(pc.all(whole.slice(1)).as_py() for whole in are_whole):
        return None
    return (
        f"the first row is {src[0]}, {dst[0]}, and all others looked at are numbers; where it "
        "names the columns a second time, take it out"
    )


def shared_ids(
    columns: EdgeColumns, src: pa.Array, *others: pa.Array, how: str | None = None
) -> str | None:
    """That ids stand in two columns, and are one node; ``others`` may hold nulls.

    Columns that are obviously the two ends of one kind, as from and to, share their nodes.
    """
    names = columns.nodes
    if any(columns.kinds) or names[0].startswith("#") or obvious_ends(names[:2]) is not None:
        return None
    for name, ids in zip(names[1:], others, strict=True):
        common = src.filter(pc.is_in(src, value_set=ids.drop_null()))
        if len(common):
            return shared_text(common[0].as_py(), columns, names[0], f"in {name!r}", how=how)
    return None


def shared_text(
    node: object, columns: EdgeColumns, column: str, where: str, *, how: str | None = None
) -> str:
    """That a node of a column is elsewhere, too, and how to keep them apart."""
    option = "src"
    if columns.via:
        option = "entity" if column == columns.src else "via"
    way_out = how or f"as {option}='KIND:{column}'"
    return (
        f"{node} is in {column!r} and {where}: one node. Where these are things of different "
        f"kinds, name the kinds in a new graph, {way_out}"
    )


def doubtful_ids(ids: pa.ChunkedArray, own: pa.ChunkedArray | None = None) -> list[str]:
    """Ids of text that may stand for nothing or for sums, by their ``own`` part without a kind."""
    own = ids if own is None else own
    words = pa.array(sorted(DOUBTFUL_WORDS | SELDOM_NAMES | _TOTALS), own.type)
    is_doubtful = pc.or_(
        pc.is_in(pc.utf8_lower(own), value_set=words), pc.match_substring_regex(own, _MARKS)
    )
    return [str(each) for each in ids.filter(is_doubtful).to_pylist()]


def odd_ids(ids: pa.ChunkedArray) -> list[str]:
    """What is to be told of the writing of new ids of text."""
    return [
        *_number_notes(ids),
        *_spreadsheet_notes(ids),
        *_comment_notes(ids),
        *_unseen_notes(ids),
    ]


def _number_notes(ids: pa.ChunkedArray) -> list[str]:
    """That numbers are written as others are not: with .0, or with zeros before them."""
    notes = []
    floats = ids.filter(pc.ends_with(ids, ".0"))  # few: a pattern for all takes long
    floats = floats.filter(pc.match_substring_regex(floats, r"^-?[0-9]+\.0$"))
    if len(floats):
        whole = floats[0].as_py().partition(".")[0]
        notes.append(
            f"{_new_ids(len(floats))} written as {floats[0].as_py()}, as columns with gaps are: "
            f"{whole} is another node"
        )
    padded = ids.filter(pc.starts_with(ids, "0"))
    padded = padded.filter(pc.match_substring_regex(padded, "^0+[0-9]+$"))
    if len(padded):
        bare = pc.replace_substring_regex(padded, "^0+([0-9])", r"\1")
        twins = ids.filter(pc.is_in(ids, value_set=bare.combine_chunks()))
        if len(twins):
            notes.append(
                f"{_new_ids(len(twins))} written with zeros before them, too, the first "
                f"{twins[0].as_py()!r}: these are two nodes"
            )
    return notes


def _spreadsheet_notes(ids: pa.ChunkedArray) -> list[str]:
    """That numbers are rounded, or kept as text by marks, or have digits that look like others."""
    notes = []
    rounded = ids.filter(pc.match_substring(ids, "E+"))
    rounded = rounded.filter(pc.match_substring_regex(rounded, r"^-?[0-9]([.,][0-9]+)?E\+[0-9]+$"))
    if len(rounded):
        notes.append(
            f"{_new_ids(len(rounded))} written as {rounded[0].as_py()}, as spreadsheets round long "
            "numbers: ids that differ further back are one node"
        )
    marked = ids.filter(pc.or_(pc.starts_with(ids, "'"), pc.starts_with(ids, '="')))
    marked = marked.filter(pc.match_substring_regex(marked, r"""^('[0-9]+|="[^"]*")$"""))
    wide = ids.filter(pc.invert(pc.string_is_ascii(ids)))
    wide = wide.filter(pc.match_substring_regex(wide, "[\uff10-\uff19]"))
    for odd, how in (
        (marked, "with marks of spreadsheets that keep text"),
        (wide, "with full-width digits"),
    ):
        if len(odd):
            notes.append(
                f"{_new_ids(len(odd))} written {how}, the first {odd[0].as_py()!r}: without these "
                "it is another node"
            )
    return notes


def _comment_notes(ids: pa.ChunkedArray) -> list[str]:
    """That some ids begin as comments do, where most do not."""
    marked = ids.filter(pc.or_(pc.starts_with(ids, "#"), pc.starts_with(ids, "%")))
    if not 0 < 2 * len(marked) < len(ids):
        return []
    begin = "begins" if len(marked) == 1 else "begin"
    few = "1 new id" if len(marked) == 1 else f"{len(marked):,} new ids"
    return [f"{few} {begin} as comments do, the first {marked[0].as_py()!r}"]


def _unseen_notes(ids: pa.ChunkedArray) -> list[str]:
    """That ids begin or end with what nobody sees, or are composed as others are not."""
    is_plain = pc.and_(pc.string_is_ascii(ids), pc.equal(ids, pc.ascii_trim_whitespace(ids)))
    odd = ids.filter(pc.invert(is_plain))
    bare = pc.replace_substring_regex(pc.utf8_normalize(odd, "NFC"), _UNSEEN, "")
    unseen = odd.filter(pc.not_equal(odd, bare))
    if not len(unseen):
        return []
    text = (
        f"{_new_ids(len(unseen))} written with blanks, invisible characters or separate "
        f"accents, the first {unseen[0].as_py()!a}: without these it is another node"
    )
    return [text]


def _new_ids(number: int) -> str:
    return "1 new id is" if number == 1 else f"{number:,} new ids are"
