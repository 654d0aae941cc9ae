"""Every row of a nasty table is accounted for, exactly, whatever door it comes by."""

from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import orjson
import pyarrow as pa
import pytest

from tests.service.api.conftest import ARROW, CSV, NDJSON, PARQUET, Api, as_arrow, as_parquet
from tests.service.dashboard.forms import send
from tests.service.dashboard.test_from_the_page import upload
from tests.service.live_sources.tables import make_table
from tests.service.live_sources.topics import mock_cluster

GOOD: Final = [
    *[("a", "hub", 1.0), ("hub", "a", 2.0), ("a", "hub", 1.0), ("b", "hub", 0.5)],
    *[("hub", "hub", 1.0), ("c", "c", 0.0), ("b", "a", 0.0), ("d", "b", 3.0)],
]
"""Three pairs; one of them stands three times, both ways; a loop, and two rows of weight 0."""

BAD: Final = [("", "hub", 1.0), ("a", "NULL", 1.0), ("a", "b", -1.0), ("e", "f", float("inf"))]
ROWS: Final = [row for pair in zip(GOOD, BAD + BAD, strict=True) for row in pair]


def table_of(rows: list[tuple[str, str, float]]) -> pa.Table:
    src, dst, weight = zip(*rows, strict=True)
    return pa.table({"src": src, "dst": dst, "weight": weight})


CONTENT: Final = {
    ARROW: as_arrow(table_of(ROWS)),
    PARQUET: as_parquet(table_of(ROWS)),
    CSV: b"src,dst,weight\n" + "".join(f"{u},{v},{w}\n" for u, v, w in ROWS).encode(),
    NDJSON: b"".join(
        b'{"src":%s,"dst":%s,"weight":%s}\n'
        % (orjson.dumps(u), orjson.dumps(v), b"1e999" if w == float("inf") else orjson.dumps(w))
        for u, v, w in ROWS
    ),
}


def bring(pages: Api, door: str, directory: Path) -> None:
    """Bring the rows by a door, with as many bad ones as there are."""
    graph_id, n_bad = pages.home.catalog.get("g").id, 2 * len(BAD)
    if door in CONTENT:
        headers = {"Content-Type": door}
        path = f"/graphs/g/edges?max_bad_rows={n_bad}"
        pages.call("POST", path, 202, content=CONTENT[door], headers=headers)
    elif door == "page":
        address = upload(pages, "edges", "rows.csv", CONTENT[CSV])
        query = {"src": "src", "dst": "dst", "weight": "weight", "max_bad_rows": n_bad}
        send(pages, f"{address}?{urlencode(query)}")
    elif door == "delta":
        url = make_table(directory / "table", ROWS)
        pages.home.manifest.sources.add(graph_id, url, kind="delta", max_bad_rows=n_bad)
    else:
        (directory / "in").mkdir()
        (directory / "in" / f"rows.{door}").write_bytes(
            CONTENT[{"csv": CSV, "parquet": PARQUET}[door]]
        )
        pages.home.manifest.sources.add(
            graph_id, str(directory / "in"), follow=True, max_bad_rows=n_bad
        )
    pages.ingest()


def account(pages: Api) -> dict[str, Any]:
    """What the graph says, once it is found to be exact."""
    shown: dict[str, Any] = pages.call("GET", "/graphs/g", 200).json()
    left_out = sum(shown["left_out"].values())
    assert shown["edges_seen"] == shown["edges_kept"] + shown["n_merged"] + left_out
    return shown


DOORS = (*CONTENT, "page", "csv", "parquet", "delta")


@pytest.mark.parametrize("door", DOORS)
def test_every_row_of_a_nasty_table_is_accounted_for(pages: Api, tmp_path: Path, door: str) -> None:
    pages.create_graph("g")
    bring(pages, door, tmp_path)
    shown = account(pages)
    assert shown["edges_seen"] == len(GOOD)
    assert shown["left_out"] == {"self_loops": 1, "zero_weights": 2, "empty_cells": 0, "too_old": 0}
    assert (shown["edges_kept"], shown["n_merged"]) == (3, 2)
    assert shown["n_bad_rows"] == 2 * len(BAD)


def test_every_row_of_a_topic_is_accounted_for(pages: Api, tmp_path: Path) -> None:
    graph_id = pages.create_graph("g")["id"]
    with mock_cluster() as cluster:
        url = cluster.create(tmp_path.name)
        lines = CONTENT[NDJSON].splitlines()
        cluster.send(tmp_path.name, [*lines, b"{no"])
        pages.home.manifest.sources.add(graph_id, url, kind="kafka", follow=True)
        pages.ingest()
    shown = account(pages)
    assert (shown["edges_seen"], shown["edges_kept"], shown["n_merged"]) == (len(GOOD), 3, 2)
    assert shown["n_bad_rows"] == 2 * len(BAD) + 1
