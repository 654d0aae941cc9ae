"""Text as it comes: what is read, what is refused by name, and never a wrong row in silence."""

import bz2
import csv
import io
import json
import lzma
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.streaming.edges.bad_table import BadTable, BadUpload
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.columns import read_columns
from peewit.streaming.edges.csv.tables import csv_batches
from peewit.streaming.edges.json_tables import json_rows
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.oddities import odd_columns, odd_ids
from peewit.streaming.edges.reader import read_part
from peewit.streaming.edges.reading_options import Quote
from peewit.streaming.edges.sources import EdgeFiles, TableDirectory
from peewit.streaming.edges.staging import stage

ENDS = EdgeColumns(src="#1", dst="#2")


def rows_of(
    text: str, wanted: Sequence[str] = ("src", "dst"), quote: Quote | None = None
) -> list[list[str]]:
    batches = csv_batches(io.BytesIO(text.encode()), wanted, check=lambda _names: None, quote=quote)
    return [list(row.values()) for batch in batches for row in batch.to_pylist()]


def edges_of(
    path: Path,
    columns: EdgeColumns | None = None,
    *,
    kind: NodeKind = "string",
    max_bad_rows: int = 0,
) -> list[tuple[object, object, float]]:
    """Edges of a file, as ingest reads it."""
    (file,) = EdgeFiles(path, columns=columns or EdgeColumns(), max_bad_rows=max_bad_rows).list()
    edges = []
    with stage(file, path.parent / "staging", node_kind=kind) as staged:
        for part in staged.parts:
            block = read_part(staged, part, node_kind=kind, max_nodes=100)
            columns_of = block.src.to_pylist(), block.dst.to_pylist(), block.weight.tolist()
            edges += list(zip(*columns_of, strict=True))
    return edges


FIELD = st.text(st.sampled_from('ab", ;\t'), max_size=4)
LINES = st.lists(st.lists(FIELD, min_size=2, max_size=2), min_size=1, max_size=6)


@given(LINES, st.sampled_from(",;\t"), st.booleans())
def test_text_that_quotes_is_read_as_a_slow_reader_has_it(
    lines: list[list[str]], separator: str, quotes_all: bool
) -> None:
    out = io.StringIO()
    quoting = csv.QUOTE_ALL if quotes_all else csv.QUOTE_MINIMAL
    writer = csv.writer(out, delimiter=separator, quoting=quoting, lineterminator="\n")
    writer.writerows([["src", "dst"], *lines])
    assert rows_of(out.getvalue(), quote="double") == [
        line if '"' in out.getvalue() else [field.strip() for field in line] for line in lines
    ]


@given(st.lists(st.text(st.sampled_from('ab",\n'), max_size=8), min_size=1, max_size=6))
def test_text_of_any_shape_is_read_as_a_slow_reader_has_it_or_refused(lines: list[str]) -> None:
    text = "src,dst\n" + "\n".join(lines)
    try:
        read = rows_of(text)
    except BadTable:
        return
    slow = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row][1:]
    if '"' not in text:
        slow = [[field.strip() for field in row] for row in slow]
    assert read == slow


@pytest.mark.parametrize(
    "text",
    [
        'src\tdst\n"abc\tdef\nx\ty\n"q\tr\n',  # text stands behind the quote that closes
        'src\tdst\n"Heroes"_(album)\tBowie\n',
        'src\tdst\n"abc\tdef\nx\ty\nq"\tr\ns\tt\n',  # what is quoted looks like rows
        "src,dst\n" + "".join(f'a{n},"b{n}\n' for n in range(3)) + 'a,b"\n',
        'src,dst\na,"b\n',  # nothing closes it
        'src,dst\na, "b"\n',  # the quotes would be part of the name
        "src,dst\n" + "a,b\n" * 300_000 + '"a,b\n',  # beyond the first mebibyte
    ],
)
def test_text_that_does_not_quote_is_refused_until_that_is_said(text: str) -> None:
    with pytest.raises(BadTable, match="quote='none'"):
        rows_of(text)
    plain = rows_of(text, quote="none")
    n_lines = len(text.splitlines()) - 1
    assert len(plain) == n_lines
    assert not any("\n" in field for row in plain for field in row)


def test_quoted_lines_may_be_long_and_many() -> None:
    text = "src,dst,text\n" + "".join(f'u{n},v{n},"one\ntwo, and\n{n}"\n' for n in range(40_000))
    assert rows_of(text)[::39_999] == [["u0", "v0"], ["u39999", "v39999"]]


