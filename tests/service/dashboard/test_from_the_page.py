"""From an empty home to predictions by forms: graphs, files and their columns, next steps."""

import bz2
import gzip
import io
import lzma
import os
import re
import time
import zipfile
from functools import partial
from html import unescape
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.service.dashboard.api_with_dashboard import create_app
from peewit.service.dashboard.model_guide import Answers, advice
from peewit.service.dashboard.uploads import KEPT_SECONDS, Uploads
from peewit.service.inbox.block_rows import RELATED
from peewit.service.jobs.ingest_steps import IngestSteps, StepNow
from peewit.service.settings import Settings
from peewit.streaming.graph_paths import GraphPaths
from tests.service.api.conftest import CSV, Api, as_arrow, as_parquet, bring_communities, serving
from tests.service.dashboard.forms import PIECE, look, send
from tests.service.live_sources.tables import make_table


def zipped(content: bytes) -> bytes:
    """A ZIP archive of one file."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("e.csv", content)
    return archive.getvalue()


AS_CSV = {"Content-Type": CSV}
PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zip": zipped}
EDGES = "from,to,amount,note\na,b,2,x\nb,c,1,\nc,d,0.5,y\n"


def upload(api: Api, holds: str, name: str, content: bytes, expected: int = 201) -> str:
    """Address of the page of a file that is sent as the script sends it."""
    answer = _sent(api, holds, name, content)
    assert answer.status_code == expected, answer.text
    body = answer.json()
    return str(body["location"] if expected == 201 else body["detail"])


def _sent(api: Api, holds: str, name: str, content: bytes) -> httpx.Response:
    headers = {"Origin": str(api.client.base_url).rstrip("/"), "Content-Type": CSV, **PIECE}
    path = f"/graphs/g/{holds}/files?{urlencode({'name': name})}"
    return api.client.post(path, content=content, headers=headers)


def waiting(api: Api) -> list[Path]:
    """Files that wait for their columns."""
    return sorted(api.home.settings.graphs_directory.glob("*/uploads/*/*/*"))


def test_a_graph_is_made_by_a_form_that_keeps_what_was_typed(pages: Api) -> None:
    assert 'href="/new-graph"' in look(pages, "/")
    refused = send(pages, "/new-graph", 422, name="My graph", epsilon="2", max_edges="many")
    assert "must be a whole number" in refused.text
    assert 'value="My graph"' in refused.text
    assert "<details open>" in refused.text
    assert (
        "must be a finite number &gt; 0 and &lt; 1"
        in send(pages, "/new-graph", 422, name="g", epsilon="2").text
    )
    for wrong in ("1", "many"):
        refused = send(pages, "/new-graph", 422, name="g", expected_nodes=wrong).text
        assert "Nodes to be ready for (expected_nodes) must" in refused
    fields = {
        "name": "g",
        "node_ids": "int64",
        "epsilon": "0.5",
        "max_edges": "50,000",
        "max_nodes": "1,000",
        "keep_raw": "",
        "deletions": "off",
        "parallel": "sum",
        "window.length": "30d",
        "window.by": "arrival",
        "window.relations": "login=7d, card=none",
        "snapshot_every.edges": "5000",
        "auto_solve": "1",
    }
    assert send(pages, "/new-graph", **fields).headers["location"] == "/graphs/g/edges"
    settings = pages.home.catalog.get("g").settings
    assert (settings.node_ids, settings.epsilon, settings.max_nodes) == ("int64", 0.5, 1000)
    assert settings.max_edges == 50_000
    assert (settings.keep_raw, settings.deletions) == (False, "exact")
    assert settings.window is not None
    assert settings.window.length == 30 * 86_400
    assert settings.window.relations == {"login": 7 * 86_400, "card": None}
    wrong_lengths = {"window.length": "30d", "window.relations": "login"}
    refused = send(pages, "/new-graph", 422, name="h", **wrong_lengths)
    assert (
        "Edges of relations live for (window.relations) must read relation=length" in refused.text
    )
    assert settings.snapshot_every is not None
    assert settings.snapshot_every.edges == 5000
    assert settings.auto_solve is not None
    assert settings.auto_solve.model == "auto"
    assert "which another graph has" in send(pages, "/new-graph", 422, name="g").text


def test_edges_of_a_file_are_mapped_looked_at_and_taken_once(pages: Api) -> None:
    pages.create_graph("g")
    assert "Next: edges" in look(pages, "/graphs/g")
    for proposed in (["from", "to"], ["from", "to", "amount"]):  # then as they were taken
        address = upload(pages, "edges", "../a b/pay.csv.gz", gzip.compress(EDGES.encode()))
        page = look(pages, address)
        assert "pay.csv" in page
        assert re.findall(r"<option value=\"(\w+)\" selected>", page) == proposed
        chosen = {"src": "from", "dst": "to", "weight": "amount"}
        report = look(pages, f"{address}/look?{urlencode(chosen)}", headers=PIECE)
        assert "3 edges" in report
        taken = send(pages, f"{address}?{urlencode(chosen)}").headers["location"]
        assert waiting(pages) == []
    assert "counts once" in look(pages, taken)
    step = look(pages, "/graphs/g")
    assert "Edges are being read" in step
    assert '<progress max="1" value="0.0"' in step
    pages.ingest()
    progress = pages.home.catalog.get("g").progress
    assert (progress.edges_seen, progress.n_nodes) == (3, 4)
    weights = pages.call("GET", "/graphs/g/snapshots/1/edges?format=csv", 200).text
    assert "2" in weights
    assert "Next: labels" in look(pages, "/graphs/g")


@pytest.mark.parametrize("ending", PACKERS)
def test_packed_files_are_read_as_the_others_are(pages: Api, ending: str) -> None:
    pages.create_graph("g")
    edges = upload(pages, "edges", f"e.csv.{ending}", PACKERS[ending](b"src,dst\na,b\nb,c\n"))
    send(pages, f"{edges}?src=src&dst=dst")
    pages.ingest()
    assert pages.home.catalog.get("g").progress.edges_seen == 2
    labels = upload(pages, "labels", f"l.csv.{ending}", PACKERS[ending](b"node,label\na,x\n"))
    report = look(pages, f"{labels}/look?node=node&label=label", headers=PIECE)
    assert "1 label" in report


def test_kinds_of_nodes_are_named_on_the_page(pages: Api) -> None:
    pages.create_graph("g")
    logins = b"account_id,device_id\n1,1\n2,1\n3,2\n"
    address = upload(pages, "edges", "logins.csv", logins)
    assert 'name="src_kind" value=""' in look(pages, address)  # nothing says that kinds are meant
    plain = {"src": "account_id", "dst": "device_id"}
    report = look(pages, f"{address}/look?{urlencode(plain)}", headers=PIECE)
    assert "is in 'account_id' and in 'device_id': one node" in report
    chosen = urlencode(plain | {"src_kind": "account", "dst_kind": "device"})
    report = look(pages, f"{address}/look?{chosen}", headers=PIECE)
    assert "account:1" in report
    assert "one node" not in report
    send(pages, f"{address}?{chosen}")
    pages.ingest()
    record = pages.home.catalog.get("g")
    assert (record.settings.node_ids, record.progress.n_nodes) == ("typed", 5)
    again = upload(pages, "edges", "more.csv", b"account_id,card_no\n1,x\n")
    page = look(pages, again)
    assert 'name="src_kind" value="account"' in page
    assert 'name="dst_kind" value="card"' in page
    labels = upload(pages, "labels", "l.csv", b"account_id,label\n1,a\n3,b\n")
    assert 'name="node_kind" value="account"' in look(pages, labels)
    chosen = urlencode({"node": "account_id", "node_kind": "account", "label": "label"})
    assert "2 labels of 2 classes" in look(pages, f"{labels}/look?{chosen}", headers=PIECE)
    send(pages, f"{labels}?{chosen}", origin="random")
    assert set(pages.home.labels.of_nodes(record.id, ["account:1", "1"])) == {"account:1"}
    bare = urlencode({"src": "account_id", "dst": "card_no"})
    report = look(pages, f"{again}/look?{bare}", headers=PIECE)
    assert "name it before the column: KIND:account_id" in report


@pytest.mark.parametrize("is_sent_first", [True, False])
def test_a_file_that_came_by_another_door_counts_once(
    pages: Api, tmp_path: Path, is_sent_first: bool
) -> None:
    graph_id = pages.create_graph("g")["id"]
    columns = {"src": "from", "dst": "to", "weight": "amount"}
    place = tmp_path / "pay.csv.gz"
    content = gzip.compress(EDGES.encode(), mtime=0)
    place.write_bytes(content)
    add = partial(pages.home.manifest.sources.add, graph_id, str(place), columns=columns)
    address = upload(pages, "edges", "pay.csv.gz", content)
    query = urlencode(columns)
    for is_sent in (is_sent_first, not is_sent_first):
        if is_sent:
            report = look(pages, f"{address}/look?{query}", headers=PIECE)
            assert (f"the same content from <code>{place}" in report) is not is_sent_first
            told = send(pages, f"{address}?{query}", 303 if is_sent_first else 422)
            assert is_sent_first or f"the same content from {place}" in told.text
        else:
            add()
        pages.ingest()
    assert pages.home.catalog.get("g").progress.edges_seen == 3
    files = pages.call("GET", "/graphs/g/files?status=duplicate", 200).json()["files"]
    assert [each["reason"] for each in files] == [
        "it has the same content as a push; again=True counts it once more"
    ] * int(is_sent_first)
    if is_sent_first:
        add(again=True)
    else:
        send(pages, f"{address}?{query}", again="1")
    for _ in range(2):  # the second time it is in
        pages.ingest()
    assert pages.home.catalog.get("g").progress.edges_seen == 6


def test_a_file_that_was_sent_is_sent_again_where_that_is_meant(pages: Api) -> None:
    graph_id = pages.create_graph("g")["id"]
    query = urlencode({"src": "from", "dst": "to", "weight": "amount"})
    for said, n_rows in (({}, 3), ({}, 3), ({"again": "1"}, 6), ({"again": "1"}, 9), ({}, 9)):
        address = upload(pages, "edges", "pay.csv", EDGES.encode())
        report = look(pages, f"{address}/look?{query}", headers=PIECE)
        assert ("Count it again" in report) is bool(
            pages.home.manifest.counts(graph_id)["committed"]
        )
        send(pages, f"{address}?{query}", **said)
        pages.ingest()
        assert pages.home.catalog.get("g").progress.edges_seen == n_rows


def test_every_row_is_accounted_for_at_every_door(pages: Api, tmp_path: Path) -> None:
    pages.create_graph("g")
    kept, rows = set(), 0
    for number, door in enumerate(("push", "file", "page", "table")):
        ends = [(f"{door}1", "hub", 1), ("hub", f"{door}1", 2), ("a", "b", 1)]
        ends += [("hub", "hub", 1), ("b", "a", 0), ("c", "c", 0)]
        content = "src,dst,weight\n" + "".join(f"{u},{v},{w}\n" for u, v, w in ends)
        rows, kept = rows + len(ends), kept | {door, "ab"}
        if door == "push":
            pages.call("POST", "/graphs/g/edges", 202, content=content.encode(), headers=AS_CSV)
        elif door == "page":
            address = upload(pages, "edges", "rows.csv", content.encode())
            send(pages, f"{address}?{urlencode({'src': 'src', 'dst': 'dst', 'weight': 'weight'})}")
        elif door == "table":
            url = make_table(tmp_path / "table", ends)
            pages.home.manifest.sources.add(pages.home.catalog.get("g").id, url, kind="delta")
        else:
            place = tmp_path / "rows.csv"
            place.write_text(content + "d,e,-1\n")
            pages.home.manifest.sources.add(
                pages.home.catalog.get("g").id, str(place), follow=False, max_bad_rows=1
            )
        pages.ingest()
        shown = pages.call("GET", "/graphs/g", 200).json()
        left_out = shown["left_out"]
        loops = number + 1
        assert left_out == {
            "self_loops": loops,
            "zero_weights": 2 * loops,
            "empty_cells": 0,
            "too_old": 0,
        }
        assert shown["edges_seen"] == rows
        assert shown["edges_kept"] == len(kept)
        assert shown["edges_kept"] + shown["n_merged"] + sum(left_out.values()) == rows
        assert shown["n_bad_rows"] == int(number > 0)


def test_bad_rows_are_shown_before_they_are_left_out(pages: Api) -> None:
    pages.create_graph("g")
    content = b"src;dst;weight\na;b;1\nb;c;-1\nc\nd;e;2\n"
    address = upload(pages, "edges", "bad.csv", content)
    chosen = urlencode({"src": "src", "dst": "dst", "weight": "weight"})
    report = look(pages, f"{address}/look?{chosen}")  # a whole page where no script runs
    assert "2 bad rows stand in the way" in report
    assert "a row must have 3 fields, got 1" in report
    assert "/uploads/" not in report
    refused = send(pages, f"{address}?{chosen}", 422).text
    assert "2 rows are bad, max_bad_rows 2 leaves them out; one of them" in refused
    assert "(rows count from 0)" in refused
    assert len(waiting(pages)) == 1
    told = send(pages, f"{address}?{chosen}&max_bad_rows=2").headers["location"]
    assert "2 bad rows were left out" in look(pages, told)


def test_columns_of_the_last_file_are_proposed_for_the_next_that_has_them(pages: Api) -> None:
    bring_communities(pages)

    def proposed(holds: str, content: str) -> list[str]:
        page = look(pages, upload(pages, holds, "next.csv", content.encode()))
        return re.findall(r"<option value=\"(\w+)\" selected>", page)

    edges = "payer,payee,weight,amount\nn1,n2,3,2\n"
    assert proposed("edges", edges) == ["weight"]
    address = upload(pages, "edges", "one.csv", edges.encode())
    send(pages, f"{address}?{urlencode({'src': 'payer', 'dst': 'payee', 'weight': 'amount'})}")
    assert proposed("edges", edges) == ["payer", "payee", "amount"]
    assert proposed("edges", "src,dst,amount\n") == ["src", "dst"]
    address = upload(pages, "labels", "one.csv", b"who,kind,note\nn7,left,x\n")
    send(pages, f"{address}?{urlencode({'node': 'who', 'label': 'kind'})}")
    assert proposed("labels", "kind,label,who\nleft,x,n8\n")[:2] == ["who", "kind"]


def test_bad_rows_are_counted_to_the_end_or_told_soon(pages: Api) -> None:
    graph_id = pages.create_graph("g")["id"]
    rows = "".join(f"a{each},b{each},text\n" for each in range(20_000))
    address = upload(pages, "edges", "text.csv", f"src,dst,kind\n1,2,3\n{rows}".encode())
    report = look(pages, f"{address}/look?src=src&dst=dst&weight=kind", headers=PIECE)
    assert "20,000 bad rows stand in the way" in report
    assert "and 19,990 more" in report
    query = "src=src&dst=dst&weight=kind&max_bad_rows=20000"
    taken = send(pages, f"{address}?{query}").headers["location"]
    assert "20,000 bad rows were left out" in look(pages, taken)
    pages.ingest()
    assert pages.home.manifest.n_bad_rows(graph_id) == 20_000
    rows = "".join(f"a{each},b{each},text{each}\n" for each in range(20_000))
    address = upload(pages, "edges", "text.csv", f"src,dst,kind\n1,2,3\n{rows}".encode())
    report = look(pages, f"{address}/look?src=src&dst=dst&weight=kind", headers=PIECE)
    assert "more than 1,000 rows are bad" in report
    assert "choose other columns, or allow more bad rows above" in report


QUOTED = 'src\tdst\n"a\tb\nb\tc\nc\t"d\n'


@pytest.mark.parametrize("holds", ["edges", "labels"])
def test_text_that_does_not_quote_is_read_once_that_is_said(pages: Api, holds: str) -> None:
    pages.create_graph("g")
    text = QUOTED if holds == "edges" else QUOTED.replace("src\tdst", "node\tlabel")
    address = upload(pages, holds, "odd.tsv", text.encode())
    named = {"src": "src", "dst": "dst"} if holds == "edges" else {"node": "node", "label": "label"}
    asked = f"{address}?{urlencode(named)}"
    seen = look(pages, asked) + look(pages, asked.replace("?", "/look?"), headers=PIECE)
    assert "quote" in seen
    assert 'name="quote"' in seen
    said = f"{asked}&quote=none"
    assert 'value="none" selected' in look(pages, said)
    if holds == "edges":
        assert "3 edges" in look(pages, said.replace("?", "/look?"), headers=PIECE)
        send(pages, said)
        pages.ingest()
        assert sorted(pages.edges()) == ['"""a","b",1', '"b","c",1', '"c","""d",1']
    else:
        report = look(pages, f"{said}&unknown=keep".replace("?", "/look?"), headers=PIECE)
        assert "3 labels" in report


