"""How long after the solve the page of a graph that nobody has looked at shows its map.

``python -m docs.benchmarks.first_picture [--graphs 3]`` serves an empty home, makes graphs of the
digits one after the other, solves each and opens its page in Chromium as soon as the job has ended.
The seconds from the end of the solve until the canvas says that all nodes are in view are of
drawing, the page and the browser's own start of it together.
"""

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq
from playwright.sync_api import expect, sync_playwright

from docs.benchmarks.frame import CONSOLE, options
from peewit.service.demo.digits import digit_edges, digit_labels, draw_labels
from tests.end_to_end.processes import Home, Server


def main() -> None:
    asked = options(__doc__, graphs=3)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        directory = Path(name)
        labels = directory / "labels.parquet"
        pq.write_table(draw_labels(digit_labels(), 10, seed=0), labels)
        home = Home(directory / "home")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        try:
            server = Server(home, stderr=subprocess.DEVNULL)
            page = browser.new_page(base_url=server.url)
            page.goto("/")
            for number in range(asked.graphs):
                graph = f"digits-{number}"
                home.run("graph", "create", graph, "--epsilon", 0.6, "--expected-nodes", 1797)
                server.client.push_edges(graph, digit_edges(), wait=60.0)
                home.run("labels", "put", graph, labels)
                began = time.perf_counter()
                server.client.solve(graph, "auto")
                solved = time.perf_counter()
                page.goto(f"/graphs/{graph}")
                said = page.locator("#map-said")
                expect(said).to_contain_text("1,797 nodes in view", timeout=60_000)
                shown = time.perf_counter()
                CONSOLE.print(
                    f"{graph}: solve {solved - began:.2f} s, map {shown - solved:.2f} s later"
                )
        finally:
            browser.close()
            home.end()


if __name__ == "__main__":
    main()
