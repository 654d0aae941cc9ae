"""Columns of edge tables, checked against the data contract.

``read_columns`` is the only gate through which edges enter, whatever brought them (files, pushes).
It copies nothing that already has the right type. Reading threads run it, so that little is left to
the one thread that maps blocks in order.
"""

from contextlib import suppress
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.solvers.arrays import (
    AnyArray,
    BoolArray,
    Float32Array,
    Int32Array,
    Int64Array,
    IntArray,
    UInt8Array,
    frozen,
)
from peewit.solvers.missing_words import MISSING_WORDS
from peewit.streaming.edges.blocks import (
    MAX_NODE_BYTES,
    MAX_NODES,
    BadEdges,
    RawBlock,
    excerpt,
    unit_weights,
)
from peewit.streaming.edges.change_columns import may_be_changes, require_no_deletes
from peewit.streaming.edges.column_mapping import PLAIN, EdgeColumns
from peewit.streaming.edges.node_ids import id_type, named_ids
from peewit.streaming.edges.node_kinds import KIND, TEXT, NodeKind
from peewit.streaming.edges.operations import DELETE, read_operations, without_deleted_weights
from peewit.streaming.edges.plain_types import PERIOD, plain_column, text_bytes
from peewit.streaming.edges.reading_options import NodelessRows
from peewit.streaming.edges.relations.columns import read_relations
from peewit.streaming.edges.times import read_times
from peewit.streaming.kernels.block_columns import GREATEST_WEIGHT, narrow_ids, survey_edges

_MAX_INT64 = 2**63 - 1
MAX_EXACT: Final = 2.0**53 - 1.0
"""Greatest float that no other whole number is rounded to."""
_STRINGS = (pa.string(), pa.large_string(), pa.string_view())
_WORDS = pa.array(sorted(MISSING_WORDS))
_WHOLE_KIND = rf"\A(?:{KIND.pattern})\z"
_WORD_LENGTHS = min(map(len, MISSING_WORDS)), max(map(len, MISSING_WORDS))
_WAY_OF_WORDS = (
    "say missing_ids='keep' where they are ids, or leave such rows of a file out with max_bad_rows"
)
_BEGINS_WORD = np.isin(
    np.arange(256), [ord(c) for w in MISSING_WORDS for c in (w[0], w[0].upper())]
)