def test_without_a_weight_every_edge_counts_one(pages: Api) -> None:
    pages.create_graph("g")
    address = upload(pages, "edges", "w.tsv", b"src\tdst\tweight\na\tb\t7\nb\tc\t9\n")
    report = look(pages, f"{address}/look?src=src&dst=dst", headers=PIECE)
    assert re.findall(r'class="number">(\d+)<', report) == ["1", "1"]


def test_text_without_a_header_line_is_read_by_places(pages: Api) -> None:
    pages.create_graph("g")
    address = upload(pages, "edges", "plain.txt", b"# a comment\n1 2\n2 3\n")
    assert "#1" in look(pages, address)
    query = urlencode({"src": "#1", "dst": "#2", "first_line_is_data": "1"})
    assert "2 edges" in look(pages, f"{address}/look?{query}", headers=PIECE)


def test_columns_keep_their_places_when_the_first_line_is_said_to_be_data(pages: Api) -> None:
    bring_communities(pages)

    def shown(address: str, query: dict[str, str]) -> tuple[list[str], str]:
        page = look(pages, f"{address}?{urlencode(query)}")
        (following,) = re.findall(r'hx-get="([^"]*/look[^"]*)"', page)
        report = look(pages, following, headers=PIECE)
        return sorted(re.findall(r'<option value="([^"]+)" selected>', page)), report

    for holds, roles in (("edges", ("src", "dst")), ("labels", ("label", "node"))):
        address = upload(pages, holds, "bare.csv", b"left,n1\nright,n2\n")
        is_data = {"first_line_is_data": "1"}
        columns, report = shown(address, dict(zip(roles, ("left", "n1"), strict=True)) | is_data)
        assert columns == ["#1", "#2"]
        assert f"2 {holds}" in report
        columns, report = shown(address, dict(zip(roles, ("#1", "#2"), strict=True)))
        assert columns == ["left", "n1"]
        assert f"1 {holds}" in report


