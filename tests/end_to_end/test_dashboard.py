"""The dashboard in a browser: real processes, real pages, Debian's Chromium."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from peewit.service.database.engine import open_database
from peewit.service.demo.digits import digit_edges, digit_labels, draw_labels, write_pictures
from peewit.service.key_store import KeyStore
from peewit.service.settings import Settings
from peewit.solvers.models.catalogue import DEFAULT_MODEL
from tests.end_to_end.processes import Home, Server, eventually

CHROMIUM = os.environ.get("PEEWIT_TEST_CHROMIUM") or shutil.which("chromium")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PAGES = (
    "/",
    "/jobs",
    "/models",
    "/help",
    "/sign-in",
    "/graphs/digits",
    "/graphs/digits/features",
    "/graphs/digits/labels",
    "/graphs/digits/predictions",
    "/graphs/digits/suspects",
    "/graphs/digits/label-next",
    "/graphs/digits/label-next?strategy=random",
    "/graphs/digits/edges",
    "/graphs/digits/labels/agreement",
    "/graphs/digits/jobs",
    "/models/auto",
    "/new-graph",
    "/graphs/digits/node?id=digit-0007",
)

pytestmark = pytest.mark.skipif(
    CHROMIUM is None,
    reason="no Chromium: install Debian's chromium, or name one by PEEWIT_TEST_CHROMIUM",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The digits, with a few labels, predicted; and a file that was refused."""
    directory = tmp_path_factory.mktemp("dashboard")
    home = Home(directory / "home")
    try:
        edges, bad = directory / "edges.parquet", directory / "inbox" / "bad.parquet"
        pq.write_table(digit_edges(), edges)
        bad.parent.mkdir()
        pq.write_table(pa.table({"src": ["a"], "dst": ["b"], "weight": [-1.0]}), bad)
        write_pictures(home.directory / "items" / "digits")
        server = Server(home, "serve")
        peewit = server.client
        peewit.create_graph("digits", epsilon=0.6, expected_nodes=1797, seed=0, deletions="exact")
        peewit.add_source("digits", str(edges))
        peewit.add_source("digits", str(bad.parent))
        eventually(lambda: peewit.graph("digits").files["quarantined"] == 1)
        eventually(lambda: peewit.graph("digits").snapshot is not None)
        gone = digit_edges().slice(0, 40).select(["src", "dst"]).to_pydict()
        peewit.delete_edges("digits", list(zip(*gone.values(), strict=True)), wait=60)
        peewit.put_labels("digits", draw_labels(digit_labels(), 2, seed=0))
        for model, parameters in (("auto", {"sets": "auto"}), ("stable-hfs", {})):
            peewit.solve("digits", model, parameters)
        yield server
    finally:
        home.end()


@contextmanager
def watched(browser: Browser, server: Server, **options: object) -> Iterator[Page]:
    """A page of a fresh profile; nothing on it may fail, or ask another host for anything."""
    context = browser.new_context(base_url=server.url, **options)  # type: ignore[arg-type]
    faults: list[str] = []
    page = context.new_page()
    page.on("console", lambda said: said.type == "error" and faults.append(said.text))
    page.on("pageerror", lambda error: faults.append(str(error)))

    def look_at(url: str) -> None:
        if urlsplit(url).scheme in {"http", "https"} and not url.startswith(server.url):
            faults.append(f"asked {url}")

    page.on("request", lambda request: look_at(request.url))
    try:
        yield page
        assert faults == []
    finally:
        context.close()


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    with watched(browser, server) as page:
        yield page


def requires_no_mending(page: Page) -> None:
    """axe-core must find nothing to mend, however small."""
    found = Axe().run(page).response["violations"]
    assert [f"{each['id']}: {each['nodes'][0]['html']}" for each in found] == []


def judged_pages(server: Server) -> list[str]:
    """Pages of predictions that kept sets and labels left out."""
    job = next(each for each in server.client.jobs(graph="digits") if each.model == "auto")
    return [
        f"/graphs/digits/{page}job={job.id}"
        for page in (
            "predictions?max_error=0.5&",
            "labels/doubtful?",
            "node?id=digit-0007&",
            "suspects?cost_fn=5&",
        )
    ]