@pytest.mark.parametrize(
    ("text", "wanted", "rows"),
    [
        ("src, dst\na, b\n c ,d\n", ("src", "dst"), [["a", "b"], ["c", "d"]]),
        ("sep=;\nsrc;dst\na;b,c\n", ("src", "dst"), [["a", "b,c"]]),
        ("sep=\t\nsrc\tdst\na\tb,c\n", ("src", "dst"), [["a", "b,c"]]),
        ("\ufeffsrc,dst\na,b\n", ("src", "dst"), [["a", "b"]]),
        ("a b 0,5\nc  d 0,7\n", ("#1", "#2"), [["a", "b"], ["c", "d"]]),
        ("a,b\tc\nd\te,f\n", ("#1", "#2"), [["a,b", "c"], ["d", "e,f"]]),
        ("a;b;0,5\nc;d;1,5\n", ("#1", "#2"), [["a", "b"], ["c", "d"]]),
        (" 1   2\n3\t4 \n", ("#1", "#2"), [["1", "2"], ["3", "4"]]),
    ],
)
def test_odd_text_is_cut_where_it_is_meant(
    text: str, wanted: Sequence[str], rows: list[list[str]]
) -> None:
    assert rows_of(text, wanted) == rows


def test_matrix_market_has_its_sizes_and_comments_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "g.mtx"
    head = "%%MatrixMarket matrix coordinate real symmetric\n% made by hand\n 3  3 2\n"
    path.write_text(f"{head}  2   1  5.0\n3\t1 2.5e-1\n")
    assert edges_of(path, kind="int64") == [(2, 1, 5.0), (3, 1, 0.25)]
    assert edges_of(path, ENDS) == [("2", "1", 1.0), ("3", "1", 1.0)]
    for bad in (
        "array real general\n2 2\n1\n",
        "coordinate complex general\n2 2 1\n1 2 1 0\n",
        "coordinate pattern general\n2 5 1\n1 2\n",
        "coordinate pattern general\n2 2 3\n1 2\n",
        "coordinate real general\n3 3 1\n5 1 1.5\n",
        "coordinate real general\n3 3 1\n0 1 1.5\n",
        "coordinate real symmetric\n3 3 2\n2 1 1.5\n1 2 1.5\n",
    ):
        path.write_text(f"%%MatrixMarket matrix {bad}")
        with pytest.raises(BadTable, match=r"MatrixMarket|has 3 entries|matrix must"):
            edges_of(path)


def test_comments_between_joined_files_are_refused_where_there_are_some(tmp_path: Path) -> None:
    path = tmp_path / "e.txt"
    joined = "# one\nsrc dst\na b\n# two c\nc d\n"
    path.write_text(joined)
    with pytest.raises(BadTable, match="the first is in line 4"):
        edges_of(path)
    path.write_text("src dst\n#a #b\n")  # names that begin so
    assert edges_of(path) == [("#a", "#b", 1.0)]
    path.write_text("# one\n" + "src dst\n" + "a b\n" * 300_000 + "%c d\n")
    with pytest.raises(BadTable, match="in line 300003"):
        edges_of(path)


def test_a_zip_of_what_nobody_reads_harms_itself_alone(tmp_path: Path) -> None:
    for member, content in (("e.gml", b"graph []"), ("e.csv", b"")):
        with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
            archive.writestr(member, content)
        with pytest.raises(BadEdges):
            edges_of(tmp_path / "one.zip")
    (tmp_path / "one.zip").write_bytes(b"PK\x03\x04 and nothing else")
    with pytest.raises(BadEdges, match="ZIP archive is damaged"):
        edges_of(tmp_path / "one.zip")
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
        archive.writestr("a.csv", TEXT)
        archive.writestr("b.csv", TEXT)
    (tmp_path / "e.csv.xz").write_bytes(lzma.compress(TEXT.encode())[:-9])
    with pytest.raises(BadEdges, match=r"damaged"):
        edges_of(tmp_path / "e.csv.xz")
    with pytest.raises(BadEdges, match="must hold one file"):
        edges_of(tmp_path / "one.zip")