def read_columns(
    table: pa.Table | pa.RecordBatch,
    *,
    node_kind: NodeKind,
    max_nodes: int,
    columns: EdgeColumns = PLAIN,
    first_row: int = 0,
    is_owned: bool = False,
    knows_src: bool = False,
) -> RawBlock:
    """Columns of an edge table, checked against the data contract.

    The weights are 1.0 where their column is missing. ``max_nodes`` bounds dense ids; the other
    kinds meet it when they are mapped. Errors count rows of the file from ``first_row``. The block
    shares the table's memory wherever the types allow; with ``is_owned`` the table was made for
    this call alone, and the block may be overwritten. Where the caller ``knows_src``, of a table of
    events, that column is not looked at.

    `BadEdges` tells the first row that breaks the contract.
    """
    known = [columns.src, columns.src_kind_column] if knows_src else []
    columns.check([*table.schema.names, *filter(None, known)])
    keeps = columns.missing_ids == "keep"
    ends = list(zip(columns.nodes, columns.kinds, columns.kind_columns, strict=True))
    for name, _, _ in ends[knows_src:]:
        _require_no_periods(table.schema.field(name))
    nodes = [
        (_cells if columns.has_cells and number else _ids)(
            *(table.column(name), name, node_kind, first_row),
            keeps_missing=keeps,
            of_kind=kind if column is None else _kinds(table.column(column), column, first_row),
        )
        for number, (name, kind, column) in list(enumerate(ends))[knows_src:]
    ]
    others = nodes if knows_src else nodes[1:]
    if columns.has_cells and node_kind == "dense":
        for cells, name in zip(others, columns.nodes[1:], strict=True):
            _check_range(pc.fill_null(cells, 0).to_numpy(), name, (0, max_nodes - 1), first_row)
    if knows_src:
        src, dst = pa.nulls(table.num_rows), others[0]
        is_empty = np.array(dst.is_null()) if dst.null_count else None
    else:
        src = nodes[0]
        dst, is_empty = _filled(others[0], src)
    relation = None
    if columns.relation_column is not None:
        name = columns.relation_column
        relation = read_relations(table.column(name), name, first_row, keeps_missing=keeps)
    op = None
    if columns.op is not None and columns.op in table.schema.names:
        op = read_operations(table.column(columns.op), columns.op, first_row)
    for name in columns.beside(table.schema.names):
        if may_be_changes(table.column(name), name):
            check_valid(table.column(name), name, first_row)
            way = columns.way_of_deletes(name)
            require_no_deletes(table.column(name), name, first_row, way=way)
    time = None
    if columns.time is not None:
        is_free = None if op is None else op == DELETE
        times = pa.nulls(table.num_rows)
        if columns.time in table.schema.names:
            times = table.column(columns.time)
            check_valid(times, columns.time, first_row)
        time = read_times(
            times,
            columns.time,
            columns.time_unit,
            first_row,
            is_free=is_free,
            time_format=columns.time_format,
        )
    exact, weight = None, unit_weights(len(src))
    if columns.weight in table.schema.names:
        weights = table.column(columns.weight)
        if op is not None:
            weights = without_deleted_weights(weights, op)
        exact = _weights(weights, columns.weight, first_row, is_owned=is_owned)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            weight = exact.astype(np.float32, copy=False)
    block = RawBlock(
        src=src,
        dst=dst,
        weight=weight,
        first_row=first_row,
        is_owned=is_owned,
        op=op,
        time=time,
        relation=relation,
        cells=tuple(others) if columns.has_cells else (),
    )
    if is_empty is not None:
        is_counted = is_empty & (weight != 0) & (op != DELETE)
        block = replace(block, n_empty=int(np.count_nonzero(is_counted)))
    if node_kind != "dense":
        has_zero_weights = _check_weights(exact, weight, columns.weight, first_row)
        return replace(block, has_zero_weights=has_zero_weights)
    limits = (0, max_nodes - 1)
    u, v = (
        _narrow(ids, name, limits, first_row)
        for ids, name in zip((src, dst), columns.nodes[:2], strict=True)
    )
    with np.errstate(over="ignore"):  # uncompiled kernels: numpy warns where integers wrap
        greatest_id, greatest_weight, n_self_loops = survey_edges(_bits(u), _bits(v), _bits(weight))
    has_zero_weights = False
    if greatest_id >= max_nodes or greatest_weight > GREATEST_WEIGHT:
        for ids, name in zip((src, dst), columns.nodes[:2], strict=True):
            _check_range(ids.to_numpy(), name, limits, first_row)
        has_zero_weights = _check_weights(exact, weight, columns.weight, first_row)
    return replace(
        block,
        src=u,
        dst=v,
        greatest_id=int(greatest_id) if len(u) else -1,
        n_self_loops=int(n_self_loops),
        has_zero_weights=has_zero_weights,
    )


def _kinds(column: pa.Array | pa.ChunkedArray, name: str, first_row: int) -> pa.Array:
    """The kind of each row's node; raises BadEdges where one is none, or a word for nothing."""
    check_valid(column, name, first_row)
    kinds = _contiguous(plain_column(column))
    if kinds.type not in _STRINGS:
        kinds = kinds.cast(pa.string())  # which then is no kind
    is_kind = are_kinds(kinds)
    if not is_kind.all():
        row = int(np.argmin(is_kind))
        raise BadEdges(
            f"column {name!r} must name a kind of nodes in every row: 1 to 63 of A-Z, a-z, "
            "0-9, '_' and '-', with a letter or '_' first",
            argument=name,
            row=first_row + row,
            value="null" if kinds[row].as_py() is None else repr(excerpt(kinds[row].as_py())),
        )
    return kinds


def are_kinds(texts: pa.Array) -> BoolArray:
    """(n_texts,) which texts may be kinds of nodes; words for a missing value are none."""
    is_kind = np.array(pc.fill_null(pc.match_substring_regex(texts, _WHOLE_KIND), False))
    return is_kind & ~_are_words(texts)


