"""Live sources over HTTP: added, shown, confined."""

from pathlib import Path
from typing import Any

import pytest

from peewit.service.client import Client
from tests.service.api.conftest import Api
from tests.service.live_sources.node_rows import put_nodes
from tests.service.live_sources.tables import append, make_table

ROWS = [("a", "b", 1.0), ("b", "c", 2.0)]


def add(api: Api, url: str, **body: Any) -> Any:
    return api.call(
        "POST", "/graphs/g/sources", 201, json={"url": url, "kind": "delta"} | body
    ).json()


def client_of(api: Api) -> Client:
    return Client(str(api.client.base_url))


def test_a_table_is_followed_and_its_position_told(api: Api, tmp_path: Path) -> None:
    api.create_graph("g", deletions="exact", parallel="replace")
    url = make_table(tmp_path / "t", ROWS)
    made = add(api, url, follow=True)
    assert (made["kind"], made["position"], made["lag"]) == ("delta", None, None)
    api.ingest()
    append(url, [("c", "d", 3.0)])
    api.ingest()
    (source,) = api.call("GET", "/graphs/g/sources", 200).json()["sources"]
    assert (source["position"]["version"], source["lag"], source["n_refused"]) == (1, 0, 0)
    assert source["files"]["committed"] == 2
    assert api.call("GET", "/graphs/g", 200).json()["edges_seen"] == 3
    with client_of(api) as client:
        (listed,) = client.sources("g")
    assert (listed.kind, listed.position, listed.lag) == ("delta", source["position"], 0)


def test_a_source_begins_after_the_version_that_is_named(api: Api, tmp_path: Path) -> None:
    api.create_graph("g")
    url = make_table(tmp_path / "t", ROWS)
    append(url, [("c", "d", 3.0)])
    with client_of(api) as client:
        source = client.add_source("g", url, kind="delta", start=0)
    assert source.position == {"version": 0}
    api.ingest()
    assert api.call("GET", "/graphs/g", 200).json()["edges_seen"] == 1


def test_labels_of_a_table_are_told_and_need_a_key_that_may_label(api: Api, tmp_path: Path) -> None:
    api.create_graph("g")
    url = str(tmp_path / "t")
    put_nodes(url, "labels", {"a": 0, "b": 1})
    sent = {"url": url, "kind": "delta", "holds": "labels", "label_column": "side"}
    keys = {
        scopes: {"Authorization": f"Bearer {api.home.keys.create('k', scopes)}"}
        for scopes in (("ingest",), ("ingest", "label"), ("read",))
    }
    ingest, both, read = keys.values()
    problem = api.problem("POST", "/graphs/g/sources", 403, json=sent, headers=ingest)
    assert "label" in problem["detail"]
    made = api.call("POST", "/graphs/g/sources", 201, json=sent, headers=both).json()
    assert (made["holds"], made["label_column"]) == ("labels", "side")
    api.ingest()
    (listed,) = api.call("GET", "/graphs/g/labels:columns", 200, headers=read).json()[
        "label_columns"
    ]
    assert (listed["name"], listed["n_labeled"]) == ("side", 2)
    with Client(str(api.client.base_url), api_key=both["Authorization"].split()[1]) as client:
        added = client.add_source("g", f"{url}-2", kind="delta", holds="features", columns={})
    assert (added.holds, added.label_column) == ("features", None)


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"kind": "stream"}, "kind must be one of files, delta"),
        ({"start": "soon"}, "start must be the number of a version, got 'soon'"),
        ({"kind": "files", "start": "5"}, "start must be left out"),
        ({"replaces": True}, "replaces must be off"),
        ({"columns": {"from": "a"}}, "columns must name"),
        (
            {"holds": "labels", "columns": {"src": "a"}},
            "columns must name node, label, op, keep_word alone",
        ),
        ({"kind": "files", "holds": "features"}, "holds must be edges for a source of files"),
        ({"label_column": "side"}, "label_column must be left out"),
        ({"url": "http://host/t"}, "PEEWIT_SOURCE_HOSTS"),
        ({"url": "/etc"}, "PEEWIT_SOURCE_ROOTS"),
    ],
)
def test_what_is_no_live_source_is_refused(
    api: Api, tmp_path: Path, body: dict[str, Any], detail: str
) -> None:
    api.create_graph("g")
    sent = {"url": str(tmp_path / "t"), "kind": "delta"} | body
    assert detail in api.problem("POST", "/graphs/g/sources", 422, json=sent)["detail"]


def test_a_table_added_over_http_leads_nowhere_else(api: Api, tmp_path: Path) -> None:
    api.create_graph("g")
    url = make_table(tmp_path / "t", ROWS)
    (file,) = Path(url).glob("*.parquet")
    secret = api.home.settings.home / "secret.parquet"
    file.rename(secret)
    file.symlink_to(secret)
    add(api, url)
    with pytest.raises(RuntimeError, match="must lie where the source may read"):
        api.ingest()
    (source,) = api.call("GET", "/graphs/g/sources", 200).json()["sources"]
    assert source["error"].startswith("UnreadableTable")


def test_what_people_see_of_a_source_has_no_secret(api: Api) -> None:
    api.create_graph("g")
    graph_id = api.home.catalog.get("g").id
    api.home.manifest.sources.add(graph_id, "s3://me:hidden@bucket/t", kind="delta")
    (source,) = api.call("GET", "/graphs/g/sources", 200).json()["sources"]
    assert "hidden" not in source["url"]