@pytest.mark.parametrize(("kind", "write"), [("parquet", as_parquet), ("arrow", as_arrow)])
def test_an_empty_graph_becomes_one_of_whole_numbers(pages: Api, kind: str, write: object) -> None:
    pages.create_graph("g", epsilon=0.4)
    assert callable(write)
    content = write(pa.table({"src": [1, 2], "dst": [2, 3]}))
    address = upload(pages, "edges", f"numbers.{kind}", content)
    assert "Nodes are whole numbers here" in look(pages, address)
    again = send(pages, f"{address}/node-ids").headers["location"]
    graph = pages.home.catalog.get("g")
    assert (graph.settings.node_ids, graph.settings.epsilon) == ("int64", 0.4)
    assert "2 edges" in look(pages, f"{again}/look?src=src&dst=dst", headers=PIECE)
    pages.push(b"src,dst\n1,2\n", CSV)
    refused = send(pages, f"{again}/node-ids", 409).text
    assert "once something has come" in refused


def test_labels_of_a_file_are_mapped_looked_at_and_put(pages: Api) -> None:
    bring_communities(pages)
    lines = '{"who": "n7", "kind": "left"}\n{"who": "n8", "kind": "left"}\n'
    address = upload(pages, "labels", "l.ndjson", lines.encode())
    chosen = urlencode({"node": "who", "label": "kind"})
    report = look(pages, f"{address}/look?{chosen}", headers=PIECE)
    assert "2 labels of 1 class" in report
    assert 'value="imported" selected' in report
    whole = look(pages, f"{address}/look?{chosen}")  # as where no script runs
    assert "2 labels of 1 class" in whole
    assert f'href="{address}?{chosen}&' in whole
    put = send(pages, f"{address}?{chosen}", origin="random").headers["location"]
    assert put == "/graphs/g/labels?put=2"
    (last,) = pages.home.labels.page(pages.home.catalog.get("g").id, limit=1)
    assert last.origin == "random"
    unknown = upload(pages, "labels", "u.csv", b"node,label\nn9,left\nnobody,left\n")
    chosen = urlencode({"node": "node", "label": "label"})
    report = look(pages, f"{unknown}/look?{chosen}", headers=PIECE)
    assert "does not know 1 of the nodes: nobody" in report
    assert "nobody" in send(pages, f"{unknown}?{chosen}", 422).text
    kept = send(pages, f"{unknown}?{chosen}&unknown=keep&into=side").headers["location"]
    assert kept == "/graphs/g/labels?put=2&label_column=side"
    twice = upload(pages, "labels", "t.csv", b"node,label\nn9,left\nn9,right\n")
    report = look(pages, f"{twice}/look?{chosen}", headers=PIECE)
    assert "must have one label" in report
    assert "<form" not in report