def _require_no_periods(field: pa.Field) -> None:
    """Raise BadEdges where ids are periods of pandas, also where no reader knows these."""
    said = (field.metadata or {}).get(b"ARROW:extension:name", b"").decode()
    if PERIOD in (said, getattr(field.type, "extension_name", "")):
        raise BadEdges(
            f"column {field.name!r} must hold ids, not periods of pandas, which are stored as "
            "numbers; write them as text: .astype(str)",
            argument=field.name,
        )


def _cells(
    column: pa.Array | pa.ChunkedArray,
    name: str,
    node_kind: NodeKind,
    first_row: int,
    *,
    keeps_missing: bool,
    of_kind: str | pa.Array,
) -> pa.Array:
    """Node ids of one column of events, null where a cell is empty; else as of `_ids`."""
    check_valid(column, name, first_row)
    if node_kind in TEXT:
        _check_lengths(column, name, first_row)
    column = _contiguous(plain_column(column))
    is_empty = empty_cells(column, keeps_missing=keeps_missing)
    if is_empty.all():
        return pa.nulls(len(column), id_type(node_kind))
    if is_empty.any():  # any id in their place passes the checks of the others
        column = pc.if_else(pa.array(is_empty), column[int(np.argmin(is_empty))], column)
    ids = _ids(column, name, node_kind, first_row, keeps_missing=keeps_missing, of_kind=of_kind)
    if is_empty.any():
        ids = pc.if_else(pa.array(is_empty), pa.scalar(None, ids.type), ids)
    return ids


def empty_cells(column: pa.Array, *, keeps_missing: bool) -> BoolArray:
    """(n_rows,) where a column of plain type holds nothing, or a word that means that."""
    is_empty = np.array(pc.is_null(column, nan_is_null=True))
    if column.type in _STRINGS and len(column):
        ends, content = text_bytes(column)
        is_empty |= ends[1:] == ends[:-1]
        if not keeps_missing:
            is_empty[_rows_of_words(column, content, ends)] = True
    return is_empty


def _rows_of_words(ids: pa.Array, content: UInt8Array, ends: IntArray) -> Int64Array:
    """Rows with words for a missing value; most others are told by length and first byte."""
    lengths = ends[1:] - ends[:-1]
    shortest, longest = _WORD_LENGTHS
    rows = np.flatnonzero((lengths >= shortest) & (lengths <= longest))
    rows = rows[_BEGINS_WORD[content[ends[rows]]]]
    return rows[_are_words(ids.take(pa.array(rows)))] if rows.size else rows


def _are_words(ids: pa.Array) -> BoolArray:
    """(n_ids,) which ids are words for a missing value."""
    is_word = pc.is_in(pc.utf8_lower(ids), value_set=_WORDS.cast(ids.type))
    return np.array(is_word)


def _filled(ids: pa.Array, src: pa.Array) -> tuple[pa.Array, BoolArray | None]:
    """Ids with those of the other end where they are null, and where that is; None for nowhere."""
    if not ids.null_count:
        return ids, None
    is_empty = np.array(ids.is_null())
    if is_empty.all():
        return src, is_empty
    if pa.types.is_integer(ids.type):
        return pc.fill_null(ids.cast(pa.int64()), src.cast(pa.int64(), safe=False)), is_empty
    if src.type != ids.type or src.nbytes + ids.nbytes > MAX_NODES:  # see `_contiguous`
        src, ids = src.cast(pa.large_string()), ids.cast(pa.large_string())
    return pc.if_else(pa.array(is_empty), src, ids), is_empty


def node_ids(column: pa.Array | pa.ChunkedArray, *, node_kind: NodeKind, name: str) -> pa.Array:
    """One contiguous array of node ids, nulls kept: strings, or integers of any type.

    Decimals and floats are integers where they are whole. Raises TypeError where the type does not
    fit ``node_kind``, and `BadEdges` with the row where a number is not whole.
    """
    column = plain_column(column)
    kind = column.type
    if node_kind in TEXT and not (node_kind == "typed" and _is_number(kind)):
        if kind not in _STRINGS:
            way = "write them as text"
            if _is_number(kind):
                way = "a graph of integers is created with node_ids='int64'"
            elif pa.types.is_null(kind):
                way = "every cell is null"
            rule = f"must hold strings in this graph, got type {excerpt(kind)}; {way}"
            raise TypeError(f"column {name!r} {rule}")
        return _contiguous(column)
    if pa.types.is_decimal(kind) or pa.types.is_floating(kind):
        return whole_numbers(_contiguous(column), name)
    if not pa.types.is_integer(kind):
        raise TypeError(
            f"column {name!r} must hold integers in a graph of {node_kind} ids, "
            f"got type {excerpt(kind)}"
        )
    return _contiguous(column)


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_floating(kind)
    )