def settled(page: Page) -> None:
    """Until what is asked for after the page itself is there."""
    expect(page.locator("text=/^(counting|looking for a node)$/")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_shows_real_data_and_serves_everybody(
    browser: Browser, server: Server, scheme: str
) -> None:
    with watched(browser, server, color_scheme=scheme) as page:
        for path in PAGES:
            page.goto(path)
            settled(page)
            requires_no_mending(page)
        page.goto("/graphs/digits")
        expect(page.locator(".tile", has_text="Nodes").locator(".value")).to_have_text("1,797")
        expect(page.locator(".facts", has_text="Edges deleted")).to_contain_text("Largest damage")
        page.get_by_text("Growth", exact=True).click()
        expect(page.locator("[data-growth] canvas")).to_be_visible()
        page.goto("/graphs/digits/predictions")
        expect(page.locator("[data-bins] canvas")).to_be_visible()
        rows = page.locator("table").nth(1).locator("tbody tr")
        expect(rows).to_have_count(50)
        page.get_by_label("Predicted").select_option("8")
        page.get_by_role("form", name="Filter").get_by_role("button").click()
        expect(rows).to_have_count(50)
        assert {row.inner_text() for row in rows.locator("td:nth-child(2)").all()} == {"8"}
        page.goto("/docs")  # asks nothing of other hosts either
        expect(page.locator("#operations-tag-graphs")).to_be_visible()
        requires_no_mending(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_how_far_predictions_can_be_trusted_is_shown_to_everybody(
    browser: Browser, server: Server, scheme: str
) -> None:
    with watched(browser, server, color_scheme=scheme) as page:
        for path in judged_pages(server):
            page.goto(path)
            settled(page)
            for each in page.locator("details").all():
                each.evaluate("each => { each.open = true; }")
            requires_no_mending(page)
        page.goto(judged_pages(server)[0])
        settled(page)
        expect(page.locator("[data-curve] canvas")).to_be_visible()
        curve = page.get_by_text("The curve as a table")
        curve.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("region", name="Errors by the part")).to_be_visible()
        coverage = page.get_by_label("Coverage, between")
        coverage.fill("0.5")
        coverage.press("Enter")
        expect(page.get_by_role("columnheader", name="Set at 50 %")).to_be_visible()
        settled(page)
        expect(page.locator("#sets")).to_contain_text("with a chance of about 50 %")
        expect(page.get_by_label("Part that may be wrong")).to_have_value("0.5")  # as before
        coverage.fill("0.75")
        page.emulate_media(color_scheme="light" if scheme == "dark" else "dark")
        expect(page.locator("[data-curve] canvas")).to_have_count(1)  # drawn anew
        expect(coverage).to_have_value("0.75")
        page.locator("#certainty").select_option("uncertain")
        page.get_by_role("form", name="Filter").get_by_role("button").click()
        expect(page).to_have_url(re.compile("certainty=uncertain"))
        rows = page.get_by_role("region", name="Predictions").locator("tbody tr")
        assert rows.locator(".badge").count() == 0
        page.get_by_role("link", name="Labels that the others contradict").click()
        expect(page.get_by_role("heading", name="Doubtful labels")).to_be_visible()


def test_what_a_job_did_not_keep_is_solved_for_by_a_button(page: Page, server: Server) -> None:
    page.goto("/graphs/digits/predictions")
    settled(page)
    page.get_by_role("button", name="Solve again with sets").click()
    expect(page.get_by_role("heading", name="Queue and history")).to_be_visible()
    newest = next(iter(server.client.jobs(graph="digits")))
    assert (newest.model, newest.parameters) == ("stable-hfs", {"sets": "auto"})
    server.client.cancel(newest.id)


def test_nothing_is_cut_off_on_a_small_screen(browser: Browser, server: Server) -> None:
    with watched(browser, server, viewport={"width": 360, "height": 740}) as page:
        for path in [*PAGES, *judged_pages(server)]:
            page.goto(path)
            settled(page)
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= 360, path
            rows = page.locator("tr[data-job]").evaluate_all(
                "all => all.map(one => one.clientHeight)"
            )
            assert max(rows, default=0) <= 200, f"a job of {path} fills a quarter of the screen"


def test_a_label_is_set_by_a_key_and_the_predictions_change(page: Page, server: Server) -> None:
    page.goto("/graphs/digits")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()  # everything can be reached by keyboard
    page.get_by_role("link", name="Label next").click()
    card = page.locator("#card")
    heading = card.locator("h2")
    expect(heading).to_contain_text("digit-", timeout=30_000)  # a random one
    effect = page.locator("#effect")
    page.get_by_label("Predict after every label").check()
    expect(effect).to_contain_text("They know every label", timeout=30_000)
    truth = dict(zip(*digit_labels().to_pydict().values(), strict=True))
    for turn in range(3):
        node = heading.inner_text()
        picture = card.get_by_alt_text(f"What {node} is")
        expect(picture).to_have_js_property("naturalWidth", 160)  # is there, and was drawn
        page.locator("#other").evaluate(
            "each => { each.style.caretColor = 'red'; }"
        )  # as add-ons do
        page.keyboard.press(str(truth[node]))
        expect(card.locator(".done")).to_contain_text(f"{node} is {truth[node]} now")
        expect(heading).not_to_have_text(node)
        if turn == 0:
            card.get_by_role("button", name="Locate the nodes").click()  # no job starts by itself
        expect(heading).to_contain_text("digit-", timeout=30_000)
    expect(effect).to_contain_text("before the last label", timeout=30_000)
    expect(effect).to_contain_text("They know every label", timeout=30_000)
    labels = server.client.labels("digits").to_pydict()
    assert labels["label"][-1] == truth[node]
    assert labels["node"][-1] == node
    page.keyboard.press("u")
    expect(heading).to_have_text(node)
    assert node not in server.client.labels("digits")["node"].to_pylist()
    page.keyboard.press("s")
    expect(heading).not_to_have_text(node)
    following = heading.inner_text()
    page.keyboard.press(str(truth[following]))
    expect(card.locator(".done")).to_contain_text(f"{following} is {truth[following]} now")
    expect(heading).not_to_have_text(node)  # what was skipped stays skipped
    page.keyboard.press("n")
    expect(page.locator("#other")).to_be_focused()


def test_suspects_are_labeled_by_keys_and_taken_back(page: Page, server: Server) -> None:
    page.goto(judged_pages(server)[-1])
    expect(page.locator("#precision")).to_contain_text(re.compile("left.out"))
    expect(page.locator("#threshold")).to_contain_text("at a mean cost of")
    page.get_by_label("Class to look for").select_option("8")
    page.get_by_role("button", name="Show", exact=True).click()
    rows = page.get_by_role("region", name="Suspects").locator("tbody tr")
    expect(rows).to_have_count(50)
    first, second = rows.nth(0), rows.nth(1)
    first.scroll_into_view_if_needed()
    expect(first.locator("td.text")).to_contain_text("%", timeout=30_000)  # once it is in view
    expect(rows.nth(49).locator("td.text")).to_have_text(re.compile("^Why"))  # not looked at yet
    page.keyboard.press("j")
    expect(first.get_by_role("link").first).to_be_focused()
    page.keyboard.press("j")
    expect(second.get_by_role("link").first).to_be_focused()
    page.keyboard.press("8")
    expect(second.get_by_role("status")).to_have_text("8 now")
    requires_no_mending(page)
    page.keyboard.press("u")
    expect(second.get_by_role("group").get_by_role("button")).to_have_count(9)
    page.keyboard.press("k")
    expect(first.get_by_role("link").first).to_be_focused()
    first.get_by_role("button", name=re.compile("^3")).click()
    expect(first.get_by_role("status")).to_have_text("3 now")
    expect(first.get_by_role("link").first).to_be_focused()  # the button is gone
    node = first.get_by_role("link").first.inner_text()
    page.reload()
    expect(page.get_by_text("1 labeled since is left out")).to_be_visible()
    expect(page.get_by_role("link", name=node, exact=True)).to_have_count(0)
    server.client.delete_labels("digits", [node])  # it is no 3


def test_features_are_understood_before_they_are_kept(
    browser: Browser, server: Server, tmp_path: Path
) -> None:
    nodes, digits = digit_labels().to_pydict().values()
    rows = [f"{node},{digit},{digit % 3}" for node, digit in zip(nodes, digits, strict=True)]
    (tmp_path / "digits.csv").write_text("\n".join(["node,digit,rest", *rows, "new,,7"]))
    with watched(browser, server, viewport={"width": 360, "height": 740}) as page:
        page.goto("/graphs/digits/features")
        page.get_by_label("Table of features").set_input_files(tmp_path / "digits.csv")
        page.get_by_role("button", name="Send and look at it").click()
        expect(page.get_by_label("Node", exact=True)).to_have_value("node")
        report = page.locator("#report")
        expect(report).to_contain_text("1,798 rows of 3 features", timeout=30_000)
        expect(report.get_by_role("alert")).to_contain_text("column 'digit' gives the label away")
        expect(report).to_contain_text("does not know 1 of the nodes: new.")
        requires_no_mending(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.get_by_role("button", name="Give this file up").click()
        expect(page.get_by_text("Nodes have no features.")).to_be_visible()


def test_the_map_is_read_by_mouse_by_keys_and_as_a_table(browser: Browser, server: Server) -> None:
    small = {"width": 360, "height": 740}
    with watched(browser, server, color_scheme="dark", viewport=small) as page:
        page.goto("/graphs/digits")  # which has it drawn
        canvas = page.get_by_role("application", name="Map of the graph digits")
        expect(canvas).to_have_attribute("data-drawn", re.compile(".+"), timeout=30_000)
        page.get_by_text("This view as a table").click()
        said = page.locator("#map-said")
        expect(said).to_contain_text("1,797 nodes in view, the whole map")
        requires_no_mending(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= small["width"]
    with watched(browser, server) as page:
        page.goto("/graphs/digits")
        canvas = page.get_by_role("application", name="Map of the graph digits")
        said, regions = page.locator("#map-said"), page.get_by_role("region", name="Regions")
        expect(canvas).to_have_attribute("data-drawn", re.compile(".+"), timeout=30_000)
        expect(page.get_by_role("list", name="Colors of the map")).to_contain_text(
            re.compile(r"labeled: \d+")
        )
        page.get_by_text("This view as a table").click()
        requires_no_mending(page)
        canvas.focus()
        for key, words in (
            ("+", "enlarged 2.0 times"),
            ("ArrowRight", "enlarged 2.0 times"),
            ("-", "the whole map"),
            ("+", "enlarged 2.0 times"),
            ("0", "1,797 nodes in view, the whole map"),
        ):
            page.keyboard.press(key)
            expect(said).to_contain_text(words)
        page.get_by_label("only doubtful nodes").check()
        expect(said).to_contain_text("doubtful nodes in view")
        expect(said).not_to_contain_text("1,797")
        page.get_by_label("only doubtful nodes").uncheck()
        expect(said).to_contain_text("1,797 nodes in view")
        regions.get_by_role("button", name="Enlarge middle").press("Enter")
        expect(said).to_contain_text("enlarged 3.0 times")
        expect(regions.get_by_role("button", name="Enlarge middle")).to_be_focused()
        node = re.search(r"Nearest the middle: (digit-\d+): ", said.inner_text())
        assert node is not None
        canvas.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text(node[1])
        page.go_back()
        expect(canvas).to_have_attribute("data-drawn", re.compile(".+"), timeout=30_000)
        doubtful = page.get_by_role("region", name="Most doubtful nodes in view")
        page.get_by_text("This view as a table").click()
        expect(doubtful.get_by_role("row")).to_have_count(21)
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        assert box is not None
        tip = page.locator(".map-tip")
        for step in range(40):  # along the middle, until the mouse is over a node
            page.mouse.move(
                box["x"] + box["width"] * (0.3 + step / 100), box["y"] + box["height"] / 2
            )
            if "on-node" in (canvas.get_attribute("class") or ""):
                break
        expect(tip).to_contain_text(re.compile(r"^digit-\d+: (predicted|labeled) \d"))
        name = tip.inner_text().partition(":")[0]
        page.mouse.down()
        page.mouse.up()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)


def test_a_new_graph_is_labeled_from_the_first_node_on(
    browser: Browser, server: Server, tmp_path: Path
) -> None:
    peewit = server.client
    peewit.create_graph("new", epsilon=0.6, expected_nodes=1797, seed=0)
    with watched(browser, server) as page, watched(browser, server) as other:
        page.goto("/graphs/new/label-next")
        card, effect = page.locator("#card"), page.locator("#effect")
        heading, switch = card.locator("h2"), page.get_by_label("Predict after every label")
        expect(card).to_contain_text("The graph has no edges")
        requires_no_mending(page)
        switch.check()
        expect(switch).to_be_focused()
        other.goto("/graphs/new/label-next")
        expect(other.get_by_label("Predict after every label")).to_be_checked()
        peewit.push_edges("new", digit_edges(), wait=None)
        expect(effect).to_contain_text("No node has a label", timeout=30_000)  # focused or not
        card.get_by_role("button", name="Locate the nodes").click()
        expect(heading).to_contain_text("digit-", timeout=60_000)

        def put(label: str) -> str:
            node = heading.inner_text()
            page.locator("#other").fill(label)
            page.keyboard.press("Enter")
            expect(card.locator(".done")).to_contain_text(f"{node} is {label} now")
            return node

        put("odd")
        expect(effect).to_contain_text("of one class, odd")
        put("odd")
        put("even")
        expect(effect).to_contain_text("They know every label", timeout=60_000)
        assert {job.model for job in peewit.jobs(graph="new") if job.kind == "solve"} == {
            DEFAULT_MODEL
        }
        last = [put(label) for label in ("even", "odd", "odd")][-1]  # while a solve runs
        expect(effect).to_contain_text("They know every label", timeout=60_000)
        expect(other.locator("#effect")).to_contain_text("They know every label", timeout=10_000)
        skipped = heading.inner_text()
        page.locator("h2").first.click(position={"x": 1, "y": 1})
        page.keyboard.press("u")
        expect(heading).to_have_text(last)
        page.keyboard.press("s")
        expect(heading).not_to_have_text(last)
        expect(effect).to_contain_text("They know every label", timeout=60_000)
        assert last not in peewit.labels("new")["node"].to_pylist()
        assert skipped != last
        other.get_by_label("Predict after every label").uncheck()
        expect(switch).not_to_be_checked(timeout=10_000)
        put("even")
        expect(effect).to_contain_text("They do not know the last change")
        expect(page.get_by_role("button", name="Predict now")).to_be_visible()


def test_a_running_job_is_cancelled(page: Page, server: Server) -> None:
    endless = {"graph_penalty": 1.0, "cross_validate": 50}
    server.client.put_labels("digits", draw_labels(digit_labels(), 10, seed=1))
    job = server.client.submit_solve("digits", "tv-rls", endless)
    page.goto("/graphs/digits/jobs")
    row = page.locator("tr", has=page.locator(f'a[href="/jobs/{job.id}"]')).first
    expect(row).to_contain_text("running", timeout=20_000)
    row.get_by_role("button", name="Cancel").click()
    expect(row.locator(".badge")).to_have_text("cancelled", timeout=20_000)
    assert server.client.job(job.id).status == "cancelled"


def test_a_quarantined_file_is_offered_again(page: Page, server: Server) -> None:
    page.goto("/graphs/digits")
    row = page.locator("tr", has_text="bad.parquet")
    expect(row).to_contain_text("column 'weight' must be finite and >= 0, row 0: -1.0")
    before = next(
        file for file in server.client.files("digits") if file.path.endswith("bad.parquet")
    )
    row.get_by_role("button", name="Retry").click()
    expect(page.locator("tr", has_text="bad.parquet")).to_be_visible(timeout=20_000)
    after = next(
        file for file in server.client.files("digits") if file.path.endswith("bad.parquet")
    )
    assert after.finished_at != before.finished_at or after.status == "pending"


def test_a_file_that_is_no_table_is_told_before_it_is_sent(page: Page, tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(b"x")
    page.goto("/graphs/digits/labels")
    page.get_by_label("File of labels").set_input_files(tmp_path / "photo.png")
    page.get_by_role("button", name="Send and look at it").click()
    expect(page.locator(".outcome")).to_contain_text("The name must end with one of csv")


def test_a_form_that_is_refused_says_why(browser: Browser, server: Server) -> None:
    context = browser.new_context(base_url=server.url)
    page = context.new_page()
    page.goto("/graphs/digits/labels")
    page.get_by_label("Node", exact=True).fill("nobody")
    page.get_by_label("Label", exact=True).first.fill("1")
    page.get_by_role("button", name="Put label").click()
    expect(page.get_by_role("alert")).to_contain_text("does not know the node 'nobody'")
    expect(page.get_by_label("Node", exact=True)).to_be_focused()
    assert page.get_by_label("Node", exact=True).input_value() == "nobody"
    requires_no_mending(page)
    context.close()


def test_a_wrong_key_is_refused_and_a_right_one_is_not(browser: Browser, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    database = open_database(Settings(home=home.directory).database)
    key = KeyStore(database).create("annotator", ["read", "label"])
    database.close()
    try:
        server = Server(home, "api")
        context = browser.new_context(base_url=server.url)
        page = context.new_page()
        page.goto("/jobs")
        field = page.get_by_label("Key")
        expect(field).to_be_focused()
        field.fill(key[:-1] + "?")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("unknown, wrong or revoked")
        requires_no_mending(page)
        page.get_by_label("Key").fill(key)
        page.keyboard.press("Enter")
        expect(page).to_have_url(f"{server.url}/jobs")
        expect(page.locator(".who")).to_contain_text("annotator")
        (cookie,) = context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("button", name="Sign out").click()
        expect(page).to_have_url(f"{server.url}/sign-in")
        page.goto("/jobs")
        expect(page.get_by_label("Key")).to_be_visible()
        context.close()
    finally:
        home.end()


def test_two_people_label_at_once_and_give_second_opinions(
    browser: Browser, tmp_path: Path
) -> None:
    home = Home(tmp_path / "home", PEEWIT_SECOND_OPINIONS="1")
    ring = tmp_path / "ring.csv"
    ring.write_text("src,dst\n" + "".join(f"n{each},n{(each + 1) % 9}\n" for each in range(9)))
    try:
        home.run("graph", "create", "g", "--seed", "1")
        home.run("ingest", "g", ring)
        team = home.json("key", "create", "team", "--scope", "read", "--scope", "label")["key"]
        server = Server(home, "api")

        def sit_down(page: Page, name: str) -> None:
            page.goto("/graphs/g/label-next?strategy=random")
            page.get_by_label("Key").fill(team)
            page.get_by_label("Your name").fill(name)
            requires_no_mending(page)
            page.get_by_role("button", name="Sign in").click()
            expect(page.locator(".who")).to_contain_text(name)

        def node_on(page: Page) -> str:
            settled(page)
            return page.locator("#card h2").inner_text()

        def say(page: Page, label: str) -> None:
            page.get_by_label("Another label").fill(label)
            page.keyboard.press("Enter")

        with watched(browser, server) as ann, watched(browser, server) as bob:
            sit_down(ann, "Ann")
            sit_down(bob, "Bob")
            first, other = node_on(ann), node_on(bob)
            assert first != other
            ann.reload()
            assert node_on(ann) == first
            say(ann, "odd")
            expect(ann.locator(".done")).to_contain_text(f"{first} is odd now")
            bob.reload()
            assert node_on(bob) == other  # what he looks at stays
            say(bob, "even")
            expect(bob.locator(".done")).to_contain_text(f"{other} is even now")
            expect(bob.locator("#card")).to_contain_text("A second opinion")
            assert node_on(bob) == first
            requires_no_mending(bob)
            bob.keyboard.press("Escape")
            bob.get_by_role("button", name="even").click()
            expect(bob.locator(".done")).to_contain_text(f"Your opinion of {first} is even")
            ann.goto("/graphs/g/labels/agreement")
            expect(ann.locator("main")).to_contain_text("Ann and Bob")
            requires_no_mending(ann)
            ann.get_by_role("button", name=f"Decide even for {first}").click()
            expect(ann.locator("main")).to_contain_text("Nothing is to be decided")
            ann.goto("/graphs/g/labels?annotator=Ann")
            expect(ann.get_by_role("region", name="Labeled nodes")).to_contain_text("even")
    finally:
        home.end()