def test_a_header_between_joined_files_is_refused_or_left_out(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("src,dst\na,b\nsrc,x\nsrc,dst\nc,d\n")
    with pytest.raises(BadTable, match="name the columns again") as caught:
        edges_of(path)
    assert caught.value.row == 2
    assert edges_of(path, max_bad_rows=1) == [("a", "b", 1), ("src", "x", 1), ("c", "d", 1)]
    for again in ("\ufeffsrc,dst", "dst,src", "SRC,DST", "Dst,Src"):
        path.write_text(f"src,dst\na,b\n{again}\nc,d\n")
        with pytest.raises(BadTable, match="name the columns again"):
            edges_of(path)


@pytest.mark.parametrize(
    ("text", "rule", "row"),
    [
        ("src,dst\na,b\n# chunk 2, more\nc,d\n", "a comment", 1),
        ("src,dst\na,b\n% x, y\nc,d\n", "a comment", 1),
        ("src,dst\n----------,---------\na,b\n", "between the names and the rows", 0),
        ("| src | dst |\n|:---|---:|\n| a | b |\n", "between the names and the rows", 0),
        ("src,dst\na,b\n---,---\nc,d\n", "between the names and the rows", 1),
        ('"src","dst"\n"UInt64","String"\n"1","b"\n', "holds types", 0),
        ("src\tdst\tweight\nString\tString\tFloat64\na\tb\t1\n", "holds types", 0),
        ("src,dst\na,b\n2 rows, 0.1 s\n", "the count of rows", 1),
        ("src dst\na b\n(1 row)\n", "the count of rows", 1),
    ],
)
def test_lines_that_cannot_be_rows_are_refused_or_left_out(
    tmp_path: Path, text: str, rule: str, row: int
) -> None:
    path = tmp_path / "e.csv"
    path.write_text(text)
    with pytest.raises(BadTable, match=rule) as caught:
        edges_of(path)
    assert caught.value.row == row
    if row:
        assert len(edges_of(path, max_bad_rows=1)) == text.count("\n") - 2


def test_ids_may_look_like_what_stands_between_rows(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    for text in (
        "src,dst\n# one,# two\n#x,b\n",
        "src,dst\n#tag,b\n-,a\n--,a\n//host/x,a\n5 rows of,a\n",
        "src,dst\nString,Date\nList,String\n",
        "src,dst\nsrc,x\n",
    ):
        path.write_text(text)
        assert len(edges_of(path)) == text.count("\n") - 1


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("1 1:0.5 2:0.3\n2 1:0.7 3:0.1\n", "as LibSVM has them"),
        ("1 1:0.5\n2 1:0.7\n", "as LibSVM has them"),
        ("from,to\na,b\n", "seems to name columns"),
        ("user,item\n1,2\n2,3\n", "seems to name columns"),
        ("// sym\n1 2\n2 3\n", "seems to name columns"),
        ("4 3\n1 2\n2 3\n3 4\n", "numbers of nodes and edges"),
        ("1 2 {'weight': 3}\n", "nx.write_weighted_edgelist"),
        ("(1, 2)\n(2, 3)\n", "as Python prints them"),
        ("a -> b\nb -> c\n", "the same mark in every row"),
    ],
)
def test_a_first_line_that_is_no_edge_is_refused_where_columns_are_places(
    tmp_path: Path, text: str, rule: str
) -> None:
    path = tmp_path / "e.txt"
    path.write_text(text)
    with pytest.raises(BadTable, match=rule):
        edges_of(path, ENDS)


def test_blanks_and_what_shows_nothing_around_names_are_seen_through(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("src,\u200bdst,\u200b weight\u00a0\na,b,2\n")
    assert edges_of(path) == [("a", "b", 2.0)]
    path = tmp_path / "e.ndjson"
    path.write_text('{"src": "a", "dst": "b", "weight ": 2}\n')
    with pytest.raises(BadTable, match="say weight='weight ' where that is meant"):
        edges_of(path)
    assert edges_of(path, EdgeColumns(weight="weight ")) == [("a", "b", 2.0)]
    table = pa.table({"src": ["a"], "dst": ["b"], "\u200bweight": [2]})
    pq.write_table(table, tmp_path / "e.parquet")
    with pytest.raises(BadTable, match="weight="):
        edges_of(tmp_path / "e.parquet")


@pytest.mark.parametrize(
    ("name", "is_told"),
    [
        *[("weight (kg)", True), ("Weight_kg", True), ("weights", True), ("amount [EUR]", True)],
        *[("value_date", False), ("weighting", False), ("name", False), ("n (all)", False)],
    ],
)
def test_columns_called_as_weights_with_a_unit_are_told(name: str, is_told: bool) -> None:
    told = odd_columns(["src", "dst", name], EdgeColumns())
    assert [f"say weight={name!r}" in each for each in told] == [True] * is_told
    assert odd_columns(["src", "dst", "weight", name], EdgeColumns()) == []


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        (["1.23457E+11", "1"], "1 new id is written as 1.23457E+11, as spreadsheets round"),
        (["'007", "007"], 'with marks of spreadsheets that keep text, the first "\'007"'),
        (['="007"', "007"], "with marks of spreadsheets"),
        (["\uff10\uff17", "07"], "with full-width digits"),
        (["#x", "a", "b"], "1 new id begins as comments do, the first '#x'"),
        (["#x", "#y", "#z", "1E5", "E+1", "it's"], None),
    ],
)
def test_ids_that_spreadsheets_have_changed_are_told(ids: list[str], told: str | None) -> None:
    notes = odd_ids(pa.chunked_array([pa.array(ids)]))
    assert len(notes) == (told is not None)
    assert told is None or told in notes[0]


