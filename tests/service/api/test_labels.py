"""Labels over HTTP: refused or kept, durable, and followed by a re-solve."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from peewit.service.labels.label_entry import Labeling
from tests.service.api.conftest import (
    ARROW,
    CSV,
    NDJSON,
    PARQUET,
    Api,
    as_arrow,
    as_parquet,
    bring_communities,
)

EDGES = b"src,dst\na,b\nb,c\n"
TABLE = pa.table({"node": ["a", "c"], "label": ["x", "y"]})
CONTENT = {
    "application/json": b'{"labels":[{"node":"a","label":"x"},{"node":"c","label":"y"}]}',
    CSV: b"node,label\na,x\nc,y\n",
    NDJSON: b'{"node":"a","label":"x"}\n{"node":"c","label":"y"}\n',
    PARQUET: as_parquet(TABLE),
    ARROW: as_arrow(TABLE),
}


@pytest.fixture
def graph(api: Api) -> Api:
    """The API with a graph g of the nodes a, b, c, of which ingest knows."""
    api.create_graph("g")
    api.push(EDGES, CSV)
    api.ingest()
    return api


@pytest.mark.parametrize("media_type", CONTENT)
def test_labels_of_any_format_are_stored(graph: Api, media_type: str) -> None:
    headers = {"Content-Type": media_type}
    put = graph.call("PUT", "/graphs/g/labels", 200, content=CONTENT[media_type], headers=headers)
    told = {"labels_seq": 2, "accepted": 2, "refused": [], "left_out": {}, "note": None}
    assert put.json() == told
    assert graph.call("GET", "/graphs/g", 200).json()["labels_seq"] == 2
    found = graph.call("GET", "/graphs/g/labels?format=ndjson", 200)
    origin = "given" if media_type == "application/json" else "imported"
    told = {"origin": origin, "annotator": None, "key": None}
    sent = [json.loads(line) | told for line in CONTENT[NDJSON].splitlines()]
    assert [json.loads(line) for line in found.text.splitlines()] == sent
    assert found.headers["peewit-labels-seq"] == "2"


@pytest.mark.parametrize("media_type", [CSV, NDJSON, PARQUET, ARROW])
def test_what_is_read_can_be_put_again(graph: Api, media_type: str) -> None:
    graph.put_labels({"a": 1, "b": -2})
    found = graph.call("GET", "/graphs/g/labels", 200, headers={"Accept": media_type})
    headers = {"Content-Type": media_type}
    graph.call("PUT", "/graphs/g/labels", 200, content=found.content, headers=headers)
    assert graph.home.labels.current(graph.home.catalog.get("g").id).labels == [1, -2]


@pytest.mark.slow
@pytest.mark.parametrize("media_type", [CSV, NDJSON, PARQUET, ARROW])
def test_what_is_put_again_is_judged_by_as_before(graph: Api, media_type: str) -> None:
    put = "/graphs/g/labels?unknown=keep"
    rows = [
        {"node": "a", "label": "x", "origin": "random", "annotator": "Ann"},
        {"node": "b", "label": "y", "origin": "suggested"},
        {"node": "c", "label": "x", "annotator": " Bob "},
    ]
    graph.call("PUT", put, 200, json={"labels": rows})
    found = graph.call("GET", "/graphs/g/labels", 200, headers={"Accept": media_type})
    graph.create_graph("other")
    headers = {"Content-Type": media_type}
    again = "/graphs/other/labels?unknown=keep"
    graph.call("PUT", again, 200, content=found.content, headers=headers)
    said = [("random", "Ann"), ("suggested", None), ("given", "Bob")]
    for name in ("g", "other"):
        current = graph.home.labels.current(graph.home.catalog.get(name).id)
        told = zip(current.origins.to_pylist(), current.annotators.to_pylist(), strict=True)
        assert (current.nodes.to_pylist(), list(told)) == (["a", "b", "c"], said)


def test_a_column_counts_where_the_query_says_nothing(graph: Api) -> None:
    headers = {"Content-Type": CSV}
    table = b"node,label,origin,annotator\na,x,Oslo,7\nb,y,random,\n"
    refused = graph.problem("PUT", "/graphs/g/labels", 422, content=table, headers=headers)
    assert (refused["argument"], refused["row"], refused["value"]) == ("origin", 0, "'Oslo'")
    assert "say one of them for all rows" in refused["detail"]
    put = "/graphs/g/labels?origin=suggested"
    assert graph.call("PUT", put, 200, content=table, headers=headers).json()["accepted"] == 2
    current = graph.home.labels.current(graph.home.catalog.get("g").id)
    assert current.origins.to_pylist() == ["suggested", "suggested"]
    assert current.annotators.to_pylist() == ["7", None]
    long = table.replace(b"Oslo,7", b"given," + b"n" * 101)
    refused = graph.problem("PUT", "/graphs/g/labels", 422, content=long, headers=headers)
    assert (refused["argument"], refused["row"]) == ("annotator", 0)
    named = "/graphs/g/labels?annotator=Eve"
    graph.call("PUT", named, 200, content=long, headers=headers)
    current = graph.home.labels.current(graph.home.catalog.get("g").id)
    assert current.origins.to_pylist() == ["given", "random"]
    assert current.annotators.to_pylist() == ["Eve", "Eve"]


@pytest.mark.parametrize("n_rows", [20, 2_000])  # written row by row, and by the driver
def test_every_row_may_have_another_annotator(graph: Api, n_rows: int) -> None:
    rows = [f"n{number},x,random,who {number}\n" for number in range(n_rows)]
    table = ("node,label,origin,annotator\n" + "".join(rows)).encode()
    headers = {"Content-Type": CSV}
    answer = graph.call("PUT", "/graphs/g/labels?unknown=keep", 200, content=table, headers=headers)
    said = answer.json()
    assert (said["labels_seq"], said["accepted"], said["left_out"]) == (n_rows, n_rows, {})
    current = graph.home.labels.current(graph.home.catalog.get("g").id)
    assert current.annotators.to_pylist() == [f"who {number}" for number in range(n_rows)]
    assert set(current.origins.to_pylist()) == {"random"}


def test_errors_name_the_row_of_the_table(graph: Api) -> None:
    put, headers = "/graphs/g/labels?unknown=keep", {"Content-Type": CSV}
    for rows, row in (
        ("a,x,\n,,\n,,\nb,y,Oslo\n", 3),
        ("a,x,random\nb,y,random\nc," + 1_500 * "z" + ",suggested\n", 2),
    ):
        table = f"node,label,origin\n{rows}".encode()
        assert graph.problem("PUT", put, 422, content=table, headers=headers)["row"] == row
    named = put + "&label_column=hue"
    table = b"node,hue,origin\na,,\nb,,\nc,red,Oslo\n"
    assert graph.problem("PUT", named, 422, content=table, headers=headers)["row"] == 2
    for annotator in ({"a": 1}, [], False, 1.5):
        body = {"labels": [{"node": "a", "label": "x", "annotator": annotator}]}
        refused = graph.problem("PUT", put, 422, json=body)
        assert (refused["argument"], refused["row"]) == ("annotator", 0)


@pytest.mark.parametrize("media_type", [ARROW, PARQUET])
@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 2], pa.timestamp("ns")),
        pa.array([{"city": "Oslo"}, None]),
        pa.array([[1.0], [2.0]]),
        pa.array([b"random", b"given"]),
        pa.array([1.5, 2.5]),
    ],
)
def test_columns_that_cannot_say_it_are_passed_over(
    graph: Api, media_type: str, column: pa.Array
) -> None:
    columns = {"#id": ["a", "b"], "label": ["x", "y"], "origin": column, "annotator": ["Ann", ""]}
    content = (as_arrow if media_type == ARROW else as_parquet)(pa.table(columns))
    headers = {"Content-Type": media_type}
    put = "/graphs/g/labels?node=%23id"
    graph.call("PUT", put, 200, content=content, headers=headers)
    current = graph.home.labels.current(graph.home.catalog.get("g").id)
    assert current.origins.to_pylist() == ["imported", "imported"]
    assert current.annotators.to_pylist() == ["Ann", None]


def test_a_column_that_stands_twice_is_passed_over(graph: Api) -> None:
    headers = {"Content-Type": CSV}
    table = b"node,label,origin,origin\na,x,random,Oslo\n"
    graph.call("PUT", "/graphs/g/labels", 200, content=table, headers=headers)
    current = graph.home.labels.current(graph.home.catalog.get("g").id)
    assert current.origins.to_pylist() == ["imported"]


def test_a_column_of_labels_may_be_called_origin(graph: Api) -> None:
    headers = {"Content-Type": CSV}
    table = b"node,origin,annotator\na,Oslo,Ann\nb,Rome,\n"
    put = "/graphs/g/labels?label_column=origin"
    graph.call("PUT", put, 200, content=table, headers=headers)
    record = graph.home.catalog.get("g")
    current = graph.home.labels.current(record.id, column="origin")
    assert current.labels == ["Oslo", "Rome"]
    assert current.origins.to_pylist() == ["imported", "imported"]
    assert current.annotators.to_pylist() == ["Ann", None]


def test_unknown_nodes_refuse_the_rows_of_everybody(graph: Api) -> None:
    headers = {"Content-Type": CSV}
    table = b"node,label,origin\na,x,random\nnobody,y,suggested\n"
    refused = graph.problem("PUT", "/graphs/g/labels", 422, content=table, headers=headers)
    assert (refused["refused"], refused["accepted"]) == (["nobody"], 0)
    assert graph.call("GET", "/graphs/g", 200).json()["labels_seq"] == 0


def test_of_a_node_named_twice_the_later_row_says_where_it_comes_from(graph: Api) -> None:
    rows = [("a", "suggested"), ("b", "random"), ("a", "random"), ("b", "suggested")]
    labels = [{"node": node, "label": "x", "origin": origin} for node, origin in rows]
    graph.call("PUT", "/graphs/g/labels", 200, json={"labels": labels})
    current = graph.home.labels.current(graph.home.catalog.get("g").id)
    assert current.origins.to_pylist() == ["random", "suggested"]


def test_tables_wait_for_each_other_and_single_labels_for_none(
    graph: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, most, at_work = Labeling.put, 0, 0
    lock, may_end, are_held = Lock(), Event(), Event()

    def held(self: Labeling, record: Any, rows: Any, **options: Any) -> Any:
        nonlocal most, at_work
        if len(rows[""].nodes) == 1:
            return put(self, record, rows, **options)
        with lock:
            at_work += 1
            most = max(most, at_work)
            if at_work == 2:
                are_held.set()
        assert may_end.wait(30)
        with lock:
            at_work -= 1
        return put(self, record, rows, **options)

    monkeypatch.setattr(Labeling, "put", held)
    headers = {"Content-Type": CSV}

    def send(_number: int) -> int:
        answer = graph.call("PUT", "/graphs/g/labels", 200, content=CONTENT[CSV], headers=headers)
        return int(answer.json()["labels_seq"])

    with ThreadPoolExecutor(6) as senders:
        answers = senders.map(send, range(6))
        assert are_held.wait(30)
        assert graph.put_labels({"a": "x"})["labels_seq"] == 1  # while all others wait
        may_end.set()
        assert sorted(answers) == [3, 5, 7, 9, 11, 13]
    assert most == 2


def test_the_latest_label_holds_and_can_be_taken_back(graph: Api) -> None:
    graph.put_labels({"a": "x", "b": "y"})
    assert graph.put_labels({"a": "z"})["labels_seq"] == 3
    taken = graph.call("DELETE", "/graphs/g/labels?node=b&node=c", 200).json()
    assert (taken["accepted"], taken["labels_seq"]) == (1, 4)
    left = graph.call("GET", "/graphs/g/labels?format=csv", 200).text
    assert left == '"node","label","origin","annotator","key"\n"a","z","given",,\n'


@pytest.mark.parametrize("media_type", ["application/json", CSV])
def test_where_labels_come_from_is_stored_and_read(graph: Api, media_type: str) -> None:
    headers = {"Content-Type": media_type}
    content = CONTENT[media_type]
    path = "/graphs/g/labels?origin=random"
    graph.call("PUT", path, 200, content=content, headers=headers)
    told = graph.call("GET", "/graphs/g/labels?format=ndjson", 200).text.splitlines()
    assert {json.loads(line)["origin"] for line in told} == {"random"}
    bad = "/graphs/g/labels?origin=luck"
    problem = graph.problem("PUT", bad, 422, content=content, headers=headers)
    assert problem["argument"] == "origin"
    assert problem["value"] == "luck"
    assert "'given', 'random', 'suggested' or 'imported'" in problem["detail"]


def test_a_label_of_an_unknown_node_refuses_the_whole_file(refusing: Api) -> None:
    body = b"node,label\na,x\nnobody,y\nnoone,y\n"
    headers = {"Content-Type": CSV}
    problem = refusing.problem("PUT", "/graphs/g/labels", 422, content=body, headers=headers)
    assert problem["title"] == "Unknown nodes"
    assert problem["refused"] == ["nobody", "noone"]
    assert (problem["n_refused"], problem["accepted"], problem["labels_seq"]) == (2, 0, 0)
    assert refusing.call("GET", "/graphs/g/labels?format=ndjson", 200).text == ""


def test_labels_of_unknown_nodes_are_kept_when_asked(graph: Api) -> None:
    headers = {"Content-Type": CSV}
    path = "/graphs/g/labels?unknown=keep"
    kept = graph.call("PUT", path, 200, content=b"node,label\nlater,x\n", headers=headers)
    assert kept.json()["accepted"] == 1
    graph.problem("PUT", "/graphs/g/labels?unknown=maybe", 422, content=b"", headers=headers)


def test_a_label_of_a_word_for_nothing_needs_its_node(api: Api) -> None:
    api.create_graph("g")
    path, options = "/graphs/g/labels?unknown=keep", {"headers": {"Content-Type": CSV}}
    content = b"node,label\nlater,x\nNA,x\n"
    problem = api.problem("PUT", path, 422, content=content, **options)
    assert (problem["argument"], problem["value"]) == ("node", "'NA'")
    api.call("POST", "/graphs/g/edges?missing_ids=keep", 202, content=b"src,dst\nNA,b\n", **options)
    api.ingest()
    assert api.call("PUT", path, 200, content=content, **options).json()["accepted"] == 2


def test_classes_that_hardly_differ_are_told(graph: Api) -> None:
    options = {"headers": {"Content-Type": CSV}}
    content = "node,label\na,Spam\nb,caf\u00e9\n".encode()
    first = graph.call("PUT", "/graphs/g/labels", 200, content=content, **options).json()
    assert first["note"] is None
    content = "node,label\nc,spam\nb,cafe\u0301\n".encode()
    second = graph.call("PUT", "/graphs/g/labels", 200, content=content, **options).json()
    alike = "classes differ only in case, blanks or Unicode form: 'Spam' and 'spam'"
    assert second["note"] == alike
    third = b"node,label\na,ham\nb,ham\nc,junk mail\n"
    told = graph.call("PUT", "/graphs/g/labels", 200, content=third, **options).json()
    assert told["note"] is None


def test_words_that_may_be_classes_are_told_or_left_out(graph: Api) -> None:
    options = {"headers": {"Content-Type": CSV}}
    content = b"node,label\na,Unlabeled\nb,x\nc,-\n"
    said = graph.call("PUT", "/graphs/g/labels", 200, content=content, **options).json()
    assert said["left_out"] == {"Unlabeled": 1}
    assert "labels are called as nothing is: 1 '-' (no_label=- leaves" in said["note"]
    unsure = b"node,label\na,Not sure\nb,x\nc,skip\n"
    told = graph.call("PUT", "/graphs/g/labels", 200, content=unsure, **options).json()
    assert "called as nothing is: 1 'Not sure', 1 'skip' (no_label=Not sure" in told["note"]
    for written in (b"a;1,5\nb;0", b"a;$5\nb;$6", b"a;1 000\nb;2", b"a;50%\nb;20%"):
        numbers = b"node;label\n" + written
        told = graph.call("PUT", "/graphs/g/labels", 200, content=numbers, **options).json()
        assert "make words of the others" in told["note"]
    for classes in (b"a,1.2.3\nb,1.2.4", b"a,2026-01-01\nb,x", b"a,5%\nb,low", b"a,1\nb,1.5"):
        words = b"node,label\n" + classes
        told = graph.call("PUT", "/graphs/g/labels", 200, content=words, **options).json()
        assert told["note"] is None
    surely = b"node,label,Confidence\na,x,0.9\n"
    said = graph.call("PUT", "/graphs/g/labels", 200, content=surely, **options).json()
    assert said["note"] == "column 'Confidence' is not heeded: labels count alike"
    path = "/graphs/g/labels?no_label=-&keep_word=unlabeled"
    said = graph.call("PUT", path, 200, content=content, **options).json()
    assert (said["left_out"], said["note"]) == ({"-": 1}, None)
    content = b"node,label\na,+\nb,-\n"
    said = graph.call("PUT", "/graphs/g/labels", 200, content=content, **options).json()
    assert (said["left_out"], said["note"]) == ({}, None)


def test_numbers_of_text_are_one_class_or_told(graph: Api) -> None:
    options = {"headers": {"Content-Type": CSV}}
    path = "/graphs/g/labels"
    graph.call("PUT", path, 200, content=b"node,label\na,01\nb,2\n", **options)
    said = graph.call("PUT", path, 200, content=b"node,label\nb,1.0\nc,2.0\n", **options).json()
    assert said["note"] == "classes are one number written in several ways: '01' and '1'"
    rows = graph.call("GET", path, 200, headers={"Accept": CSV}).text.splitlines()
    assert [row.split(",")[1] for row in rows[1:]] == ['"01"', '"1"', '"2"']
    content = b"node,label\na,1.0\nb,1\nc,spam\n"
    said = graph.call("PUT", path, 200, content=content, **options).json()
    assert said["note"] == "classes are one number written in several ways: '1' and '1.0'"


def test_the_last_label_is_the_latest_where_rows_have_times(graph: Api) -> None:
    csv = {"headers": {"Content-Type": CSV}}
    content = b"node,label,time\na,x,2026-02-01\na,y,2026-01-01\nb,x,2026-01-01\n"
    path = "/graphs/g/labels?contradictions=last"
    said = graph.call("PUT", path, 200, content=content, **csv).json()
    assert "the label of the latest 'time' holds where a node has several" in said["note"]
    rows = graph.call("GET", "/graphs/g/labels", 200, headers={"Accept": CSV}).text.splitlines()
    assert [row.split(",")[:2] for row in rows[1:]] == [['"a"', '"x"'], ['"b"', '"x"']]
    content = content.replace(b"2026-02-01", b"")
    said = graph.call("PUT", path, 200, content=content, **csv).json()
    assert "column 'time' is not heeded, as some rows have no time there" in said["note"]
    content = b'{"node": "a", "label": "x", "when": 1770000000}\n'
    content += b'{"node": "a", "label": "y", "when": 1760000000}\n'
    ndjson = {"headers": {"Content-Type": NDJSON}, "content": content}
    graph.call("PUT", f"{path}&time_column=when", 200, **ndjson)
    rows = graph.call("GET", "/graphs/g/labels", 200, headers={"Accept": CSV}).text.splitlines()
    assert rows[-1].startswith('"a","x"')
    for query, argument in (
        ("contradictions=last&time_column=at", "at"),
        ("time_column=when", "time_column"),
    ):
        problem = graph.problem("PUT", f"/graphs/g/labels?{query}", 422, **ndjson)
        assert problem["argument"] == argument


def test_columns_of_givers_may_be_called_otherwise(graph: Api) -> None:
    options = {"headers": {"Content-Type": CSV}}
    content = b"node,label,who,from,weight\na,x,ann,random,2\nb,y,,,1\n"
    path = "/graphs/g/labels?annotator_column=who&origin_column=from"
    said = graph.call("PUT", path, 200, content=content, **options).json()
    assert said["note"] == "column 'weight' is not heeded: labels count alike"
    rows = graph.call("GET", "/graphs/g/labels", 200, headers={"Accept": CSV}).text.splitlines()
    assert rows[1] == '"a","x","random","ann",'
    assert rows[2].startswith('"b","y","imported",')
    problem = graph.problem("PUT", f"{path}&annotator=bob", 422, content=content, **options)
    assert problem["argument"] == "annotator_column"
    path = "/graphs/g/labels?annotator_column=whom"
    problem = graph.problem("PUT", path, 422, content=content, **options)
    assert "column 'whom' is missing" in problem["detail"]
    rows = pa.table({"node": ["a"], "label": ["x"], "who": [1.5]})
    options = {"headers": {"Content-Type": ARROW}, "content": as_arrow(rows)}
    problem = graph.problem("PUT", path.replace("whom", "who"), 422, **options)
    assert "column 'who' must hold text or whole numbers, got type double" in problem["detail"]


@pytest.mark.parametrize("media_type", [CSV, NDJSON, PARQUET, ARROW])
def test_columns_that_may_say_more_of_labels_are_told(graph: Api, media_type: str) -> None:
    rows = {
        "node": ["a", "b"],
        "label": ["x", "y"],
        "Rater": ["ann", "bob"],
        "labeled_at": ["2026-01-01", "2026-01-02"],
        "status": ["deleted", "open"],
    }
    table = pa.table(rows)
    content = {
        CSV: "\n".join(map(",".join, [rows, *zip(*rows.values(), strict=True)])).encode(),
        NDJSON: "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode(),
        PARQUET: as_parquet(table),
        ARROW: as_arrow(table),
    }[media_type]
    options = {"content": content, "headers": {"Content-Type": media_type}}
    status = "column 'status' is passed over, and says that 1 of the first rows does not hold any"
    rater = "'Rater' is passed over; say annotator_column='Rater' where it says who has given"
    time = "column 'labeled_at' is passed over; say time_column='labeled_at' where it says when"
    for query, notes in (
        ("", (status, rater)),
        ("contradictions=last", (status, rater, time)),
        ("annotator=me", (status,)),
        ("annotator_column=Rater&contradictions=last&time_column=", (status,)),
    ):
        note = graph.call("PUT", f"/graphs/g/labels?{query}", 200, **options).json()["note"]
        assert [each in note for each in (status, rater, time)] == [
            each in notes for each in (status, rater, time)
        ]


def test_annotators_of_another_type_are_told(graph: Api) -> None:
    rows = pa.table({"node": ["a"], "label": ["x"], "annotator": [1.5]})
    options = {"content": as_parquet(rows), "headers": {"Content-Type": PARQUET}}
    note = graph.call("PUT", "/graphs/g/labels", 200, **options).json()["note"]
    assert note == "column 'annotator' is passed over, as it holds neither text nor whole numbers"


def test_a_graph_keeps_names_of_the_columns_of_givers_and_times(graph: Api) -> None:
    columns = {"origin": "from", "annotator": "who", "label_time": "when"}
    graph.call("PATCH", "/graphs/g", 200, json={"columns": columns})
    options = {"headers": {"Content-Type": CSV}}

    def put(query: str, content: bytes) -> list[list[str]]:
        path = f"/graphs/g/labels?{query}"
        graph.call("PUT", path, 200, content=content, **options)
        answer = graph.call("GET", "/graphs/g/labels", 200, headers={"Accept": CSV})
        lines = [row.split(",") for row in answer.text.replace('"', "").splitlines()]
        return [line[1:4] for line in lines[1:]]

    content = b"node,label,who,from,when\na,x,ann,random,2\na,y,bob,given,1\n"
    content = content.replace(b",2\n", b",2026-01-02\n").replace(b",1\n", b",2026-01-01\n")
    assert put("contradictions=last", content) == [["x", "random", "ann"]]
    assert put("contradictions=last&time_column=", content) == [["y", "given", "bob"]]
    assert put("contradictions=last&annotator_column=", content) == [["x", "random", ""]]
    usual = b"node,label,origin,annotator\na,y,suggested,cid\n"  # as exports have it
    assert put("", usual) == [["y", "suggested", "cid"]]
    content = b"node,label,from\na,x,Oslo\n"
    problem = graph.problem("PUT", "/graphs/g/labels", 422, content=content, **options)
    assert "column 'from' must hold given, random" in problem["detail"]


def test_a_label_right_after_a_push_is_taken(api: Api) -> None:
    api.create_graph("g")
    api.push(EDGES, CSV)
    api.push(b"src,dst\nc,d\n", CSV)
    assert api.put_labels({"a": "x", "d": "y"})["accepted"] == 2
    body = {"labels": [{"node": "e", "label": "x"}]}
    assert api.problem("PUT", "/graphs/g/labels", 422, json=body)["refused"] == ["e"]


def test_integer_nodes_may_come_as_strings(api: Api) -> None:
    api.create_graph("g", node_ids="int64")
    large = 2**63 - 1
    api.push(f"src,dst\n{large},-5\n".encode(), CSV)
    assert api.put_labels({str(large): "x"})["accepted"] == 1
    api.ingest()
    assert api.put_labels({-5: "y"})["accepted"] == 1
    found = api.call("GET", "/graphs/g/labels?format=ndjson", 200).text
    assert [json.loads(line) for line in found.splitlines()] == [
        {"node": str(large), "label": "x", "origin": "given", "annotator": None, "key": None},
        {"node": -5, "label": "y", "origin": "given", "annotator": None, "key": None},
    ]
    api.call("DELETE", f"/graphs/g/labels?node={large}", 200)
    assert api.problem("DELETE", "/graphs/g/labels?node=x", 422)["argument"] == "node"


@pytest.mark.parametrize(
    ("body", "row"),
    [
        (b"{}", None),
        (b"[1]", None),
        (b"{", None),
        (b'{"labels":[{"node":"a","label":"x"},{"node":"b"}]}', 1),
        (b'{"labels":[{"node":"a","label":"x"},{"node":"b","label":true}]}', 1),
        (b'{"labels":[{"node":"a","label":"x"}],"unknown":"keep"}', None),
        (b'{"labels":[{"node":"a\\u0000","label":"x"}]}', 0),
        (b'{"labels":[{"node":"a","label":"%b"}]}' % (b"x" * 1001), 0),
    ],
)
def test_a_wrong_body_stores_nothing(refusing: Api, body: bytes, row: int | None) -> None:
    headers = {"Content-Type": "application/json"}
    problem = refusing.problem("PUT", "/graphs/g/labels", 422, content=body, headers=headers)
    assert problem.get("row") == row
    assert refusing.call("GET", "/graphs/g", 200).json()["labels_seq"] == 0


def test_a_changed_label_leads_to_one_solve(graph: Api) -> None:
    graph.call("PATCH", "/graphs/g", 200, json={"auto_solve": {"model": "hfs"}})
    graph.put_labels({"a": "x"})
    graph.put_labels({"c": "y"})
    graph.call("DELETE", "/graphs/g/labels?node=nobody", 200)
    (job,) = graph.call("GET", "/jobs?graph=g", 200).json()["jobs"]
    assert (job["model"], job["status"]) == ("hfs", "queued")


def test_a_new_auto_solve_counts_the_labels_that_are_there(api: Api) -> None:
    bring_communities(api)
    assert api.call("GET", "/jobs?graph=g", 200).json()["jobs"] == []
    change = {"auto_solve": {"model": "hfs"}}
    api.call("PATCH", "/graphs/g", 200, json=change)
    api.call("PATCH", "/graphs/g", 200, json=change | {"epsilon": 0.5})
    (job,) = api.call("GET", "/jobs?graph=g", 200).json()["jobs"]
    assert (job["model"], job["status"]) == ("hfs", "queued")


def test_nothing_is_solved_before_there_is_something_to_solve(graph: Api) -> None:
    def asked() -> int:
        return len(graph.call("GET", "/jobs?graph=g", 200).json()["jobs"])

    graph.call("PATCH", "/graphs/g", 200, json={"auto_solve": {"model": "hfs"}})
    graph.put_labels({"a": "x", "b": "x"})
    assert asked() == 0
    real = {"auto_solve": {"model": "stable-hfs", "parameters": {"target": "real"}}}
    graph.call("PATCH", "/graphs/g", 200, json=real)
    assert asked() == 1


def test_an_accepted_format_is_chosen_by_preference(refusing: Api) -> None:
    def media_type(accept: str) -> str:
        found = refusing.call("GET", "/graphs/g/labels", 200, headers={"Accept": accept})
        assert found.headers["vary"] == "Accept"
        return found.headers["content-type"].partition(";")[0]

    assert media_type("*/*") == CSV
    assert media_type("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8") == CSV
    assert media_type(f"text/csv;q=0.5, {PARQUET}") == PARQUET
    assert media_type(f"text/csv;q=0, {NDJSON};q=0.1") == NDJSON
    refused = refusing.problem("GET", "/graphs/g/labels", 406, headers={"Accept": "image/png"})
    assert ARROW in refused["detail"]
    refusing.problem("GET", "/graphs/g/labels?format=xml", 422)