def whole_numbers(column: pa.Array, name: str) -> pa.Array:
    """Whole decimals or floats as integers; floats only where they count exactly.

    Raises `BadEdges` with the first row, from 0, that holds another number.
    """
    is_float = pa.types.is_floating(column.type)
    most = MAX_EXACT if is_float else _MAX_INT64
    if not is_float or not pc.any(pc.greater(pc.abs(column.cast(pa.float64())), most)).as_py():
        with suppress(pa.ArrowInvalid):  # which row it is, is found below
            return column.cast(pa.int64())
    values = column.to_pylist()
    is_fitting = [v is None or (abs(v) <= most and v == int(v)) for v in values]
    if all(is_fitting):  # a decimal that Arrow does not cast
        return pa.array([None if v is None else int(v) for v in values], pa.int64())
    row = is_fitting.index(False)
    raise BadEdges(
        f"column {name!r} must hold 64-bit integers",
        argument=name,
        row=row,
        value=str(column[row].as_py()),
    )


def checked_ids(
    column: pa.Array | pa.ChunkedArray,
    *,
    name: str,
    node_kind: NodeKind,
    max_nodes: int,
    first_row: int = 0,
    of_kind: str = "",
    missing_ids: NodelessRows = "refuse",
) -> tuple[pa.Array, BoolArray]:
    """Node ids of one column that fulfil the data contract, and (n_rows,) which rows have one.

    ``max_nodes`` bounds dense ids; the other kinds meet it when they are mapped. In a typed graph
    the column's nodes are ``of_kind``, or it names the kind of each. Raises `BadEdges` where the
    type does not fit, an id is not UTF-8, too long or out of range, or one is missing that must
    not.
    """
    check_valid(column, name, first_row)
    if node_kind in TEXT:  # before a dictionary is decoded, which may multiply a long id
        _check_lengths(column, name, first_row)
    column = _contiguous(plain_column(column))
    is_missing = empty_cells(column, keeps_missing=False)
    if is_missing.any() and missing_ids == "refuse":
        row = int(np.argmax(is_missing))
        raise BadEdges(
            f"column {name!r} must name a node in every row, and {is_missing.sum():,} of the "
            f"{len(column):,} rows looked at name none; say missing_ids='leave-out' to leave such "
            "rows out",
            argument=name,
            row=first_row + row,
            value="null" if (value := column[row].as_py()) is None else repr(value),
        )
    rows = np.flatnonzero(~is_missing)
    if len(rows) < len(column):
        column = column.take(pa.array(rows))
    try:
        ids = _ids(column, name, node_kind, 0, keeps_missing=False, of_kind=of_kind)
        if node_kind == "dense":
            _check_range(ids.to_numpy(), name, (0, max_nodes - 1), 0)
            ids = pc.cast(ids, pa.int32())
    except BadEdges as error:
        if error.row is not None:
            error.row = first_row + int(rows[error.row])
        raise
    return ids, ~is_missing


def values_of(array: pa.Array) -> AnyArray:
    """Numbers of an array without nulls, sharing its memory; writable where Arrow says so."""
    values: AnyArray = array.to_numpy()
    if len(values) == 0:
        return values
    first = array.offset * values.itemsize
    return np.frombuffer(array.buffers()[1], dtype=values.dtype, count=len(values), offset=first)


