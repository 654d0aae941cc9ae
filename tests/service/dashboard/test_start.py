"""Start with your files: several tables become a graph with predictions, as by `peewit try`."""

import gzip
from collections.abc import Sequence
from urllib.parse import urlencode, urlsplit

import numpy as np
import pytest

from peewit.service.dashboard.start_intake import MOST_FILES
from peewit.service.jobs.job import LANES
from tests.service.api.conftest import CSV, Api
from tests.service.dashboard.forms import PIECE, look, send
from tests.service.dashboard.test_access import keyed, sign_in

__all__ = ["keyed"]


def tables() -> dict[str, bytes]:
    """Two groups of accounts that share devices; a third of the accounts is known."""
    rng = np.random.default_rng(0)
    who = rng.integers(0, 200, 1_500)
    device = 2 * rng.integers(0, 60, who.size) + who % 2
    logins = [f"{account},d{each}" for account, each in zip(who, device, strict=True)]
    accounts = [f"{account},{account % 70},{'abcde'[account % 5]}" for account in range(200)]
    known = [f"{account},{('ok', 'bad')[account % 2]}" for account in range(0, 200, 3)]
    return {
        "logins.csv.gz": gzip.compress("\n".join(["account_id,device_id", *logins]).encode()),
        "accounts.csv": "\n".join(["account_id,age,city", *accounts]).encode(),
        "known.csv": "\n".join(["account,label", *known]).encode(),
    }


def sent(api: Api, files: dict[str, bytes], expected: int = 201) -> str:
    """Address of the page of files that are sent one after another, as the script sends them."""
    headers = {"Origin": str(api.client.base_url).rstrip("/"), "Content-Type": CSV, **PIECE}
    location = ""
    for name, content in files.items():
        query = "&".join(filter(None, [urlsplit(location).query, urlencode({"name": name})]))
        answer = api.client.post(f"/start/files?{query}", content=content, headers=headers)
        assert answer.status_code == expected, answer.text
        location = answer.json().get("location", "")
    return location


def run(api: Api, tables_page: str, expected: int = 303, name: str = "shop") -> str:
    """Where the form of that page leads, or the page that it leads to."""
    answer = send(api, tables_page.replace("/tables", "/run"), expected, name=name)
    return answer.headers["location"] if expected == 303 else answer.text


@pytest.mark.slow
@pytest.mark.usefixtures("processes")
def test_files_become_a_graph_with_predictions(pages: Api) -> None:
    assert 'href="/start"' in look(pages, "/")
    assert "multiple" in look(pages, "/start")
    address = sent(pages, tables())
    said = look(pages, address)
    assert "Events: each row joins account (account_id) with device (device_id)." in said
    assert "Features of account (account_id): age, city." in said
    assert "Labels of account (account) (label): ok 34, bad 33." in said
    assert "Put the labels in known.csv." in said
    script = pages.client.get(address.replace("/tables", "/script") + "&name=shop").text
    assert "\npeewit ingest shop logins.csv.gz --entity account:account_id --via" in script
    assert str(pages.home.settings.home) not in said + script
    outcome = run(pages, address)
    assert outcome == "/graphs/shop/start"
    assert not list(pages.home.settings.home.glob("uploads/*/*"))
    assert not list(pages.home.settings.graphs_directory.glob("*/uploads/*/*.*/*"))
    begun = look(pages, outcome)
    assert "Read the edges in logins.csv: taken." in begun
    graph = pages.home.catalog.get("shop")
    (job,) = pages.home.jobs.list(graph_id=graph.id).jobs
    assert pages.home.jobs.claim("w", LANES) is None  # before the edges are read
    pages.ingest("shop")
    assert "waits until all is read" in look(pages, outcome, headers=PIECE)
    graph = pages.home.catalog.get("shop")
    assert graph.settings.node_ids == "typed"
    assert graph.features_version == 1
    pages.run_job(job.id)
    assert "Those most likely bad" in look(pages, outcome)


def test_what_was_guessed_can_be_changed(pages: Api) -> None:
    address = sent(pages, tables())
    ids = dict(zip(tables(), urlsplit(address).query.replace("file=", "").split("&"), strict=True))
    without = look(pages, f"{address}&{urlencode({'skip': ids['known.csv']})}")
    assert "Put the labels" not in without
    chosen = {"label": f"{ids['accounts.csv']}:city"}
    other = look(pages, f"{address}&{urlencode(chosen)}")
    assert "Labels of account (account_id) (city): a 40, b 40, c 40" in other
    assert "Put the labels in accounts.csv." in other
    assert "Put the labels" not in look(pages, f"{address}&label=none")
    assert "2 to 30 different labels" in look(
        pages, f"{address}&{urlencode({'label': ids['accounts.csv'] + ':age'})}"
    )
    said = {"kind0:device_id": "phone", "use1:age": "out", "relation0": "login", "way0": "one"}
    changed = f"{address}&{urlencode(said | {'use1:city': ''})}"
    page = look(pages, changed)
    assert "Edges from account (account_id) to phone (device_id), one way, called login." in page
    assert "Features of account (account_id): city." in page
    assert "--relation login --directed --src account:account_id --dst phone:device_id" in page
    assert 'id="change-0" open' in page
    assert 'id="change-2" >' in page
    assert '<option value="out" selected>' in page
    script = pages.client.get(changed.replace("/tables", "/script")).text
    assert "--relation login --directed --src account:account_id --dst phone:device_id" in script
    both = f"{address}&{urlencode({'use0:account_id': 'dst', 'use0:device_id': 'dst'})}"
    refused = look(pages, both)
    assert "must make one column of logins.csv the dst, got account_id and device_id" in refused
    assert "Do it" not in refused
    assert "choose one of them" in run(pages, both, 200)
    assert "use must be one of src" in look(pages, f"{address}&use0:account_id=x", 422)
    assert run(pages, changed) == "/graphs/shop/start"
    assert pages.home.catalog.get("shop").settings.directed == ("login",)
    look(pages, changed, 404)