def test_words_of_a_file_are_left_out_or_kept_as_labels(pages: Api) -> None:
    bring_communities(pages)
    rows = b"node,label\nn7,left\nn8,unsure\nn9,unknown\nn10,left\nn10,right\n"
    address = upload(pages, "labels", "words.csv", rows)
    asked = {"node": "node", "label": "label", "contradictions": "leave-out"}
    report = look(pages, f"{address}/look?{urlencode(asked)}", headers=PIECE)
    assert "3 rows are left out: 1 “unknown” " in report
    assert "2 of nodes with several labels." in report
    (query,) = re.findall(r'\?([^"]*no_label=unsure[^"]*)">means no label<', report)
    (kept,) = re.findall(r'\?([^"]*keep_word=unknown[^"]*)">it is a label<', report)
    page = look(pages, f"{address}?{query}&no_label=")
    assert 'name="no_label" value="unsure" checked' in page
    report = look(pages, f"{address}/look?{query}", headers=PIECE)
    assert "1 labels of 1 class" in report
    assert "1 “unsure”" in report
    assert "3 labels of 3 classes" in look(pages, f"{address}/look?{kept}", headers=PIECE)
    put = send(pages, f"{address}?{query}").headers["location"]
    assert put == "/graphs/g/labels?put=1&left_out=4"
    assert "4 rows were left out" in look(pages, put)