@pytest.mark.parametrize(
    ("weight", "way"),
    [
        ("1,5", "decimals with a point"),
        ("1,234,567", "marks between thousands"),
        ("5%", "without %"),
        ("5 EUR", "currency"),
        ("true", "1 and 0"),
    ],
)
def test_weights_that_are_no_numbers_say_what_to_write(
    tmp_path: Path, weight: str, way: str
) -> None:
    (tmp_path / "e.csv").write_text(f"src;dst;weight\na;b;{weight}\n")
    with pytest.raises(BadTable, match=way):
        edges_of(tmp_path / "e.csv")


def test_files_of_another_format_say_which(tmp_path: Path) -> None:
    pq.write_table(pa.table({"src": ["a"], "dst": ["b"]}), tmp_path / "one.parquet")
    with zipfile.ZipFile(tmp_path / "book.csv.zip", "w") as archive:
        archive.writestr("[Content_Types].xml", "<x/>")
        archive.writestr("xl/workbook.xml", "<x/>")
    held = {
        "e.csv": ((tmp_path / "one.parquet").read_bytes(), "is Parquet; give it the ending"),
        "gz.csv": (b"\x1f\x8b\x08\x00rest", r"compressed \(gzip\); put .gz"),
        "book.csv": ((tmp_path / "book.csv.zip").read_bytes(), "Excel workbook; save the sheet"),
        "e.parquet": (b"src,dst\na,b\n", "Parquet file: it is text; give it the ending .csv"),
        "book.csv.zip": ((tmp_path / "book.csv.zip").read_bytes(), "Excel workbook"),
    }
    for name, (content, text) in held.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(BadTable, match=text):
            edges_of(tmp_path / name)
    for row, text in (
        (b"a,b\xff", r"iconv .* makes of other text(?! \()"),
        (b"a,b,\xff", "must have 2 fields, got 3"),
    ):
        (tmp_path / "e.csv").write_bytes(b"src,dst\n" + row)
        with pytest.raises(BadTable, match=text):
            edges_of(tmp_path / "e.csv")


