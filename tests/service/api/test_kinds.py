"""Nodes of several kinds over HTTP: pushes, labels, features, predictions and what only carries."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from peewit.service.settings import Settings
from tests.service.api.conftest import CSV, Api, serving

AS_CSV = {"Content-Type": CSV}
ENDS = "src=account:who&dst=device:what"
N_ACCOUNTS = 40


def team(number: int) -> str:
    return "ab"[number % 2]


@pytest.fixture(scope="module")
def ready(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Accounts of two teams on devices of their own, solved; tests only look at it."""
    home = tmp_path_factory.mktemp("kinds")
    with serving(Settings(home=home, database_url=None, admin_key_file=None)) as api:
        api.create_graph("g", seed=1)
        rows = [(n, 2 * (n // 4 % 5) + n % 2) for n in range(N_ACCOUNTS)]
        rows += [(n, 2 * (n // 3 % 5) + n % 2) for n in range(N_ACCOUNTS)]
        body = "who,what\n" + "".join(f"{who},{what}\n" for who, what in rows)
        api.call("POST", f"/graphs/g/edges?{ENDS}", 202, content=body, headers=AS_CSV)
        api.ingest()
        api.put_labels({f"account:{n}": team(n) for n in range(8)})
        api.solve("stable-hfs")
        yield api


def test_a_push_that_names_kinds_types_the_graph(ready: Api) -> None:
    graph = ready.call("GET", "/graphs/g", 200).json()
    assert graph["settings"]["node_ids"] == "typed"
    assert graph["nodes"] == N_ACCOUNTS + 10
    text = ready.call("GET", "/graphs/g/predictions?format=csv", 200).text
    rows: list[dict[str, str]] = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == N_ACCOUNTS
    assert all((row["kind"], row["node"]) == ("account", f"account:{row['id']}") for row in rows)
    assert all(row["label"] == team(int(row["id"])) for row in rows)


def test_nodes_that_only_carry_are_named_apart(ready: Api) -> None:
    asked = {"nodes": ["account:9", "device:3", "account:999"]}
    found = ready.call("POST", "/graphs/g/predictions:lookup", 200, json=asked).json()
    assert [each["node"] for each in found["predictions"]] == ["account:9"]
    assert (found["unasked"], found["unknown"]) == (["device:3"], ["account:999"])
    assert ready.call("GET", "/graphs/g/predictions/node?id=account:9", 200).json()
    problem = ready.problem("GET", "/graphs/g/predictions/node?id=device:3", 404)
    assert "is about nodes of kind account" in problem["detail"]
    assert problem["type"] == "urn:peewit:problem:node-of-a-kind-without-predictions"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/graphs/g/labels", {"labels": [{"node": "3", "label": "a"}]}),
        ("POST", "/graphs/g/predictions:lookup", {"nodes": ["3"]}),
        ("POST", "/graphs/g/erasures", {"nodes": ["3"]}),
    ],
)
def test_a_node_without_its_kind_is_refused(ready: Api, method: str, path: str, body: Any) -> None:
    problem = ready.problem(method, path, 422, json=body)
    assert "must be KIND:ID in this graph" in json.dumps(problem)


def test_a_push_without_kinds_is_refused(ready: Api) -> None:
    bare = ready.problem("POST", "/graphs/g/edges", 422, content="src,dst\n1,2\n", headers=AS_CSV)
    assert "must hold KIND:ID" in bare["detail"]
    named = ready.call(
        "POST", "/graphs/g/edges", 202, content="src,dst\naccount:1,device:2\n", headers=AS_CSV
    )
    assert named.json()["n_rows"] == 1