def test_rows_of_a_file_say_where_their_labels_come_from(pages: Api) -> None:
    bring_communities(pages)
    rows = "node,label,origin,rater\nn7,left,random,Ann\nn8,left,{},Ann\n"
    address = upload(pages, "labels", "l.csv", rows.format("suggested").encode())
    page = look(pages, address)
    (chosen,) = re.findall(r'/look\?([^"]*)" hx-trigger', page)
    named = [("origin_column", "origin"), ("annotator_column", "rater")]
    assert {*named} <= {*parse_qsl(chosen)}
    report = look(pages, f"{address}/look?{chosen}", headers=PIECE)
    assert '<option value="rows" selected>as each row says in column origin' in report
    assert "<td>suggested</td><td>Ann</td>" in report
    assert given_with(pages, address, chosen, "rows") == [("random", "Ann"), ("suggested", "Ann")]
    address = upload(pages, "labels", "o.csv", b"annotator,node,label,rater\nx,n7,left,Ann\n")
    assert ("annotator_column", "rater") in parse_qsl(  # that of the last file
        re.findall(r'/look\?([^"]*)" hx-trigger', look(pages, address))[0]
    )
    address = upload(pages, "labels", "o.csv", rows.format("Oslo").encode())
    report = look(pages, f"{address}/look?{chosen}", headers=PIECE)
    assert "cannot be taken: column 'origin' must hold given" in report
    assert "Oslo" in send(pages, f"{address}?{chosen}", 422, origin="rows").text
    assert given_with(pages, address, chosen, "imported") == [("imported", "Ann")] * 2
    cities = upload(pages, "labels", "c.csv", b"node,label,origin\nn7,left,Oslo\nn8,left,Rome\n")
    assert "origin_column=" not in look(pages, cities)
    chosen = urlencode({"node": "node", "label": "label"})
    assert given_with(pages, cities, chosen, "imported") == [("imported", None)] * 2
    table = b"node,label,annotator\nn7,left,Ann\nn8,left,\n"
    chosen = f"{chosen}&annotator_column=annotator"
    others = upload(pages, "labels", "a.csv", table)
    assert given_with(pages, others, chosen, "given") == [("given", "Ann"), ("given", None)]


def test_the_last_label_of_a_file_is_the_latest_by_the_chosen_column(pages: Api) -> None:
    bring_communities(pages)
    table = b"node,label,when\nn7,left,2026-02-01\nn7,right,2026-01-01\n"
    address = upload(pages, "labels", "l.csv", table)
    chosen = urlencode({"node": "node", "label": "label", "contradictions": "last"})
    for column, label in (("", "right"), ("when", "left")):
        query = f"{chosen}&time_column={column}"
        report = look(pages, f"{address}/look?{query}", headers=PIECE)
        assert ("label of the latest 'when' holds" in report) == bool(column)
        assert f'<th scope="row">n7</th><td>{label}</td>' in report
    table = table.replace(b"2026-01-01", b"then")
    address = upload(pages, "labels", "odd.csv", table)
    assert "column 'when' must" in look(pages, f"{address}/look?{query}", headers=PIECE)


def given_with(pages: Api, address: str, chosen: str, origin: str) -> list[tuple[str, str | None]]:
    """Origin and annotator of the two labels that a file puts, in the order of its rows."""
    send(pages, f"{address}?{chosen}", origin=origin)
    newest = pages.home.labels.page(pages.home.catalog.get("g").id, limit=2)
    return [(each.origin, each.annotator) for each in sorted(newest, key=lambda each: each.node)]


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_file_of_names_alone_is_said_to_have_no_rows(pages: Api, end: str) -> None:
    pages.create_graph("g")
    address = upload(pages, "edges", "none.csv", f"src,dst,weight{end}".encode())
    assert "no row" in look(pages, address)
    report = look(pages, f"{address}/look?src=src&dst=dst", headers=PIECE)
    assert "none.csv has no rows, only the names of its columns: src, dst, weight." in report
    assert "<form" not in report
    address = upload(pages, "labels", "none.csv", f"node,label{end}".encode())
    report = look(pages, f"{address}/look?node=node&label=label", headers=PIECE)
    assert "none.csv has no rows, only the names of its columns: node, label." in report


def test_files_that_cannot_be_taken_are_told_apart(pages: Api) -> None:
    pages.create_graph("g")
    assert "must end in one of" in upload(pages, "edges", "photo.png", b"x", 422)
    told = upload(pages, "edges", "e.csv.gz", b"src,dst\n", 422)
    assert "says that it is compressed (gzip), and it is not" in told
    for ending, pack in PACKERS.items():
        cut = pack(b"src,dst\na,b\n" * 9)[:-20]
        told = upload(pages, "edges", f"e.csv.{ending}", cut, 422)
        assert "as its name says" in told or "is damaged" in told
    assert "must hold something" in upload(pages, "edges", "e.csv", b"", 422)
    address = upload(pages, "edges", "e.parquet", b"no parquet")
    assert "not readable as Parquet" in look(pages, address)
    send(pages, f"{address}/remove")
    assert waiting(pages) == []
    assert "not here any more" in look(pages, address, 404)
    multipart = pages.client.post(
        "/graphs/g/edges/files",
        files={"file": ("e.csv", EDGES.encode(), "text/csv")},
        headers={"Origin": str(pages.client.base_url).rstrip("/")},
    )
    assert multipart.status_code == 303
    assert "amount" in look(pages, multipart.headers["location"])
    foreign = pages.client.post("/graphs/g/edges/files?name=e.csv", content=b"src,dst\na,b\n")
    assert foreign.status_code == 403


def test_files_end_with_the_hour_with_an_erasure_and_at_the_limit(settings: Settings) -> None:
    small = settings.model_copy(update={"max_body_bytes": 1000, "max_backlog_bytes": 1500})
    with serving(small, create=create_app) as api:
        api.create_graph("g")
        first = upload(api, "edges", "e.csv", b"src,dst\n" + b"a,b\n" * 200)
        assert "at most 1000 bytes" in upload(api, "edges", "e.csv", b"a" * 1001, 413)
        for ending, pack in PACKERS.items():
            bomb = pack(b"a" * 100_000)
            assert "at most 1000 bytes" in upload(api, "edges", f"e.csv.{ending}", bomb, 413)
        upload(api, "edges", "e.csv", b"src,dst\n" + b"a,b\n" * 200)
        assert "must stay below 1500" in upload(api, "edges", "e.csv", b"src,dst\n", 429)
        then = time.time() - KEPT_SECONDS - 1
        for path in waiting(api):
            os.utime(path, (then, then))
            os.utime(path.parent, (then, then))
        look(api, first, 404)
        upload(api, "edges", "e.csv", EDGES.encode())
        assert len(waiting(api)) == 1
        api.push(EDGES.replace("from,to", "src,dst").encode(), CSV)
        api.ingest()
        uploads, graph_id = Uploads(small), api.home.catalog.get("g").id
        uploads.remember(graph_id, "edges", {"src": "a", "dst": "b"})
        api.call("POST", "/graphs/g/erasures", 202, json={"nodes": ["a"]})
        api.ingest()
        assert waiting(api) == []
        assert uploads.remembered(graph_id, "edges") == {}


