"""Columns that say which relation each row of a table belongs to."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.solvers.missing_words import MISSING_WORDS
from peewit.solvers.relations.relation_names import MOST_RELATIONS, NAME_RULE, is_relation_name
from peewit.streaming.edges.blocks import BadEdges, excerpt
from peewit.streaming.edges.plain_types import plain_column
from peewit.streaming.edges.relations import UNNAMED


def read_relations(
    column: pa.Array | pa.ChunkedArray, name: str, first_row: int, *, keeps_missing: bool
) -> pa.DictionaryArray:
    """(n_rows,) strings, the relation of each row.

    Where words for nothing are kept, an empty one is the unnamed relation. Raises `BadEdges` where
    the column holds no text or whole numbers, a row names no relation, or there are too many
    different ones.
    """
    column = plain_column(column)
    kind = column.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (is_text or pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise BadEdges(
            f"column {name!r} must hold names of relations as text or whole numbers, got type "
            f"{excerpt(kind)}",
            argument=name,
        )
    encoded = column.cast(pa.string()).dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    values = encoded.dictionary.to_pylist()
    if len(values) > MOST_RELATIONS:
        raise too_many_relations(name)
    is_name = [
        value == UNNAMED or is_relation_name(value)
        if keeps_missing
        else is_relation_name(value) and value.lower() not in MISSING_WORDS
        for value in values
    ]
    if encoded.null_count or not all(is_name):
        is_good = pc.fill_null(pa.array([*is_name, False]).take(encoded.indices), False)
        row = int(np.argmin(is_good.to_numpy(zero_copy_only=False)))
        value = encoded[row].as_py()
        raise BadEdges(
            f"column {name!r} must name a relation in every row, which {NAME_RULE}",
            argument=name,
            row=first_row + row,
            value="null" if value is None else repr(excerpt(value)),
        )
    return encoded


def too_many_relations(name: str) -> BadEdges:
    """The refusal of a column with more different values than a graph has relations."""
    return BadEdges(
        f"column {name!r} must name at most {MOST_RELATIONS} relations, and has more values, "
        "as ids have; name the column that says of which kind each edge is",
        argument=name,
    )
