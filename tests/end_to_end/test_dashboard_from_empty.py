"""From an empty home to downloaded predictions in the browser alone: no terminal, no API."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.end_to_end.processes import Home, Server
from tests.end_to_end.test_dashboard import CHROMIUM, QUIET, requires_no_mending, settled, watched
from tests.service.solvable import two_communities

pytestmark = pytest.mark.skipif(
    CHROMIUM is None,
    reason="no Chromium: install Debian's chromium, or name one by PEEWIT_TEST_CHROMIUM",
)

MILLISECONDS = 60_000
"""Longest time for ingest and solve, which may compile."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = Home(tmp_path_factory.mktemp("empty") / "home")
    try:
        yield Server(home, "serve")
    finally:
        home.end()


def write_files(directory: Path) -> None:
    """Edges of whole numbers in Parquet, under names of others, and a few labels in CSV."""
    u, v = two_communities()
    pa.parquet.write_table(
        pa.table({"paid_by": u, "paid_to": v, "amount": np.ones(len(u))}), directory / "pay.parquet"
    )
    (directory / "known.csv").write_text("account,kind\n3,left\n5,left\n33,right\n40,right\n")


def serves_everybody(page: Page) -> None:
    """axe finds nothing in light and dark, and 360 px cut nothing off."""
    wide = page.viewport_size
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        requires_no_mending(page)
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360, page.url
    assert wide is not None
    page.set_viewport_size(wide)


def sent(page: Page, label: str, file: Path) -> None:
    page.get_by_label(label).set_input_files(file)
    page.get_by_role("button", name="Send and look at it").click()


def test_a_graph_is_made_labeled_and_predicted_by_clicks_alone(
    browser: Browser, server: Server, tmp_path: Path
) -> None:
    write_files(tmp_path)
    with watched(browser, server) as page:
        page.set_default_timeout(MILLISECONDS)
        page.goto("/")
        page.get_by_role("link", name="New graph").click()
        serves_everybody(page)
        page.get_by_label("Name").fill("pay")
        page.get_by_role("button", name="Create the graph").click()
        expect(page.get_by_text("Next: edges.")).to_be_visible()
        serves_everybody(page)

        sent(page, "File of edges", tmp_path / "pay.parquet")
        page.get_by_label("Source").select_option("paid_by")
        page.get_by_label("Target", exact=True).select_option("paid_to")
        page.get_by_label("Weight").select_option("amount")
        page.get_by_role("button", name="Check the file").click()
        page.get_by_role("button", name="Make it a graph of whole numbers").click()
        take = page.get_by_role("button", name="Take 241 edges")
        expect(take).to_be_visible()
        serves_everybody(page)
        take.click()
        expect(page.get_by_text("241 edges taken.")).to_be_visible()
        page.get_by_role("link", name="Send labels").click()

        sent(page, "File of labels", tmp_path / "known.csv")
        put = page.get_by_role("button", name="Put 4 labels")
        expect(put).to_be_visible()
        serves_everybody(page)
        put.click()
        expect(page.get_by_text("4 labels put.")).to_be_visible()
        page.get_by_role("link", name="Another model").click()
        serves_everybody(page)
        page.get_by_role("link", name="stable-hfs").click()
        serves_everybody(page)
        page.get_by_role("button", name="Predict with stable-hfs").click()

        page.get_by_role("link", name="Look at the predictions").click()
        settled(page)
        page.get_by_role("link", name="Most doubtful first").click()
        settled(page)
        serves_everybody(page)
        with page.expect_download() as begun:
            page.get_by_role("link", name="csv", exact=True).click()
        begun.value.save_as(tmp_path / "predicted.csv")
        table = pa.csv.read_csv(tmp_path / "predicted.csv").to_pydict()
        found = dict(zip(table["node"], table["label"], strict=True))
        assert found == {node: "left" if node < 30 else "right" for node in range(60)}


def test_files_that_are_dropped_become_predictions(
    browser: Browser, server: Server, tmp_path: Path
) -> None:
    write_files(tmp_path)
    with watched(browser, server) as page:
        page.set_default_timeout(MILLISECONDS)
        page.goto("/start")
        serves_everybody(page)
        files = [tmp_path / "pay.parquet", tmp_path / "known.csv"]
        page.get_by_label("Tables").set_input_files(files)
        page.get_by_role("button", name="Send and look at them").click()
        expect(page.get_by_text("Put the labels in known.csv.")).to_be_visible()
        serves_everybody(page)
        change = page.get_by_text("Change what its columns are").first
        change.focus()
        page.keyboard.press("Enter")
        page.get_by_label("amount", exact=True).select_option("weight")
        serves_everybody(page)
        page.get_by_label("Kind of edges").fill("paid")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Weights: amount.")).to_be_visible()
        expect(page.get_by_label("Kind of edges")).to_have_value("paid")
        page.get_by_text("As commands of a terminal").click()
        serves_everybody(page)
        with page.expect_download() as begun:
            page.get_by_role("link", name="Download the commands").click()
        commands = Path(begun.value.path()).read_text()
        assert "peewit ingest mine pay.parquet --relation paid" in commands
        page.get_by_label("Name of the graph").fill("dropped")
        page.get_by_role("button", name="Do it").click()
        expect(page.get_by_text("Read the edges in pay.parquet: taken.")).to_be_visible()
        serves_everybody(page)
        page.goto("/models")  # nobody looks at the page while it goes on
        page.goto("/graphs/dropped/start")
        page.get_by_role("link", name="Look at them").click(timeout=3 * MILLISECONDS)
        expect(page.get_by_role("heading", name="Class sizes")).to_be_visible()


def test_what_is_wrong_or_not_there_is_told_with_a_way_on(
    browser: Browser, server: Server, tmp_path: Path
) -> None:
    context = browser.new_context(base_url=server.url)
    page = context.new_page()
    server.client.create_graph("deals")
    (tmp_path / "deals.csv").write_text("buyer,shop\nann,shop 1\n")
    page.goto("/graphs/deals/edges")
    sent(page, "File of edges", tmp_path / "deals.csv")
    page.get_by_label("Source").select_option("buyer")
    page.get_by_label("Target", exact=True).select_option("buyer")
    check = page.get_by_role("button", name=re.compile("^Check "))
    check.click()
    expect(page.get_by_role("alert")).to_contain_text("must name a column of its own")
    page.get_by_label("Target", exact=True).select_option("shop")
    check.click()
    expect(page.get_by_role("button", name="Take 1 edge")).to_be_visible()
    page.goto("/jobs")
    page.goto("/graphs/nothing")
    expect(page.get_by_role("heading", name="Nothing is here")).to_be_visible()
    serves_everybody(page)
    page.goto("/nothing/at/all")
    page.get_by_role("link", name="All graphs").click()
    expect(page.get_by_role("heading", name="Graphs", exact=True)).to_be_visible()
    for scheme, background in (("dark", False), ("light", True)):
        page.emulate_media(color_scheme=scheme)
        page.goto("/docs")
        expect(page.get_by_role("heading", name="Peewit")).to_be_visible(timeout=MILLISECONDS)
        assert is_light(page) is background
    context.close()


def is_light(page: Page) -> bool:
    """Whether the page has a light ground."""
    color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    channels = [float(each) for each in color.split("(")[1].strip(")").split(",")]
    transparent = len(channels) == 4 and channels[3] == 0
    is_dark = page.evaluate("document.documentElement.classList.contains('dark-mode')")
    return not is_dark if transparent else sum(channels[:3]) > 382
