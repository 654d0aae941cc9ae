"""The picture in the README: the map of the digits after a solve, as Chromium draws it.

``python -m tests.end_to_end.screenshot service/dashboard/screenshot.png`` makes it anew.
"""

import argparse
import re
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

from peewit.service.demo.digits import digit_edges, digit_labels, draw_labels
from tests.end_to_end.processes import Home, Server
from tests.end_to_end.test_dashboard import QUIET

N_LABELS = 3
"""Of each digit."""


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="peewit-screenshot-") as directory:
        home = Home(Path(directory) / "home", PEEWIT_LOG_LEVEL="error")
        try:
            server = Server(home, "serve")
            server.client.create_graph("digits", epsilon=0.6, expected_nodes=1797, seed=0)
            server.client.push_edges("digits", digit_edges(), wait=60)
            server.client.put_labels("digits", draw_labels(digit_labels(), N_LABELS, seed=0))
            server.client.solve("digits")
            photograph(server, arguments.path)
        finally:
            home.end()


def photograph(server: Server, path: Path) -> None:
    """Open the page of the graph, which has it drawn, and take the picture."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(QUIET)
        )
        page = browser.new_page(base_url=server.url, viewport={"width": 1120, "height": 860})
        page.goto("/graphs/digits")
        canvas = page.get_by_role("application", name="Map of the graph digits")
        expect(canvas).to_have_attribute("data-drawn", re.compile(".+"), timeout=60_000)
        expect(page.get_by_text("No predictions yet")).to_have_count(0)
        page.screenshot(path=path)
        browser.close()


if __name__ == "__main__":
    main()
