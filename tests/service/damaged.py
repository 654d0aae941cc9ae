"""Tables as clients send them, and ways to damage them; all of it from a seed, by number."""

import gzip
import io
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, partial
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.table_formats import Format

USES: Final = ("edges", "features", "labels", "points")
KINDS: Final[tuple[NodeKind, ...]] = ("string", "int64", "dense")

_EXTREMES: Final = (0, 1, -1, 2**7, 2**15, 2**16, 2**31 - 1, -(2**31), 2**32 - 1, 2**40, 2**62)
_EXTREMES_64: Final = (*_EXTREMES, 2**63 - 1, -(2**63))
_TOKENS: Final = (
    *(b"", b",", b"\n", b"\r", b'"', b"\x00", b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\\u0000"),
    *(b"nan", b"NaN", b"inf", b"-1", b"0", b"1e400", b"1e-400", b"9" * 30, b"-" + b"9" * 30),
    *(b"null", b"true", b"[", b"]", b"{", b"}", b"[[[[[[", b'{"a":{"a":{}}}', b"\xef\xbb\xbf"),
    *(b"src,", b"weight", b'"features":[]', b'"indices":[2147483647]', b"x" * 3000),
)
_TEXT: Final = (Format.CSV, Format.NDJSON)

_PACKS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "gzip": partial(gzip.compress, mtime=0),
    "zstd": lambda content: pa.compress(content, "zstd", asbytes=True),
}