def _contiguous(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if column.type == pa.string() and column.nbytes > MAX_NODES:
        column = pc.cast(column, pa.large_string())  # 32-bit offsets cannot address the whole
    return column.combine_chunks()


def _ids(
    column: pa.Array | pa.ChunkedArray,
    name: str,
    node_kind: NodeKind,
    first_row: int,
    *,
    keeps_missing: bool,
    of_kind: str | pa.Array,
) -> pa.Array:
    check_valid(column, name, first_row)
    if node_kind in TEXT:  # before a dictionary is decoded, which may multiply a long id
        _check_lengths(column, name, first_row)
    try:
        ids = node_ids(column, node_kind=node_kind, name=name)
    except TypeError as error:
        raise BadEdges(str(error), argument=name) from error
    except BadEdges as error:
        error.row = first_row + (error.row or 0)
        raise
    check_no_nulls(ids, name, first_row)
    if node_kind == "int64":
        if ids.type == pa.uint64():
            way = "; a graph with node_ids='string' takes greater ones, written as text"
            _check_range(ids.to_numpy(), name, (0, _MAX_INT64), first_row, way=way)
        return ids if ids.type == pa.int64() else pc.cast(ids, pa.int64())
    if node_kind in TEXT and ids.type in _STRINGS:
        _check_text(ids, name, first_row, keeps_missing=keeps_missing)
    if node_kind == "typed":
        ids = named_ids(ids, of_kind, name, first_row)
        _check_lengths(ids, name, first_row)
    elif not isinstance(of_kind, str) or of_kind:
        kind = f", {of_kind!r}," if isinstance(of_kind, str) else ""
        raise BadEdges(
            f"column {name!r} must not have a kind{kind} in a graph of {node_kind} nodes; "
            "kinds are named from the first table on, in a graph with node_ids='typed'",
            argument=name,
        )
    return ids


def string_lengths(column: pa.Array) -> Int64Array:
    """Bytes of each string, also of those in a dictionary or seen as views; 0 for null."""
    if pa.types.is_dictionary(column.type):
        indices = column.indices.fill_null(0).to_numpy()
        of_values = string_lengths(column.dictionary)
        lengths = of_values[indices] if len(of_values) else np.zeros(len(column), dtype=np.int64)
    elif len(column) and column.type in {pa.string_view(), pa.binary_view()}:
        views = np.frombuffer(column.buffers()[1], dtype=np.int32)  # four for each, length first
        lengths = views[4 * column.offset : 4 * (column.offset + len(column)) : 4].astype(np.int64)
    elif len(column):
        lengths = pc.binary_length(column).fill_null(0).to_numpy().astype(np.int64)
    else:
        lengths = np.zeros(0, dtype=np.int64)
    if column.null_count:
        lengths[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return lengths


def _check_text(ids: pa.Array, name: str, first_row: int, *, keeps_missing: bool) -> None:
    """Raise BadEdges with the first id that is empty, holds a NUL, or means that there is none."""
    if not len(ids):
        return
    ends, content = text_bytes(ids)
    bad = ends[1:] == ends[:-1]
    if content.size and content.min() == 0:
        holders = np.searchsorted(ends, np.flatnonzero(content == 0), side="right") - 1
        bad[holders] = True
    if bad.any():
        row = int(np.argmax(bad))
        raise BadEdges(
            f"column {name!r} must hold text of at least one character, without NUL",
            argument=name,
            row=first_row + row,
            value=repr(excerpt(ids[row].as_py())),
        )
    if keeps_missing or not content.size:
        return
    words = _rows_of_words(ids, content, ends)
    if words.size:
        raise BadEdges(
            f"column {name!r} must hold ids, not words for a missing value, in every row "
            f"({words.size} of the {len(ids)} rows looked at have one); {_WAY_OF_WORDS}",
            argument=name,
            row=first_row + int(words[0]),
            value=repr(ids[int(words[0])].as_py()),
        )


def _check_lengths(column: pa.Array | pa.ChunkedArray, name: str, first_row: int) -> None:
    """Raise BadEdges with the first id that is too long; other types pass."""
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        kind = chunk.type.value_type if pa.types.is_dictionary(chunk.type) else chunk.type
        if kind not in _STRINGS:
            return
        is_plain = chunk.type in _STRINGS[:2]
        if is_plain and (pc.max(pc.binary_length(chunk)).as_py() or 0) <= MAX_NODE_BYTES:
            first_row += len(chunk)
            continue
        too_long = string_lengths(chunk) > MAX_NODE_BYTES
        if too_long.any():
            row = int(np.argmax(too_long))
            raise BadEdges(
                f"column {name!r} must hold strings of at most {MAX_NODE_BYTES} bytes",
                argument=name,
                row=first_row + row,
                value=excerpt(chunk[row].as_py()),
            )
        first_row += len(chunk)


def _narrow(ids: pa.Array, name: str, limits: tuple[int, int], first_row: int) -> pa.Array:
    """Integers of any type as int32; those of 32 bits keep their bits and are checked later."""
    if ids.type.bit_width == 32:
        return ids.view(pa.int32())
    if ids.type.bit_width < 32:
        return pc.cast(ids, pa.int32())
    values = ids.to_numpy()
    narrow: Int32Array = np.empty(len(values), dtype=np.int32)
    if narrow_ids(frozen(values.view(np.uint64)), narrow) > limits[1]:
        _check_range(values, name, limits, first_row)
    return pa.array(narrow)


def _bits(column: pa.Array | Float32Array) -> AnyArray:
    """Bits of 32-bit numbers, read-only, as ``survey_edges`` takes them."""
    values = column.to_numpy() if isinstance(column, pa.Array) else column
    return frozen(values.view(np.uint32))


def check_no_nulls(column: pa.Array, name: str, first_row: int) -> None:
    """Raise BadEdges with the first row that is null."""
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise BadEdges(
            f"column {name!r} must not be null", argument=name, row=first_row + row, value="null"
        )


def _check_range(
    values: AnyArray, name: str, limits: tuple[int, int], first_row: int, *, way: str = ""
) -> None:
    least, greatest = limits
    if len(values) == 0 or (int(values.min()) >= least and int(values.max()) <= greatest):
        return
    type_limits = np.iinfo(values.dtype)
    outside = (values < max(least, type_limits.min)) | (values > min(greatest, type_limits.max))
    row = int(np.argmax(outside))
    raise BadEdges(
        f"column {name!r} must lie in [{least}, {greatest}]{way}",
        argument=name,
        row=first_row + row,
        value=str(values[row]),
    )


def check_valid(column: pa.ChunkedArray, name: str, first_row: int) -> None:
    """Raise BadEdges unless text is UTF-8 and offsets lie in the bytes: messages may be forged."""
    error = _fault(column)
    if error is None:
        return
    first, n_rows = 0, len(column)  # bisect for the first bad row, never a loop over rows
    while n_rows > 1:
        half = n_rows // 2
        if _fault(column.slice(first, half)) is None:
            first, n_rows = first + half, n_rows - half
        else:
            n_rows = half
    raise BadEdges(
        f"column {name!r} must be valid Arrow data ({error})", argument=name, row=first_row + first
    )


def _fault(column: pa.ChunkedArray) -> str | None:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        return excerpt(error)
    return None


def _weights(column: pa.ChunkedArray, name: str, first_row: int, *, is_owned: bool) -> AnyArray:
    """Weights as they were given, not null; their values are not checked."""
    column = plain_column(column)
    if pa.types.is_decimal(column.type) or pa.types.is_float16(column.type):
        column = pc.cast(column, pa.float64())
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        kind = excerpt(column.type)
        way = (
            "; make numbers of the text, as by a cast to float64" if column.type in _STRINGS else ""
        )
        raise BadEdges(
            f"column {name!r} must hold integers, decimals or floats, got type {kind}{way}",
            argument=name,
        )
    check_valid(column, name, first_row)
    weights = _contiguous(column)
    check_no_nulls(weights, name, first_row)
    return values_of(weights) if is_owned else frozen(weights.to_numpy())


def _check_weights(exact: AnyArray | None, weight: Float32Array, name: str, first_row: int) -> bool:
    """Whether some weights are 0; raises `BadEdges` with the first that is no weight."""
    # A NaN makes min() a NaN, and no comparison with a NaN holds.
    if exact is None or len(weight) == 0 or (weight.min() > 0 and weight.max() < np.inf):
        return False
    is_weight = ((weight > 0) | (exact == 0)) & (weight < np.inf)
    if is_weight.all():
        return True
    row = int(np.argmin(is_weight))
    value = exact[row]
    rule = f"column {name!r} must be finite and >= 0"
    if np.isfinite(value) and value > 0:
        rule += " as a 32-bit float" + (", where so little is 0" if value < 1.0 else "")
    raise BadEdges(rule, argument=name, row=first_row + row, value=str(value))