def test_a_place_is_looked_at_and_followed_where_the_server_permits(
    settings: Settings, tmp_path: Path
) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "one.csv").write_text(EDGES)
    (tmp_path / "secret.csv").write_text("src,dst\nkey,word\n")
    (inbox / "link.csv").symlink_to(tmp_path / "secret.csv")
    open_home = settings.model_copy(update={"source_roots": (inbox,)})
    with serving(open_home, create=create_app) as api:
        api.create_graph("g")
        assert str(inbox) in look(api, "/graphs/g/edges")
        query = urlencode({"url": str(inbox), "follow": "1"})
        assert "word" not in look(api, f"/graphs/g/edges/place?{query}", 422)
        (inbox / "link.csv").unlink()
        page = look(api, f"/graphs/g/edges/place?{query}")
        assert "1 file there now" in page
        report = look(api, f"/graphs/g/edges/place/look?{query}&src=from&dst=to", headers=PIECE)
        assert "3 edges" in report
        send(api, "/graphs/g/edges/place", url=str(inbox), follow="1", src="from", dst="to")
        (source,) = api.home.manifest.sources.list(api.home.catalog.get("g").id)
        assert (source.url, source.follow) == (str(inbox), True)
        assert dict(source.columns or {}) == {"src": "from", "dst": "to"}
        remote = look(api, f"/graphs/g/edges/place?{urlencode({'url': 's3://bucket/edges/'})}")
        assert "Ingest reads this place" in remote
        assert "Kind of edges" in remote
        elsewhere = urlencode({"url": str(tmp_path)})
        assert "PEEWIT_SOURCE_ROOTS" in look(api, f"/graphs/g/edges/place?{elsewhere}", 422)
        refused = send(api, "/graphs/g/edges/place", 422, url=str(tmp_path / "secret.csv"))
        assert "PEEWIT_SOURCE_ROOTS" in refused.text


def test_relations_tell_their_windows(pages: Api) -> None:
    own = {"length": "5d", "buckets": 5, "relations": {"card": "none"}}
    pages.create_graph("g", window=own)
    for name in ("card", "login"):
        rows = f"src,dst,time\n{name},b,2026-01-01\nb,c,2026-01-20\n"
        path = f"/graphs/g/edges?relation={name}"
        pages.call("POST", path, 202, content=rows.encode(), headers=AS_CSV)
    pages.ingest()
    shown = " ".join(re.sub(r"<[^>]*>", " ", look(pages, "/graphs/g")).split())
    latest = "2026-01-20 00:00:00 UTC"
    found = re.findall(rf"(card|login) [\d ]+ (none|5 d) (.*?) {latest} (\d+) (\d+)", shown)
    assert found == [
        ("card", "none", "all", "0", "0"),
        ("login", "5 d", "2026-01-15 00:00:00 UTC", "0", "1"),
    ]


def test_a_place_elsewhere_is_given_relations_and_kinds(settings: Settings) -> None:
    open_home = settings.model_copy(
        update={"source_schemes": ("s3",), "source_hosts": ("broker:9092",)}
    )
    with serving(open_home, create=create_app) as api:
        api.create_graph("g", node_ids="typed", columns={"src": "account:user"})
        asked = {"follow": "1", "url": "s3://bucket/2026/logins-2026-*.csv"}
        page = look(api, f"/graphs/g/edges/place?{urlencode(asked)}")
        assert 'name="relation" value="logins"' in page
        assert 'placeholder="account:user"' in page
        kinds = {"src_kind": "account", "dst": "device_id", "dst_kind": "device"}
        send(api, "/graphs/g/edges/place", **asked, **kinds, relation="login", directed="1")
        topic = {"follow": "1", "url": "kafka://broker:9092/events", "kind": "kafka"}
        page = look(api, f"/graphs/g/edges/place?{urlencode(topic)}")
        assert 'name="kind" value="kafka"' in page
        assert 'name="relation" value="events"' in page
        stars = {"src": "account_id", "src_kind": "account", "via": "ip,card:card_hash"}
        send(api, "/graphs/g/edges/place", **topic, **stars, relation="events")
        lacking = {**topic, "url": "kafka://broker:9092/others", "via": "ip"}
        refused = send(api, "/graphs/g/edges/place", 422, **lacking)
        assert "entity must name the column that is joined with via" in refused.text
        graph = api.home.catalog.get("g")
        files, live = sorted(api.home.manifest.sources.list(graph.id), key=lambda each: each.kind)
        assert dict(files.columns or {}) == {
            "src": "account:user",
            "dst": "device:device_id",
            "relation": "login",
        }
        assert dict(live.columns or {}) == {"entity": "account:account_id", "via": stars["via"]}
        assert (live.kind, graph.settings.directed) == ("kafka", ("login",))
        page = look(api, "/graphs/g")
        assert "relation login" in page
        assert "relation of account:account_id with ip,card:card_hash" in page