Random = np.random.Generator


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A body, and what it is sent as."""

    use: str
    node_kind: NodeKind
    table_format: Format
    content: bytes
    encoding: str | None = None

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.use}-{self.node_kind}-{self.table_format}-{self.encoding or 'plain'}"


def damaged(seed: int, number: int) -> Sent:
    """One of the tables, damaged once or a few times."""
    rng = np.random.default_rng((seed, number))
    all_sent = corpus()
    sent = all_sent[rng.integers(len(all_sent))]
    others = [
        each.content
        for each in all_sent
        if (each.table_format, each.encoding) == (sent.table_format, sent.encoding)
    ]
    is_text = sent.table_format in _TEXT and sent.encoding is None
    content = _damaged_some(sent.content, others, _TEXT_WAYS if is_text else _BINARY_WAYS, rng)
    return replace(sent, content=content)


@cache
def corpus() -> list[Sent]:
    """Every use, kind of node and format, in the ways that writers write them."""
    found = []
    for use in USES:
        for kind in KINDS:
            for columns in _tables(use, kind):
                table = pa.table(columns)
                for table_format, content in _written(table, use):
                    sent = Sent(use=use, node_kind=kind, table_format=table_format, content=content)
                    found.append(sent)
    text = [each for each in found if each.table_format in _TEXT]
    packed = [
        replace(each, content=pack(each.content), encoding=encoding)
        for each in text
        for encoding, pack in _PACKS.items()
    ]
    return found + packed


def edge_files(n_rows: int = 40) -> dict[str, list[bytes]]:
    """Whole files of edges between strings by suffix, each written in another way."""
    ids = _ids("string", n_rows)
    table = pa.table({"src": ids, "dst": ids[::-1], "weight": np.linspace(1, 2, n_rows)})
    found: dict[str, list[bytes]] = {}
    for table_format, content in _written(table, "edges"):
        found.setdefault(table_format.suffix, []).append(content)
    sink = io.BytesIO()
    pa.csv.write_csv(table, sink, pa.csv.WriteOptions(delimiter="\t"))
    found[".tsv"] = [sink.getvalue()]
    for suffix in (".csv", ".tsv", Format.NDJSON.suffix):
        for encoding, pack in _PACKS.items():
            packed = [pack(each) for each in found[suffix]]
            found[suffix + {"gzip": ".gz", "zstd": ".zst"}[encoding]] = packed
    return found


def broken(content: bytes, suffix: str, others: list[bytes], rng: Random) -> bytes:
    """The content of a file, damaged once or a few times."""
    is_text = suffix in {".csv", ".tsv", Format.NDJSON.suffix}
    return _damaged_some(content, others, _TEXT_WAYS if is_text else _BINARY_WAYS, rng)


def _damaged_some(
    content: bytes, others: list[bytes], ways: "tuple[_Way, ...]", rng: Random
) -> bytes:
    for _ in range(int(rng.geometric(0.7))):
        other = others[rng.integers(len(others))]
        content = ways[rng.integers(len(ways))](content, other, rng)
    return content


def _tables(use: str, kind: NodeKind, n_rows: int = 24) -> list[dict[str, Any]]:
    ids = _ids(kind, n_rows)
    numbers = np.linspace(-1, 1, 4 * n_rows).astype(np.float32)
    dense = pa.FixedSizeListArray.from_arrays(pa.array(numbers), 4)
    lists = pa.array([[0.5] * 4 for _ in range(n_rows)], pa.list_(pa.float64()))
    sparse = {
        "indices": pa.array([[0, 2]] * n_rows, pa.list_(pa.int64())),
        "values": pa.array([[1.0, 2.0]] * n_rows, pa.list_(pa.float32())),
    }
    match use:
        case "edges":
            weight = np.linspace(1, 2, n_rows)
            shared = pa.array(ids).dictionary_encode()
            return [
                {"src": ids, "dst": ids[::-1], "weight": weight},
                {"src": shared, "dst": shared, "more": dense},
                {"src": ids, "dst": ids[::-1], "weight": _decimals(n_rows, scale=2)},
            ]
        case "features":
            rows = [{"features": dense}, {"features": lists}, sparse]
            return [{"node": ids} | each for each in rows]
        case "labels":
            words = pa.array(["left", "right"] * (n_rows // 2))
            labels = [words, words.dictionary_encode(), pa.array(numbers[:n_rows])]
            labels += [_decimals(n_rows, scale=0), _decimals(n_rows, scale=2)]
            once = slice(0, 16)  # a node has one label in a table
            return [{"node": ids[once], "label": each[once]} for each in labels]
        case _:
            return [{"features": dense}, {"features": lists}, sparse]


def _decimals(n_rows: int, *, scale: int) -> pa.Array:
    return pa.array([Decimal(row + 1) for row in range(n_rows)], pa.decimal128(30, scale))


def _ids(kind: NodeKind, n_rows: int) -> pa.Array:
    if kind == "string":
        return pa.array([f"n{row % 17}" for row in range(n_rows)])
    return pa.array(np.arange(n_rows, dtype=np.int64) % 17)


def _written(table: pa.Table, use: str) -> list[tuple[Format, bytes]]:
    found = _stored(table)
    lines = b"".join(orjson.dumps(row, default=float) + b"\n" for row in table.to_pylist())
    found.append((Format.NDJSON, lines))
    if use in {"features", "points"}:
        numbers = {f"x{column}": np.linspace(0, 1, table.num_rows) for column in range(4)}
        ids = {"node": table.column("node")} if use == "features" else {}
        table = pa.table(ids | numbers)
    plain = [name for name in table.column_names if not pa.types.is_nested(table[name].type)]
    sink = io.BytesIO()
    pa.csv.write_csv(table.select(plain), sink)
    found.append((Format.CSV, sink.getvalue()))
    return found


def _stored(table: pa.Table) -> list[tuple[Format, bytes]]:
    found = []
    for codec in (None, "lz4", "zstd"):
        sink = io.BytesIO()
        options = pa.ipc.IpcWriteOptions(compression=codec)
        with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=10)
        found.append((Format.ARROW, sink.getvalue()))
    for codec in ("none", "snappy", "zstd", "gzip", "brotli", "lz4"):
        for has_dictionary in (False, True):
            sink = io.BytesIO()
            pq.write_table(
                table,
                sink,
                compression=codec,
                use_dictionary=has_dictionary,
                data_page_version="2.0" if codec in {"zstd", "none"} else "1.0",
                row_group_size=10,
            )
            found.append((Format.PARQUET, sink.getvalue()))
    return found


def _place(content: bytes, rng: Random, width: int = 1) -> int:
    return int(rng.integers(max(1, len(content) - width + 1)))


def _flip_bits(content: bytes, _other: bytes, rng: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 9)) if changed else 0):
        changed[_place(content, rng)] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _set_bytes(content: bytes, _other: bytes, rng: Random) -> bytes:
    first, length = _place(content, rng), int(rng.integers(1, 17))
    return content[:first] + rng.bytes(length) + content[first + length :]


def _truncate(content: bytes, _other: bytes, rng: Random) -> bytes:
    cut = _place(content, rng)
    return content[:cut] if rng.integers(2) else content[cut:]


def _splice(content: bytes, other: bytes, rng: Random) -> bytes:
    first = _place(content, rng)
    return content[:first] + other[(first if rng.integers(2) else _place(other, rng)) :]


def _swap(content: bytes, _other: bytes, rng: Random) -> bytes:
    width = int(rng.choice([1, 2, 4, 8, 16, 64]))
    first, second = sorted(_place(content, rng, 2 * width) for _ in range(2))
    if second < first + width:
        return content
    one, two = content[first : first + width], content[second : second + width]
    between = content[first + width : second]
    return content[:first] + two + between + one + content[second + width :]


def _set_length(content: bytes, _other: bytes, rng: Random) -> bytes:
    """A field of 32 or 64 bits, most of which are lengths and offsets, gets an extreme value."""
    width, extremes, shape = (4, _EXTREMES, "<I") if rng.integers(2) else (8, _EXTREMES_64, "<Q")
    value = extremes[rng.integers(len(extremes))] & (256**width - 1)
    first = _place(content, rng, width) // 4 * 4
    return content[:first] + struct.pack(shape, value) + content[first + width :]


def _set_varint(content: bytes, _other: bytes, rng: Random) -> bytes:
    """As `_set_length`, in the lengths of thrift: the outer file moves by some bytes."""
    value = _EXTREMES_64[rng.integers(len(_EXTREMES_64))] & (2**64 - 1)
    varint = bytearray()
    while value >= 128:
        varint.append(value & 127 | 128)
        value >>= 7
    varint.append(value)
    first = _place(content, rng)
    return content[:first] + bytes(varint) + content[first + len(varint) :]


def _damage_inside(content: bytes, other: bytes, rng: Random) -> bytes:
    """Values and page headers change; head and tail, in Parquet with the footer, stay."""
    end = len(content) - 8
    if content[-4:] == b"PAR1" and len(content) > 12:
        end = max(4, end - struct.unpack("<I", content[-8:-4])[0])
    first = min(4, end)
    ways = (_flip_bits, _set_bytes, _swap, _set_length)
    inner = ways[rng.integers(len(ways))](content[first:end], other, rng)
    return content[:first] + inner + content[end:]


def _damage_footer(content: bytes, other: bytes, rng: Random) -> bytes:
    """The other way round: what describes the values changes, they do not."""
    if content[-4:] != b"PAR1" or len(content) <= 12:
        return _damage_inside(content, other, rng)
    first = max(4, len(content) - 8 - struct.unpack("<I", content[-8:-4])[0])
    ways = (_flip_bits, _set_bytes, _swap, _set_varint)
    footer = ways[rng.integers(len(ways))](content[first:-8], other, rng)
    return content[:first] + footer + struct.pack("<I", len(footer)) + b"PAR1"


def _random(content: bytes, _other: bytes, rng: Random) -> bytes:
    return rng.bytes(int(rng.integers(2 * len(content) + 1)))


def _put_token(content: bytes, _other: bytes, rng: Random) -> bytes:
    first, cut = _place(content, rng), int(rng.integers(6))
    return content[:first] + _TOKENS[rng.integers(len(_TOKENS))] + content[first + cut :]


def _repeat(content: bytes, _other: bytes, rng: Random) -> bytes:
    first, length = _place(content, rng), int(rng.integers(1, 200))
    piece = content[first : first + length]
    return content[:first] + piece * int(rng.integers(2, 20)) + content[first + length :]


_Way = Callable[[bytes, bytes, Random], bytes]
_BINARY_WAYS: Final[tuple[_Way, ...]] = (
    *(_flip_bits, _set_bytes, _truncate, _splice, _swap, _set_length, _set_varint),
    *(_damage_inside, _damage_inside, _damage_inside, _damage_footer, _damage_footer, _random),
)
_TEXT_WAYS: Final[tuple[_Way, ...]] = (
    *(_flip_bits, _set_bytes, _truncate, _splice, _swap, _random),
    *(_put_token, _put_token, _put_token, _repeat),
)
