"""Every route is in the table of operations, but for a few that stand here."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fastapi.routing import APIRoute

from peewit.service.api.app import create_app
from peewit.service.operations.table import TABLE
from peewit.service.settings import Settings

BY_HAND: Final = {
    *("_show_docs", "healthz", "readyz", "metrics"),  # a page and probes: nothing a person asks
    *("get_map_tile", "watch_job"),  # an image and events, one of each
}


def by_hand(home: Path) -> Iterator[str]:
    declared = {each.name for operations in TABLE.values() for each in operations}
    app = create_app(Settings(home=home))
    for route in app.routes:
        for each in getattr(getattr(route, "original_router", None), "routes", [route]):
            if isinstance(each, APIRoute) and each.name not in declared:
                yield each.name
    app.state.home.close()


def test_no_route_comes_outside_the_table(tmp_path: Path) -> None:
    assert set(by_hand(tmp_path)) == BY_HAND