@pytest.mark.usefixtures("processes")
def test_next_steps_lead_from_labels_to_predictions(pages: Api) -> None:
    pages.create_graph("g", seed=1)
    pages.push(b"src,dst\na,b\nb,c\nc,d\n", CSV)
    pages.ingest()
    graph = pages.home.catalog.get("g")
    thinning = StepNow(
        key="",
        graph_id=graph.id,
        source_id=None,
        step="thinning",
        file=None,
        step_seconds=7.0,
        quiet_seconds=0.0,
    )
    steps = IngestSteps(pages.home.database)
    steps.store("ingest:here", [thinning])
    assert "thinning for 7 s" in look(pages, "/graphs/g/next-step", headers=PIECE)
    steps.store("ingest:here", [])
    pages.put_labels({"a": "left"})
    assert "a second class" in look(pages, "/graphs/g")
    pages.put_labels({"d": "right"})
    assert "Next: predict" in look(pages, "/graphs/g")
    address = send(pages, "/models/stable-hfs", graph="g", **{"set.graph_penalty": "2"})
    job_id = address.headers["location"].removeprefix("/jobs/")
    waiting_step = look(pages, "/graphs/g")
    assert "Predicting" in waiting_step
    assert "No worker is there" in waiting_step
    pages.run_job(job_id)
    assert pages.home.jobs.get(job_id).parameters["graph_penalty"] == 2
    assert "Predictions are there" in look(pages, "/graphs/g")
    pages.put_labels({"b": "left"})
    step = look(pages, "/graphs/g")
    assert "have changed" in step
    assert "graph_penalty=2" in step
    assert "graph must be chosen" in send(pages, "/models/stable-hfs", 422).text


def test_predictions_are_sorted_by_doubt_and_by_every_header(shown: Api) -> None:
    def nodes(query: str) -> list[tuple[str, float]]:
        text = look(shown, f"/graphs/g/predictions?{query}")
        table = text[text.index('id="nodes"') :]
        row = r'>(n\d+)</a></th>.*?"number">([\d.]+)</td><td class="number">([\d.]+)<'
        found = re.findall(row, table, re.DOTALL)
        following = re.search(r'href="/graphs/g/predictions\?([^"#]*)#nodes">More nodes', text)
        rows = [(node, float(margin)) for node, _, margin in found]
        return rows + (nodes(following[1]) if following else [])

    rows = nodes("sort=margin")
    assert len(rows) == 60
    margins = [margin for _, margin in rows]
    assert margins == sorted(margins)
    assert nodes("sort=margin&reverse=1")[0][1] == max(margins)
    names = [node for node, _ in nodes("sort=node&label=left")]
    assert names == sorted(names)
    assert set(names) < {node for node, _ in rows}
    text = look(shown, "/graphs/g/predictions?sort=margin")
    assert 'aria-sort="ascending"' in text
    look(shown, "/graphs/g/predictions?sort=secret", 422)


def test_a_download_is_sorted_as_the_page_is_and_marks_labeled_nodes(shown: Api) -> None:
    page = look(shown, "/graphs/g/predictions?sort=score:right")
    assert '<option value="score:right" selected>' in page
    assert "of right" in page
    (address,) = re.findall(r'href="([^"]*format=csv)"', page)
    assert "in this order" in page
    table = pa.csv.read_csv(io.BytesIO(shown.client.get(address).content))
    (score,) = [name for name in table.schema.names if name.endswith(":right")]
    scores = table[score].to_pylist()
    assert scores == sorted(scores, reverse=True)
    graph = shown.home.catalog.get("g")
    given = {str(each) for each in shown.home.labels.current(graph.id).nodes}
    marked = table.filter(table["labeled"])["node"].to_pylist()
    assert set(marked) == given
    assert not any(name.startswith("p_value") for name in table.schema.names)


def test_a_download_says_how_long_it_is(shown: Api) -> None:
    for kind in ("csv", "parquet", "ndjson", "arrow"):
        answer = shown.client.get(f"/graphs/g/predictions/download?format={kind}")
        assert int(answer.headers["content-length"]) == len(answer.content)
        assert answer.headers["content-disposition"].startswith('attachment; filename="g-pred')


def test_a_page_that_is_not_there_is_a_page_and_a_call_a_problem(pages: Api) -> None:
    browser = {"Accept": "text/html,*/*;q=0.8"}
    answer = pages.client.get("/nothing", headers=browser)
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert "Content-Security-Policy" in answer.headers
    assert 'href="/"' in answer.text
    for path in ("/v1/nothing", "/static/nothing.css"):
        problem = pages.client.get(path, headers=browser)
        assert problem.status_code == 404
        assert not problem.headers["content-type"].startswith("text/html")
    assert pages.client.get("/nothing").headers["content-type"] == "application/problem+json"
    before = {"Referer": f"{str(pages.client.base_url).rstrip('/')}/jobs"}
    assert 'href="/jobs">Back' in look(pages, "/graphs/none", 404, headers=before)


def test_docs_follow_the_system_into_the_dark(pages: Api) -> None:
    text = pages.client.get("/docs").text
    assert "prefers-color-scheme: dark" in text
    assert "static-offline-docs/swagger-ui-bundle.js" in text


def test_advice_follows_the_page_on_models() -> None:
    assert advice(Answers()).model == "auto"
    assert advice(Answers(labels="few", are_sizes_known=True)).model == "poisson-mbo"
    assert advice(Answers(labels="arriving")).model == "stable-hfs"
    assert advice(Answers(predicts="numbers")).parameters == {"target": "real"}
    assert advice(Answers(predicts="points")).model == "filtered-ridge"
    assert advice(Answers(knows="words")).model == "tsvm"
    calibrated = advice(Answers(labels="arriving", needs_probabilities=True))
    assert calibrated.parameters == {"probabilities": "true"}
    assert advice(Answers(needs_probabilities=True)).parameters == {}


