"""What a card shows of a node's row of features: chosen columns, and nothing once it is erased."""

import re

import pyarrow as pa

from peewit.service.dashboard.node_features import key_of, node_features
from tests.service.api.conftest import PARQUET, Api, as_parquet, bring_communities
from tests.service.dashboard.forms import look, send
from tests.service.dashboard.test_features import accounts, content_of
from tests.service.dashboard.test_from_the_page import upload

NODE = "/graphs/g/node?id=n10"


def bring_accounts(api: Api) -> None:
    bring_communities(api)
    words = pa.array([f"https://site{node % 45}.example" for node in range(60)])
    table = accounts().append_column("page", words)
    address = upload(api, "features", "accounts.csv", content_of(table, "csv"))
    send(api, f"{address}?node=account")
    api.ingest()


def facts(text: str) -> dict[str, str]:
    """Names and values of the card."""
    card = text.partition("Choose columns")[0]
    return dict(re.findall(r"<dt>(\w+)</dt><dd>([^<]*)</dd>", card))


def test_a_row_reads_as_it_came(pages: Api) -> None:
    bring_accounts(pages)
    text = look(pages, NODE)
    shown = facts(text)
    assert shown["country"] == "FR"
    assert float(shown["amount"]) == 15.0
    assert shown["since"] == "2026-01-11"
    assert (shown["is_new"], shown["seized"]) == ("no", "no")
    assert "page" not in shown
    assert "Not kept to be read: page, source." in text
    assert facts(look(pages, "/graphs/g/node?id=n14"))["amount"] == "missing"


def test_columns_are_chosen_on_the_page_and_shown_on_label_next(pages: Api) -> None:
    bring_accounts(pages)
    wanted = {key_of(name): "1" for name in ("country", "amount")}
    answer = send(pages, "/graphs/g/card-columns", back="node?id=n10", **wanted)
    assert answer.headers["location"] == NODE
    assert "country" not in answer.headers["set-cookie"], "a cookie tells no names of columns"
    assert set(facts(look(pages, NODE))) == {"country", "amount"}
    card = look(pages, "/graphs/g/label-next/card?strategy=random")
    assert set(facts(card)) == {"country", "amount"}
    send(pages, "/graphs/g/card-columns", back="node?id=n10")
    assert facts(look(pages, NODE)) == {}


def test_an_erased_row_is_shown_no_more(pages: Api) -> None:
    bring_accounts(pages)
    graph = pages.home.catalog.get("g")
    node = int(pages.home.nodes.lookup(graph, pa.array(["n10"]))[0])
    assert node_features(pages.home.paths(graph), graph, node, None) is not None
    pages.call("POST", "/graphs/g/erasures", 202, json={"nodes": ["n10"]})
    pages.ingest()
    look(pages, NODE, 404)
    graph = pages.home.catalog.get("g")
    assert node_features(pages.home.paths(graph), graph, node, None) is None


def test_rows_without_names_have_no_card(pages: Api) -> None:
    bring_communities(pages)
    rows = [[float(node), 1.0] for node in range(60)]
    table = pa.table({"node": [f"n{node}" for node in range(60)], "features": rows})
    headers = {"Content-Type": PARQUET}
    pages.call("POST", "/graphs/g/features", 202, content=as_parquet(table), headers=headers)
    pages.ingest()
    assert pages.home.catalog.get("g").features_version == 1
    assert "Choose columns" not in look(pages, NODE)
