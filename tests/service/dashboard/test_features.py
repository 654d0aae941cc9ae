"""A table of features is sent, understood before it is kept, and taken."""

import io
import json
import re

import pyarrow as pa
import pyarrow.csv
import pytest

from tests.service.api.conftest import Api, as_arrow, as_parquet, bring_communities
from tests.service.dashboard.forms import PIECE, look, seen_in, send
from tests.service.dashboard.test_from_the_page import upload

FEATURES = "/graphs/g/features"


def accounts() -> pa.Table:
    """A row for each node of `bring_communities`; ``seized`` gives its label away."""
    nodes = range(60)
    return pa.table(
        {
            "account": [f"n{node}" for node in nodes],
            "country": [["DE", "FR", "XX"][node % 3] for node in nodes],
            "amount": [None if node % 7 == 0 else node * 1.5 for node in nodes],
            "since": [f"2026-01-{1 + node % 28:02d}" for node in nodes],
            "is_new": [node % 4 == 0 for node in nodes],
            "seized": ["yes" if node >= 30 else "no" for node in nodes],
            "source": ["shop"] * 60,
        }
    )


def content_of(table: pa.Table, suffix: str) -> bytes:
    sink = io.BytesIO()
    match suffix:
        case "csv":
            pa.csv.write_csv(table, sink)
            return sink.getvalue()
        case "ndjson":
            return "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()
        case "parquet":
            return as_parquet(table)
        case _:
            return as_arrow(table)


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet", "arrow"])
def test_a_table_is_understood_before_it_is_kept(pages: Api, suffix: str) -> None:
    bring_communities(pages)
    pages.put_labels({f"n{node}": "right" if node >= 30 else "left" for node in range(0, 60, 5)})
    table = pa.concat_tables([accounts(), accounts().slice(0, 1)])
    account = pa.array([*accounts()["account"].to_pylist(), "stranger"])
    table = table.set_column(0, "account", account)
    address = upload(pages, "features", f"accounts.{suffix}", content_of(table, suffix))
    assert '<option value="account" selected>' in look(pages, address)
    report = look(pages, f"{address}/look?node=account", headers=PIECE)
    assert "61 rows of" in report
    read = dict(re.findall(r'<th scope="row">(\w+)</th><td>([\w ]+)', report))
    assert read["country"].startswith("words")
    assert (read["amount"], read["is_new"]) == ("a number", "a truth value")
    assert read["since"].startswith("a time")
    assert "is said by a feature" in report
    assert "nearly every row: source." in report
    assert "does not know 1 of the nodes: stranger." in report
    assert "column 'seized' gives the label away" in report
    assert "'country'" not in report
    without = look(pages, f"{address}/look?node=account&without=seized", headers=PIECE)
    assert "gives the label away" not in without
    assert "without=seized" in without  # kept so, too
    assert pages.home.features.status(pages.home.catalog.get("g")).n_pending == 0  # nothing yet
    where = send(pages, f"{address}?node=account").headers["location"]
    assert "wait for ingest" in look(pages, where)
    pages.ingest()
    text = look(pages, where)
    assert "61 rows of" in text
    assert "with 1 new nodes" in text
    assert "seized" in text
    assert "61 nodes have" in text
    piece = pages.client.get(
        f"{where}&seen={seen_in(look(pages, where, headers=PIECE))}", headers=PIECE
    )
    assert piece.status_code == 204


def test_a_table_that_breaks_a_rule_is_told_and_keeps_nothing(pages: Api) -> None:
    bring_communities(pages)
    bad = b"node,x\nn1,1\nn2,inf\n"
    address = upload(pages, "features", "bad.csv", bad)
    report = look(pages, f"{address}/look?node=node", headers=PIECE)
    assert "finite" in report
    assert "Keep" not in report
    assert "finite" in look(pages, f"{address}/look?node=node")  # without script: a page
    send(pages, f"{address}?node=node", 422)
    send(pages, f"{address}/remove")
    look(pages, address, 404)
    assert "Nodes have no features" in look(pages, FEATURES)


def test_rows_are_added_to_those_that_are_there(pages: Api) -> None:
    bring_communities(pages)
    for mode, rows in (("replace", b"node,x,z\nn1,1,2\nn2,3,4\n"), ("add", b"node,z,x\nn3,6,5\n")):
        address = upload(pages, "features", "numbers.csv", rows)
        assert "stay as they are" in look(pages, f"{address}/look?node=node", headers=PIECE)
        assert ('name="mode"' in look(pages, address)) == (mode == "add")
        send(pages, f"{address}?node=node&mode={mode}")
        pages.ingest()
    assert "3 nodes have 2 features" in look(pages, FEATURES)


def test_kinds_of_nodes_are_named(pages: Api) -> None:
    pages.create_graph("g", node_ids="typed")
    address = upload(pages, "features", "a.csv", b"user,x\n1,2\n2,3\n")
    assert 'name="node_kind" value="user"' in look(pages, address)
    report = look(pages, f"{address}/look?node=user&node_kind=user", headers=PIECE)
    assert "user:1, user:2" in report