def test_kinds_that_the_graph_has_are_proposed_and_new_ones_told(pages: Api) -> None:
    pages.create_graph("g")
    logins = upload(pages, "edges", "logins.csv", b"account_id,device_id\n0,x\n12,y\n7,x\n")
    ends = {"src": "account_id", "src_kind": "account", "dst": "device_id", "dst_kind": "device"}
    send(pages, f"{logins}?{urlencode(ends | {'relation': 'login'})}")

    def shown(name: str, text: str) -> tuple[list[str], str]:
        address = upload(pages, "edges", name, text.encode())
        page = look(pages, address)
        names = "src_kind", "dst_kind", "relation"
        return [re.findall(f'name="{each}" value="(.*?)"', page)[0] for each in names], address

    for _ in range(2):  # the edges wait, and are in the graph
        chosen, _ = shown("messages-2026-03.ndjson", '{"from": "0", "to": "12"}\n')
        assert chosen == ["account", "account", "messages"]
        pages.ingest()
    assert shown("logins.csv", "who,what\n7,x\n")[0] == ["account", "device", "login"]
    assert shown("w.csv", "to_account,from_account\n90,91\n")[0][:2] == ["account", "account"]
    assert shown("w.csv", "src,dst\n90,91\n")[0][:2] == ["", ""]
    chosen, address = shown("cards.csv", "account_id,card_no\n90,1\n")
    assert chosen == ["account", "card", "cards"]
    kinds = {"src": "account_id", "src_kind": "account", "dst": "card_no", "dst_kind": "card"}
    report = unescape(look(pages, f"{address}/look?{urlencode(kinds)}", headers=PIECE))
    assert "kind 'card' is new: the graph has account, device<" in report
    _, address = shown("msg.csv", "from,to\n0,12\n")
    cut = {"src": "from", "src_kind": "from", "dst": "to", "dst_kind": "to"}
    report = unescape(look(pages, f"{address}/look?{urlencode(cut)}", headers=PIECE))
    assert "kinds 'from' and 'to' are new: the graph has account, device" in report
    assert "edges between from:0 and to:12 join nothing that is there" in report
    assert "name the kind of edges and tick Directed to have solves count" in report
    directed = urlencode(cut | {"relation": "message", "directed": 1})
    assert "Directed" not in look(pages, f"{address}/look?{directed}", headers=PIECE)


def test_columns_of_kinds_go_before_what_was_proposed(pages: Api) -> None:
    pages.create_graph("g", node_ids="typed")
    table = b"relation,src_kind,src,dst_kind,dst\nuse,account,1,device,1\npay,account,1,card,c\n"
    address = upload(pages, "edges", "typed.csv", table)
    page = look(pages, address)
    assert 'name="src_kind_column"' in page
    kinds = {"src_kind_column": "src_kind", "dst_kind_column": "dst_kind"}
    proposed = {"src": "src", "dst": "dst", "src_kind": "src", "relation": "typed"}
    chosen = urlencode(proposed | kinds | {"relation_column": "relation"})
    report = look(pages, f"{address}/look?{chosen}", headers=PIECE)
    assert "<td>account:1</td><td>device:1</td>" in report
    assert "<code>use</code> 1, <code>pay</code> 1" in report
    send(pages, f"{address}?{chosen}")
    pages.ingest()
    listed = pages.call("GET", "/graphs/g/relations", 200).json()["relations"]
    assert [each["name"] for each in listed] == ["use", "pay"]


def test_neighbors_name_the_kinds_of_their_edges(pages: Api) -> None:
    pages.create_graph("g")
    for relation, rows in (("login", "a,b,1\n"), ("card", "a,b,3\na,c,1\n")):
        body = f"src,dst,weight\n{rows}".encode()
        path, headers = f"/graphs/g/edges?relation={relation}", {"Content-Type": CSV}
        pages.call("POST", path, 202, content=body, headers=headers)
    pages.ingest()
    page = look(pages, "/graphs/g/node?id=a")
    assert "<th>Kinds of edges</th>" in page
    assert '<td class="number">4</td><td>card 3, login 1</td>' in page


def test_kinds_of_edges_are_named_on_the_page(pages: Api) -> None:
    pages.create_graph("g")
    events = b"account_id,device,ip,kind\n1,x,7,a\n2,,7,b\n1,NA,8,a\n"
    address = upload(pages, "edges", "events.csv", events)
    assert 'name="via" value=""' in look(pages, address)
    chosen = urlencode({"src": "account_id", "src_kind": "account", "via": "device:device,ip:ip"})
    report = look(pages, f"{address}/look?{chosen}", headers=PIECE)
    assert "<code>device</code> 1, <code>ip</code> 3" in report
    send(pages, f"{address}?{chosen}")
    second = upload(pages, "edges", "more.csv", events + b"3,,9,b\n")
    ends = {"src": "account_id", "src_kind": "account", "dst": "ip", "dst_kind": "ip"}
    chosen = urlencode(ends | {"relation_column": "kind"})
    report = look(pages, f"{second}/look?{chosen}", headers=PIECE)
    assert "<code>a</code> 2, <code>b</code> 2" in report
    send(pages, f"{second}?{chosen}")
    third = upload(pages, "edges", "third.csv", events + b"4,,9,b\n")
    send(pages, f"{third}?{urlencode(ends | {'relation': 'seen', 'directed': 1})}")
    pages.ingest()
    record = pages.home.catalog.get("g")
    assert record.progress.edges_seen == 6 + 4 + 4
    assert record.progress.left_out.empty_cells == 2
    assert record.settings.directed == ("seen",)
    pushes = GraphPaths(root=pages.home.settings.graphs_directory / record.id).pushes
    (path,) = pushes.glob(f"*{RELATED}")
    relations = pq.read_table(path)["relation"].to_pylist()
    assert sorted(relations) == sorted([*"aabb", *["device", "ip"] * 3, *["seen"] * 4])
    wrong = urlencode(ends | {"via": "device:device"})
    fourth = upload(pages, "edges", "fourth.csv", events)
    problem = pages.client.get(f"{fourth}/look?{wrong}", headers=PIECE)
    assert "dst must be left out where via" in problem.json()["detail"]
    unnamed = send(pages, f"{fourth}?{urlencode(ends | {'directed': 1})}", 422)
    assert "directed needs relation" in unnamed.text
