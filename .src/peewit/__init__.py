"""Peewit: label a few nodes of a graph, get every other node's label.

    from peewit import Client, StableHFS, sparsify

`sparsify` keeps a small graph with the spectrum of a large one, the estimators label its nodes in
this process, `Client` and `AsyncClient` do both on a server. Everything else is internal.

Decisions, each with what it led to:

- One import name. `streaming` and `service` belong to other distributions on PyPI, so the folders
  of those names are installed inside this package. In a checkout they are links beside this file;
  nothing is named twice and new files are seen at once.
- Names load when they are asked for. A program that wants the client need not wait for kernels,
  and a process can set numba's environment before the first of them is imported.
- Estimators take tables of edges, which streaming reads and solvers must not know: here, where both
  meet, one is told of the other.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from peewit.solvers import estimators
from peewit.solvers.estimators import edge_tables
from peewit.solvers.late_modules import late_names

if TYPE_CHECKING:
    from peewit.service.client import AsyncClient, Client, PeewitError
    from peewit.solvers.estimators import *  # noqa: F403 - all of them, by its __all__
    from peewit.solvers.estimators.classifier_on_graph import ClassifierOnGraph
    from peewit.solvers.estimators.feature_filter import filter_features
    from peewit.solvers.progress_bar import ProgressBar
    from peewit.streaming.calls.relations_call import sparsify_relations
    from peewit.streaming.calls.sparsified import Sparsified, SparsifiedRelations
    from peewit.streaming.calls.sparsify_call import sparsify

__all__ = [
    "AsyncClient",
    "ClassifierOnGraph",
    "Client",
    "PeewitError",
    "ProgressBar",
    "Sparsified",
    "SparsifiedRelations",
    "filter_features",
    "sparsify",
    "sparsify_relations",
]
__all__ += estimators.__all__

_ELSEWHERE: Final = {
    "AsyncClient": "peewit.service.client",
    "ClassifierOnGraph": "peewit.solvers.estimators.classifier_on_graph",
    "Client": "peewit.service.client",
    "PeewitError": "peewit.service.client",
    "ProgressBar": "peewit.solvers.progress_bar",
    "Sparsified": "peewit.streaming.calls.sparsified",
    "SparsifiedRelations": "peewit.streaming.calls.sparsified",
    "filter_features": "peewit.solvers.estimators.feature_filter",
    "sparsify": "peewit.streaming.calls.sparsify_call",
    "sparsify_relations": "peewit.streaming.calls.relations_call",
}
"""Module of each name that is no estimator."""

__getattr__, __dir__ = late_names(
    __name__, dict.fromkeys(__all__, "peewit.solvers.estimators") | _ELSEWHERE
)


def _graphs_of_tables(tables: Mapping[str, Any]) -> Mapping[str, Any]:
    graphs: Mapping[str, Any] = import_module(_ELSEWHERE["sparsify_relations"]).sparsify_relations(
        tables
    )
    return graphs


edge_tables.read_by(_graphs_of_tables)