def test_files_are_given_up(pages: Api) -> None:
    address = sent(pages, {"known.csv": tables()["known.csv"]})
    send(pages, address.replace("/tables", "/remove"))
    look(pages, address, 404)


def test_edges_may_expire_by_their_times(pages: Api) -> None:
    files = {"pay.csv": b"payer,payee,on\na,b,2026-01-01\nb,c,2026-01-02\nc,a,2026-01-03\n"}
    address = sent(pages, files)
    assert "How long do edges live" in look(pages, address)
    assert "window must be seconds, or as 30d" in look(pages, f"{address}&window=x").lower()
    outcome = look(pages, run(pages, f"{address}&window=30d"))
    assert "Read the edges in pay.csv: taken." in outcome
    window = pages.home.catalog.get("shop").settings.window
    assert window is not None
    assert window.length == 30 * 86_400


def test_what_cannot_be_started_with_is_told_with_a_way_on(pages: Api) -> None:
    files = tables()
    alone = look(pages, sent(pages, {"known.csv": files["known.csv"]}))
    assert "No table joins things by two columns of ids" in alone
    assert "Do it" not in alone
    damaged = look(pages, sent(pages, {"a.parquet": b"no table", "b.csv": files["known.csv"]}))
    assert "it is not readable as Parquet" in damaged
    address = sent(pages, files)
    pages.create_graph("shop")
    assert "which another graph has" in run(pages, address, 422)
    assert 'value="My shop"' in run(pages, address, 422, name="My shop")
    sent(pages, {"picture.png": b"x"}, 422)
    many = urlencode({"file": ["x" * 24] * MOST_FILES}, doseq=True)
    origin = {"Origin": str(pages.client.base_url).rstrip("/"), "Content-Type": CSV}
    refused = pages.client.post(f"/start/files?{many}&name=a.csv", content=b"x", headers=origin)
    assert "one of at most 20" in refused.text


def test_a_file_that_is_refused_waits_where_it_is_mended(pages: Api) -> None:
    pairs = b"from,to,weight\na,b,1\nb,c,-1\nc,a,2\n"
    files = {"pairs.csv": pairs, "known.csv": b"node,label\na,x\nb,y\n"}
    outcome = look(pages, run(pages, sent(pages, files)))
    assert 'Read the edges in pairs.csv: <span class="fault">refused. 1 row is bad' in outcome
    assert "Put the labels in known.csv: taken." in outcome
    mend = outcome.partition('<a href="/graphs/shop/edges/files/')[2].partition('"')[0]
    page = look(pages, f"/graphs/shop/edges/files/{mend}")
    assert '<option value="from" selected>' in page
    assert '<option value="to" selected>' in page
    pages.ingest("shop")
    assert pages.home.jobs.claim("w", LANES) is None  # there are no edges
    send(pages, f"/graphs/shop/edges/files/{mend}&max_bad_rows=1")
    pages.ingest("shop")
    assert pages.home.jobs.claim("w", LANES) is not None


def test_rows_without_an_id_are_left_out(pages: Api) -> None:
    files = {"pairs.csv": b"from,to\na,b\nb,\nc,a\n"}
    address = sent(pages, files)
    assert "without an id, which are left out: at most 1" in look(pages, address)
    outcome = look(pages, run(pages, address))
    assert "Read the edges in pairs.csv: taken." in outcome


def test_tables_of_features_are_joined_by_their_ids(pages: Api) -> None:
    plans = [f"{account},{'abc'[account % 3]},{account % 9}" for account in range(0, 200, 2)]
    devices = [f"d{each},{('ios', 'android')[each % 2]}" for each in range(120)]
    files = tables() | {
        "plans.csv": "\n".join(["account_id,plan,age", *plans]).encode(),
        "devices.csv": "\n".join(["device_id,system", *devices]).encode(),
    }
    outcome = look(pages, run(pages, sent(pages, files)))
    title = "Read the features in accounts.csv and plans.csv and devices.csv, joined by their ids"
    assert f"{title}: taken." in outcome
    pages.ingest("shop")
    graph = pages.home.catalog.get("shop")
    present = pages.home.features.status(graph).present
    assert present is not None
    assert present.n_rows == 320
    assert {"accounts.age", "plans.age missing", "system=ios"} < set(present.names or ())


def test_files_arrive_without_a_script_too(pages: Api) -> None:
    files: Sequence[tuple[str, tuple[str, bytes, str]]] = [
        ("file", (name, content, CSV)) for name, content in tables().items()
    ]
    origin = {"Origin": str(pages.client.base_url).rstrip("/")}
    answer = pages.client.post("/start/files", files=files, headers=origin)
    assert answer.status_code == 303
    assert "Read the features in accounts.csv." in look(pages, answer.headers["location"])


def test_files_are_found_by_who_sent_them_alone(keyed: Api) -> None:
    sign_in(keyed, "admin")
    address = sent(keyed, {"known.csv": tables()["known.csv"]})
    look(keyed, address)
    sign_in(keyed, "admin")
    look(keyed, address, 404)
    sign_in(keyed, "read", "ingest", "label")
    look(keyed, "/start", 403)