def test_deletes_of_a_graph_that_could_carry_them_out_need_their_column(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("src,dst,__deleted\na,b,true\n")
    with pytest.raises(BadTable, match="say op='__deleted' to carry them out"):
        edges_of(tmp_path / "e.csv", EdgeColumns(op="op"))


def test_periods_are_no_ids() -> None:
    field = pa.field("src", pa.int64(), metadata={"ARROW:extension:name": "pandas.period"})
    table = pa.table([[672], [673]], schema=pa.schema([field, ("dst", pa.int64())]))
    with pytest.raises(BadEdges, match=r"not periods of pandas.*\.astype\(str\)"):
        read_columns(table, node_kind="int64", max_nodes=9)


def test_edges_of_numbers_are_no_sizes(tmp_path: Path) -> None:
    path = tmp_path / "e.txt"
    for text in ("1 2\n2 3\n3 1\n", "4 2\n1 2\n2 5\n", "u v\nv w\nw u\n", "7 1\n1 2\n"):
        path.write_text(text)
        assert len(edges_of(path, ENDS)) == text.count("\n")


WORDS = [
    "NA",
    "n/a",
    "NaN",
    "None",
    "NULL",
    "\\N",
    "<NA>",
    "NaT",
    "null",
    "\\\\N",
    "[NULL]",
    "-nan",
]
WORDS += ["1.#QNAN", "1.#IND", "#REF!", "#VALUE!", "__HIVE_DEFAULT_PARTITION__"]
WORDS += ["[object Object]"]


@pytest.mark.parametrize("word", WORDS)
def test_words_for_nothing_are_no_ids_until_that_is_said(tmp_path: Path, word: str) -> None:
    table = pa.table({"src": ["a", "nina", word], "dst": ["b", "nan.", "c"]})
    pq.write_table(table, tmp_path / "e.parquet")
    lines = ["src,dst", *(",".join(row.values()) for row in table.to_pylist())]
    (tmp_path / "e.csv").write_text("\n".join(lines) + "\n")
    keeps = EdgeColumns(missing_ids="keep")
    for name in ("e.parquet", "e.csv"):
        with pytest.raises(BadTable, match="words for a missing value") as caught:
            edges_of(tmp_path / name)
        assert (caught.value.row, caught.value.value) == (2, repr(word))
        assert len(edges_of(tmp_path / name, max_bad_rows=1)) == 2
        assert edges_of(tmp_path / name, keeps)[2] == (word, "c", 1.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("op", "delete"),
        ("OP", "-1"),
        ("operation", "tombstone"),
        ("is_deleted", "1"),
        ("METADATA$ACTION", "DELETE"),
        ("__$operation", "1"),
        ("__op", "D"),
        ("_change_type", "update_preimage"),
        ("op_type", "-D"),
        ("__deleted", "true"),
        ("action", "DELETE"),
        ("event_type", "REMOVE"),
        ("Op", "D"),
        ("Op_Type", "D"),
        ("IsDeleted", "true"),
        ("Is_Deleted", "1"),
        ("_peerdb_is_deleted", "1"),
        ("cdc_operation", "DELETE"),
        ("operationType", "delete"),
        ("eventName", "REMOVE"),
        ("row kind", "-D"),
        ("removed", "yes"),
        ("is_tombstone", "1"),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet"])
def test_deletes_that_nobody_carries_out_are_refused(
    tmp_path: Path, name: str, value: str, suffix: str
) -> None:
    path = tmp_path / f"e.{suffix}"
    rows = [{"src": "a", "dst": "b", name: "x"}, {"src": "a", "dst": "b", name: value}]
    match suffix:
        case "csv":
            path.write_text(f"src,dst,{name}\na,b,x\na,b,{value}\n")
        case "ndjson":
            path.write_text("".join(f"{row}\n".replace("'", '"') for row in rows))
        case _:
            pq.write_table(pa.Table.from_pylist(rows), path)
    with pytest.raises(BadTable, match="asks for deletes") as caught:
        edges_of(path)
    assert caught.value.row == 1
    assert len(edges_of(path, EdgeColumns(op="\n(no column)"))) == 2


def written_edges(path: Path, name: str, values: Sequence[object]) -> Path:
    """A file of edges with a further column."""
    table = pa.table({"src": ["a"] * len(values), "dst": ["b"] * len(values), name: values})
    match path.suffix:
        case ".csv":
            pa.csv.write_csv(table, path)
        case ".ndjson":
            path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
        case ".arrow":
            with pa.ipc.new_file(str(path), table.schema) as file:
                file.write_table(table)
        case _:
            pq.write_table(table, path)
    return path


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("type", ["insert", "update", "delete"]),
        ("kind", ["Insert", None, "Remove"]),
        ("mutation", ["write", "write", "DELETE"]),
        ("what", ["archived", "updated", "deleted"]),
        ("phase", ["load", "null", "tombstone"]),
        ("chg", ["I", "U", "D"]),
        ("sign", [1, 1, -1]),
        ("mz_diff", [1, 1, -1]),
        ("removed_at", [None, "2024-01-05", None]),
        ("deleted_at", [None, "2024-01-05", None]),
        ("_sdc_deleted_at", [None, None, "2024-01-05T10:00:00Z"]),
        ("_ab_cdc_deleted_at", [None, None, "2024-01-05T10:00:00Z"]),
        ("deletedAt", [None, None, 1700000000000]),
        ("deleted", [None, None, "2024-01-05"]),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet", "arrow"])
def test_columns_of_any_name_whose_values_are_deletes_are_refused(
    tmp_path: Path, suffix: str, name: str, values: list[object]
) -> None:
    path = written_edges(tmp_path / f"e.{suffix}", name, values)
    with pytest.raises(BadTable, match="asks for deletes") as refused:
        edges_of(path)
    assert ("signed network" in str(refused.value)) == (name == "sign")
    assert len(edges_of(path, EdgeColumns(op="\n(no column)"))) == 3


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("grade", ["C", "D"]),
        ("note", ["deleted my account", "delete"]),
        ("size", ["S", "D", "M"]),
        ("grade", ["A", "C", "D", "I", "U", "W", "F"]),
        ("country", ["DE", "IE", "US"]),
        ("arrow", ["U", "D", "L", "R"]),
        ("post_state", ["deleted", "draft"]),
        ("method", ["GET", "POST", "DELETE"]),
        ("vote", ["keep", "delete"]),
        ("n_deleted", [1, 5]),
        ("sign", [1, 0, -1]),
        ("deleted_at", [None, "null"]),
        ("undeleted", ["1", "0"]),
        ("status", ["deleted", "open"]),
        ("votes", [1, -1]),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet", "arrow"])
def test_columns_that_may_mean_something_else_are_passed_over(
    tmp_path: Path, suffix: str, name: str, values: list[object]
) -> None:
    assert len(edges_of(written_edges(tmp_path / f"e.{suffix}", name, values))) == len(values)


@pytest.mark.parametrize(
    ("folder", "columns", "rule"),
    [
        ("weight=5", None, "'weight' must stand in the file, .* one of which is for '5'"),
        ("op=delete", None, "'op' asks for deletes"),
        ("op=insert", EdgeColumns(op="op"), "'op' must stand in the file"),
        ("kind=remove", None, "'kind' asks for deletes"),
        ("day=2024-01-01", EdgeColumns(time="day"), "'day' must stand in the file"),
        ("rel=a%20b", EdgeColumns(relation_column="rel"), "'rel' must stand in the file"),
        ("day=2024-01-01", None, None),
        ("op=insert", None, None),
        ("weight=5", EdgeColumns(weight="\n(no column)", needs_weight=False), None),
        ("note=1", None, None),
    ],
)
@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet", "arrow"])
def test_folders_that_stand_for_a_column_of_edges_are_refused(
    tmp_path: Path, suffix: str, folder: str, columns: EdgeColumns | None, rule: str | None
) -> None:
    (tmp_path / folder).mkdir()
    path = written_edges(tmp_path / folder / f"e.{suffix}", "note", ["x", "y"])
    if rule is None:
        assert len(edges_of(path, columns)) == 2
        return
    with pytest.raises(BadTable, match=rule):
        edges_of(path, columns)


@pytest.mark.parametrize("word", ["insert", "load", None])
@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet", "arrow"])
def test_a_delete_is_found_however_late_it_stands(
    tmp_path: Path, suffix: str, word: str | None
) -> None:
    values = [word] * 150_000 + ["delete"]
    with pytest.raises(BadTable, match="asks for deletes"):
        edges_of(written_edges(tmp_path / f"e.{suffix}", "kind", values))


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet", "arrow"])
def test_words_of_which_many_differ_are_no_operations(tmp_path: Path, suffix: str) -> None:
    words = [f"word-{number}-of" for number in range(17)]
    values = [words[number % 17] for number in range(5_000)] + ["delete"]
    path = written_edges(tmp_path / f"e.{suffix}", "text", values)
    assert len(edges_of(path)) == len(values)


@pytest.mark.parametrize("weight", ["1e-400", "1e-310", "0.1E-500"])
def test_a_weight_too_small_for_a_float_is_no_weight_of_0(tmp_path: Path, weight: str) -> None:
    path = tmp_path / "e.csv"
    path.write_text(f"src,dst,weight\na,b,0\nb,c,0e5\nc,d,{weight}\n")
    with pytest.raises(BadTable, match="where so little is 0") as caught:
        edges_of(path)
    assert (caught.value.row, caught.value.value) in {(2, weight), (2, "1e-310")}


def test_what_a_writer_of_json_leaves_out_is_no_usual_value(tmp_path: Path) -> None:
    path = tmp_path / "e.ndjson"
    path.write_text('{"src":"a","dst":"b","amount":0.5}\n{"src":"b","dst":"c"}\n')
    amounts = EdgeColumns(weight="amount")
    with pytest.raises(BadTable, match=r"in every row, as .* write 1 where") as caught:
        edges_of(path, amounts)
    assert caught.value.row == 1
    assert edges_of(path, amounts, max_bad_rows=1) == [("a", "b", 0.5)]
    path.write_text('{"src":"b","dst":"c"}\n{"src":"a","dst":"b","weight":0.5}\n')
    assert edges_of(path, max_bad_rows=1) == [("a", "b", 0.5)]
    path.write_text('{"src":"b","dst":"c"}\n')
    assert edges_of(path) == [("b", "c", 1.0)]
    path.write_text(
        '{"src":"a","dst":"b","weight":2,"op":"insert"}\n{"src":"a","dst":"b","op":"delete"}\n'
    )
    assert edges_of(path, EdgeColumns(op="op")) == [("a", "b", 2.0), ("a", "b", 1.0)]
    path.write_text('{"src":"a","dst":"b","op":"delete"}\n{"src":"b","dst":"c"}\n')
    with pytest.raises(BadTable, match=r"'op' must .* write .insert. where"):
        edges_of(path, EdgeColumns(op="op"))
    lines = '{"src":"b","dst":"c"}\n' * (1 << 16)
    path.write_text(lines + '{"src":"a","dst":"b","weight":0.5}\n')
    with pytest.raises(BadTable, match="'weight' must stand in every row or in none"):
        edges_of(path)


def test_integers_stay_what_they_are_written_as(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("src,dst\n1.0,2.0\n3.0,0.0\n")
    assert edges_of(path, kind="int64") == [(1, 2, 1.0), (3, 0, 1.0)]
    for bad in ("01", "+1", "-0", "1.5", "0x10"):
        path.write_text(f"src,dst\n10,20\n{bad},2\n")
        with pytest.raises(BadTable, match="integer") as caught:
            edges_of(path, kind="int64")
        assert caught.value.row == 1
    whole = pa.array([1, 2], pa.decimal128(38, 0))
    pq.write_table(pa.table({"src": whole, "dst": [3.0, 4.0]}), tmp_path / "e.parquet")
    assert edges_of(tmp_path / "e.parquet", kind="int64") == [(1, 3, 1.0), (2, 4, 1.0)]
    huge = pa.array([1, 10**30], pa.decimal128(38, 0))
    pq.write_table(pa.table({"src": huge, "dst": [3, 4]}), tmp_path / "e.parquet")
    with pytest.raises(BadTable, match="64-bit integers"):
        edges_of(tmp_path / "e.parquet", kind="int64")


def test_whole_floats_of_json_are_integers(tmp_path: Path) -> None:
    path = tmp_path / "e.ndjson"
    path.write_text('{"src": 1.0, "dst": 2}\n{"src": "3", "dst": 4.0}\n')
    assert edges_of(path, kind="int64") == [(1, 2, 1.0), (3, 4, 1.0)]
    path.write_text('{"src": 9007199254740991.0, "dst": 9007199254740993}\n')
    assert edges_of(path, kind="int64") == [(2**53 - 1, 2**53 + 1, 1.0)]
    path.write_text('{"src": 1, "dst": 9007199254740993.0}\n')  # read as 2**53
    with pytest.raises(BadTable, match="'dst' must be a 64-bit integer"):
        edges_of(path, kind="int64")
    rounded = pa.table({"src": [2.0**53], "dst": [1]})
    pq.write_table(rounded, tmp_path / "e.parquet")
    with pytest.raises(BadTable, match="64-bit integers"):
        edges_of(tmp_path / "e.parquet", kind="int64")


def test_names_that_stand_twice_in_a_row_of_json_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "e.ndjson"
    rows = [r'{"src": "a", "dst": "b\":", "x": {"src": 1}}', r'{"src" : "c","dst":"\":"}']
    path.write_text("".join(f"{row}\n" for row in rows))
    good = [("a", 'b":', 1.0), ("c", '":', 1.0)]
    assert edges_of(path) == good
    with path.open("a") as file:
        file.write('{"src": "a", "dst": "b", "src"\t: "x"}\n')
    with pytest.raises(BadTable, match="'src' stands twice") as caught:
        edges_of(path)
    assert caught.value.row == 2
    with pytest.raises(BadUpload, match="'src' stands twice"):
        list(json_rows(io.BytesIO(path.read_bytes())))


@pytest.mark.parametrize("weight", ["1e400", "Infinity", "NaN"])
def test_numbers_that_json_has_not_are_told(tmp_path: Path, weight: str) -> None:
    path = tmp_path / "e.ndjson"
    bad = '{"src": "a", "dst": "b", "weight": WEIGHT}'.replace("WEIGHT", weight)
    path.write_text('{"src": "a", "dst": "b"}\n' + bad)
    with pytest.raises(BadTable, match=r"every line must be one JSON object \(") as caught:
        edges_of(path)
    assert caught.value.row == 1


def test_a_name_of_another_case_is_told_in_json_too(tmp_path: Path) -> None:
    path = tmp_path / "e.ndjson"
    path.write_text('{"src": "a", "dst": "b"}\n{"src": "a", "dst": "b", "Weight": 5}\n')
    with pytest.raises(BadTable, match=r"'weight' is missing.*weight='Weight'") as caught:
        edges_of(path)
    assert caught.value.row == 1


TEXT = "src,dst\na,b\nc,d\n"


def test_files_behind_one_another_are_refused(tmp_path: Path) -> None:
    table = pa.table({"src": ["a"], "dst": ["b"]})
    for name in ("e.parquet", "e.arrow", "e.arrows"):
        sink = io.BytesIO()
        if name == "e.parquet":
            pq.write_table(table, sink)
        else:
            new = pa.ipc.new_file if name == "e.arrow" else pa.ipc.new_stream
            with new(sink, table.schema) as writer:
                writer.write_table(table)
        (tmp_path / name).write_bytes(sink.getvalue())
        assert len(edges_of(tmp_path / name)) == 1
        (tmp_path / name).write_bytes(2 * sink.getvalue())
        with pytest.raises(BadEdges, match=r"one after the other|follow its end"):
            edges_of(tmp_path / name)


def test_compressed_files_and_unknown_endings_are_what_they_hold(tmp_path: Path) -> None:
    for name, content in (
        ("e.csv.bz2", bz2.compress(TEXT.encode())),
        ("e.csv.xz", lzma.compress(TEXT.encode())),
        ("e.edgelist", b"a b\nc d\n"),
    ):
        (tmp_path / name).write_bytes(content)
        columns = ENDS if name.endswith("edgelist") else None
        assert len(edges_of(tmp_path / name, columns)) == 2
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
        archive.writestr("in/e.csv", TEXT)
    assert len(edges_of(tmp_path / "one.zip")) == 2
    pq.write_table(pa.table({"src": ["a"], "dst": ["b"]}), tmp_path / "part-00000")
    assert len(edges_of(tmp_path / "part-00000")) == 1


@pytest.mark.parametrize("name", ["out.social", "g.gml", "g.xlsx", "part-0", "e.csv.gz", "e.zip"])
def test_a_file_of_no_known_kind_is_told_which_are_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("1 2\n2 3\n")
    with pytest.raises(BadTable, match=r"\.csv"):
        edges_of(tmp_path / name, ENDS)


@pytest.mark.parametrize(
    "sign", ["_delta_log/0.json", "metadata/v1.metadata.json", ".hoodie/hoodie.properties"]
)
@pytest.mark.parametrize("where", ["", "below/"])
def test_the_directory_of_a_table_is_no_directory_of_files(
    tmp_path: Path, sign: str, where: str
) -> None:
    pq.write_table(pa.table({"src": ["a"], "dst": ["b"]}), tmp_path / "part-0.parquet")
    of_table = tmp_path / where / sign
    of_table.parent.mkdir(parents=True)
    of_table.write_text("{}")
    inside = tmp_path / where / "part=1" / "e.parquet"
    inside.parent.mkdir(parents=True)
    inside.write_bytes(b"")
    for url in (inside, inside.parent, f"{inside.parent}/*", f"{tmp_path / where}/*.parquet"):
        with pytest.raises(TableDirectory, match="rows that were removed"):
            EdgeFiles(url).list()
    with pytest.raises(TableDirectory, match="rows that were removed"):
        EdgeFiles(tmp_path).list()


def test_types_of_arrow_that_stand_for_text_are_text(tmp_path: Path) -> None:
    views = pa.array(["a", "b", "a"], pa.string_view())
    indices = pa.array([0, 1, 0], pa.uint32())
    for ends in (
        views,
        pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b"], pa.string_view())),
        pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), pa.array(["a", "b"])),
    ):
        table = pa.table({"src": ends, "dst": ["c", "d", "e"]})
        with pa.ipc.new_file(str(tmp_path / "e.arrow"), table.schema) as writer:
            writer.write_table(table)
        assert [edge[0] for edge in edges_of(tmp_path / "e.arrow")] == ends.to_pylist()


def test_what_is_deleted_needs_no_time(tmp_path: Path) -> None:
    columns = EdgeColumns(time="time", op="op")
    path = tmp_path / "e.csv"
    path.write_text("src,dst,op\na,b,delete\n")
    assert edges_of(path, columns) == [("a", "b", 1.0)]
    path.write_text("src,dst,op\na,b,delete\nc,d,insert\n")
    with pytest.raises(BadTable, match="'time' must not be null") as caught:
        edges_of(path, columns)
    assert caught.value.row == 1
