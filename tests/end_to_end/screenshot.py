"""The picture in the README: *Label next* after some labels, as Chromium draws it.

``python -m tests.end_to_end.screenshot service/dashboard/screenshot.png`` makes it anew.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

from peewit.service.demo.digits import digit_edges, digit_labels, draw_labels, write_pictures
from tests.end_to_end.processes import Home, Server
from tests.end_to_end.test_dashboard import QUIET

N_LABELS = 6


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="peewit-screenshot-") as directory:
        home = Home(Path(directory) / "home", PEEWIT_LOG_LEVEL="error")
        try:
            write_pictures(home.directory / "items" / "digits")
            server = Server(home, "serve")
            solve = {"model": "stable-hfs", "parameters": {}}
            server.client.create_graph(
                "digits", epsilon=0.6, expected_nodes=1797, seed=0, auto_solve=solve
            )
            server.client.push_edges("digits", digit_edges(), wait=None)
            server.client.put_labels("digits", draw_labels(digit_labels(), 1, seed=0))
            photograph(server, arguments.path)
        finally:
            home.end()


def photograph(server: Server, path: Path) -> None:
    """Label some nodes as a user would, and take the picture."""
    truth = dict(zip(*digit_labels().to_pydict().values(), strict=True))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(QUIET)
        )
        page = browser.new_page(base_url=server.url, viewport={"width": 1120, "height": 930})
        page.goto("/graphs/digits/label-next")
        heading = page.locator("#card h2 a")
        for _ in range(N_LABELS):
            expect(heading).to_contain_text("digit-", timeout=60_000)
            node = heading.inner_text()
            page.keyboard.press(str(truth[node]))
            expect(heading).not_to_have_text(node)
        expect(page.locator("#effect")).to_contain_text("They know every label", timeout=60_000)
        expect(page.locator("#effect")).to_contain_text("have another label", timeout=60_000)
        page.screenshot(path=path)
        browser.close()


if __name__ == "__main__":
    main()
