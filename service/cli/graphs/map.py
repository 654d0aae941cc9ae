"""`peewit map`: draw a graph."""

from collections.abc import Mapping
from typing import Any, Final

from peewit.service.cli.session import AsJson, GraphName, command_group, echo
from peewit.service.cli.solving.submission import run_job
from peewit.service.tasks.kind_list import KINDS

app = command_group()

_KIND: Final = KINDS["map"]


@app.command("map")
def draw(name: GraphName, json: AsJson = False) -> None:
    """Draw the nodes of the newest snapshot, for the page of the graph.

    Neighbors lie near each other. The dashboard joins the map with the present predictions and
    labels, so that it need not be drawn again for these. The job goes through the queue; while no
    worker is alive this command runs it itself.
    """
    run_job(name, _KIND, {}, _tell_result, json=json)


def _tell_result(result: Mapping[str, Any]) -> None:
    echo(
        f"drew {result['n_nodes']:,} nodes of snapshot {result['snapshot']} in "
        f"{sum(result['seconds'].values()):.1f} s; `peewit serve` shows them"
    )
