"""The home that a server works on, with its limits, and the graph that a path names."""

import asyncio
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Annotated, Final, TypeVar

from fastapi import Depends, Path, Request
from prometheus_client import CollectorRegistry
from starlette.concurrency import run_in_threadpool

from peewit.service.api.decoding_budget import DecodingBudget
from peewit.service.catalog import GraphRecord
from peewit.service.database.engine import Database
from peewit.service.home import Home
from peewit.service.metrics.store_metrics import store_registry
from peewit.service.settings import Settings
from peewit.service.tables.uploads import UploadLimits
from peewit.service.tasks.kind_list import KINDS

_Value = TypeVar("_Value")

_LABEL_TABLES: Final = 2
"""Tables of labels that one process decodes and stores at a time; others wait on the disk. A
million labels take some 300 MB as Python values, and there are threads for 40 tables."""

_SUGGESTIONS: Final = 2
"""Requests for suggestions that one process serves at a time; each takes a processor a while."""


class ServedHome(Home):
    """A home behind a server.

    ``decoding`` is held while a body is decoded, ``label_tables`` also while a table of labels is
    in memory, ``suggestions`` while some are chosen.
    """

    def __init__(self, database: Database, settings: Settings) -> None:
        super().__init__(database, settings)
        self.decoding = DecodingBudget(settings.max_decoding_bytes)
        self.label_tables = asyncio.Semaphore(_LABEL_TABLES)
        self.suggestions = asyncio.Semaphore(_SUGGESTIONS)
        for name, value in vars(Home).items():
            if isinstance(value, cached_property):
                getattr(self, name)  # now, as two threads could make two of one later

    @cached_property
    def metrics(self) -> CollectorRegistry:
        """Metrics of the home."""
        return store_registry(self.database, self.settings, KINDS)

    @cached_property
    def upload_limits(self) -> UploadLimits:
        """Limits of bodies."""
        return UploadLimits(
            rows=self.settings.max_body_rows,
            label_rows=self.settings.max_label_rows,
            columns=self.settings.max_columns,
            decoded_bytes=self.settings.max_decoded_bytes,
            batch_bytes=self.settings.max_body_bytes,
        )

    async def recently(self, key: Hashable, load: Callable[[], _Value]) -> _Value:
        """`Recent.get` for coroutines, in a thread if it may have to wait for the database."""
        if self.recent.is_cached(key):
            return self.recent.get(key, load)
        return await run_in_threadpool(self.recent.get, key, load)


async def _home(request: Request) -> ServedHome:
    """A coroutine, as it needs no thread: to change over to one takes 50 microseconds."""
    home: ServedHome = request.app.state.home
    return home


HomeHere = Annotated[ServedHome, Depends(_home)]
"""The home of the application."""


NameOfGraph = Annotated[str, Path(description="Name of the graph.")]


async def _graph(graph: NameOfGraph, home: HomeHere) -> GraphRecord:
    return await home.recently(("graph", graph), lambda: home.catalog.get(graph))


GraphHere = Annotated[GraphRecord, Depends(_graph)]
"""The graph that the path names."""
