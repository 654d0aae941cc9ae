"""Colored maps: layouts of graphs joined with predictions and labels, kept in memory.

A solve or a label changes colors and never the layout.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from peewit.service.catalog import GraphRecord
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.labels.store import LabelColumnNotFound, LabelStore
from peewit.service.predictions.doubtful_labels import doubts_of
from peewit.service.predictions.left_out import NotCrossValidated, read_left_out
from peewit.service.predictions.map_colors import (
    MAX_CLASSES,
    Colors,
    Int16Array,
    UInt8Array,
    colors_of,
    range_of,
)
from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.predictions.reader import PredictionReader
from peewit.service.predictions.store import PredictionsNotFound
from peewit.service.tables.uploads import node_array
from peewit.solvers.arrays import BoolArray, Float32Array, Int64Array
from peewit.streaming.edges.node_kinds import TEXT
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.node_map import MapStore, NodeMap
from peewit.streaming.problems import NotFound

_MAX_KEPT: Final = 4
"""Maps kept, the last used ones; the largest take some hundred MB each."""


class MapNotFound(NotFound):
    """The graph has no map yet."""

    title = "Map not found"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColoredMap:
    """A map with what is known of its nodes; all arrays are in the order of the map."""

    map: NodeMap
    file: PredictionFile | None  # None while nothing is predicted
    colors: Colors
    class_names: tuple[str, ...]  # of ``colors``, then of labels never predicted
    labeled: Int64Array  # (n_labeled,) places of labeled nodes, increasing
    label_color: Int16Array  # (n_labeled,)
    is_contradicted: BoolArray  # (n_labeled,) whether the other labels predict another class
    labels_seq: int  # last label event that counts
    tag: str  # differs whenever a tile may differ
    names: Sequence[pa.Array]  # external ids by dense id, in chunks

    def names_of(self, places: Int64Array) -> list[bytes]:
        """External ids of some nodes, in UTF-8."""
        names = _values_at(self.names, self.map.node[places])
        return [str(name).encode() for name in names]

    def scores_of(self, places: Int64Array) -> Float32Array:
        """Scores of some nodes; nan for nodes without a prediction."""
        scores = np.full(places.size, np.nan, np.float32)
        if self.file is not None:
            node = self.map.node[places]
            is_in = node < self.file.n_nodes
            columns = [batch.column(self.file.score_column) for batch in self.file.batches()]
            scores[is_in] = _values_at(columns, node[is_in])
        return scores

    def shown_colors(self, places: Int64Array) -> tuple[Int16Array, UInt8Array]:
        """Colors of some nodes, for labeled ones of their labels; and 1 for these.

        It is 2 for labels that the others contradict.
        """
        color = self.colors.color[places]
        row = np.searchsorted(self.labeled, places)
        row[row == self.labeled.size] = 0
        labeled = np.zeros(places.size, np.uint8)
        if self.labeled.size:
            is_labeled = self.labeled[row] == places
            color = np.where(is_labeled, self.label_color[row], color)
            labeled[is_labeled] = 1 + self.is_contradicted[row[is_labeled]]
        return color, labeled


class Maps:
    """Maps of graphs with their colors; thread-safe."""

    def __init__(
        self,
        predictions: PredictionReader,
        labels: LabelStore,
        nodes: KnownNodes,
        graphs_directory: Path,
    ) -> None:
        self._predictions = predictions
        self._labels = labels
        self._nodes = nodes
        self._graphs_directory = graphs_directory
        self._caches: dict[str, OrderedDict[Hashable, Any]] = {
            what: OrderedDict() for what in ("maps", "colors", "labels", "names")
        }
        self._making = Lock()

    def version(self, graph: GraphRecord) -> tuple[int, int] | None:
        """Version of a graph's map; None while there is none."""
        return self._store(graph).version()

    def drawn(self, graph: GraphRecord) -> int | None:
        """Snapshot that a graph's map shows; None while there is no map."""
        store = self._store(graph)
        version = store.version()
        node_map = None if version is None else self._get("maps", (graph.id, version), store.open)
        return None if node_map is None else int(node_map.meta.snapshot)

    def open(
        self, graph: GraphRecord, *, job_id: str | None = None, column: str | None = None
    ) -> ColoredMap:
        """The map with the freshest predictions of a column, or with those of a job.

        Raises `MapNotFound` while there is no map, and `UnknownJob` or `PredictionsNotFound` where
        the job is not of this graph or has no predictions.
        """
        store = self._store(graph)
        version = store.version()
        node_map = None if version is None else self._get("maps", (graph.id, version), store.open)
        if node_map is None:
            raise MapNotFound(
                f"graph {graph.settings.name} has no map yet; submit a job of kind map and wait "
                "for it"
            )
        file = self._file(graph, job_id, column)
        named = (column or "") if file is None else file.meta.label_column
        erased = self._nodes.erased(graph, node_map.meta.n_nodes)
        key = graph.id, version, None if file is None else file.key, erased.tobytes()
        colors = self._get("colors", key, lambda: colors_of(node_map, file, erased))
        names, labeled, label_color, is_contradicted = self._get(
            "labels",
            (*key, named, graph.labels_seq),
            lambda: self._place_labels(graph, node_map, named, colors, file),
        )
        ids = self._get(
            "names",
            (graph.id, version, erased.tobytes()),
            lambda: self._nodes.external_ids(graph, node_map.meta.n_nodes).chunks,
        )
        tag = blake2b(repr((key, named, graph.labels_seq)).encode(), digest_size=12).hexdigest()
        return ColoredMap(
            map=node_map,
            file=file,
            colors=colors,
            class_names=names,
            labeled=labeled,
            label_color=label_color,
            is_contradicted=is_contradicted,
            labels_seq=graph.labels_seq,
            tag=tag,
            names=ids,
        )

    def _store(self, graph: GraphRecord) -> MapStore:
        return MapStore(GraphPaths(root=self._graphs_directory / graph.id))

    def _file(
        self, graph: GraphRecord, job_id: str | None, column: str | None
    ) -> PredictionFile | None:
        try:
            return self._predictions.open(
                self._predictions.find(graph, job_id=job_id, column=column)
            )
        except PredictionsNotFound:
            if job_id is not None:
                raise
            return None

    def _place_labels(
        self,
        graph: GraphRecord,
        node_map: NodeMap,
        column: str,
        colors: Colors,
        file: PredictionFile | None,
    ) -> tuple[tuple[str, ...], Int64Array, Int16Array, BoolArray]:
        """Classes, places of labeled nodes, their labels' colors, and who is contradicted."""
        names = colors.class_names
        try:
            labels = self._labels.current(graph.id, column=column)
        except LabelColumnNotFound:
            return names, np.zeros(0, np.int64), np.zeros(0, np.int16), np.zeros(0, bool)
        nodes = labels.nodes.to_pylist()
        kind = graph.settings.node_ids
        ids = node_array(nodes if kind in TEXT else [int(node) for node in nodes], kind)
        dense = self._nodes.lookup(graph, ids)
        if colors.edges is not None:
            color = range_of(np.array(labels.labels, np.float64), colors.edges)
        else:
            texts = [str(label) for label in labels.labels]
            names = (*names, *sorted(set(texts) - set(names)))[:MAX_CLASSES]
            place_of = {name: place for place, name in enumerate(names)}
            color = np.array([place_of.get(text, -1) for text in texts], np.int16)
        is_in = (dense >= 0) & (dense < node_map.meta.n_nodes)
        known, color = dense[is_in].astype(np.int64), color[is_in]
        places = _places(node_map, known)
        order = np.argsort(places)
        is_contradicted = _are_contradicted(file, known, color)
        return names, places[order], color[order], is_contradicted[order]

    def _get(self, what: str, key: Hashable, make: Callable[[], Any]) -> Any:
        """The cached value, else a new one; concurrent callers wait for the one that makes it."""
        cache = self._caches[what]
        with suppress(KeyError):  # no lock for what is cached
            value = cache[key]
            cache.move_to_end(key)
            return value
        with self._making:
            value = cache.get(key) or make()
            if value is None:  # the map was removed meanwhile
                return None
            cache[key] = value
            while len(cache) > _MAX_KEPT:
                cache.popitem(last=False)
        return value


def _are_contradicted(
    file: PredictionFile | None, dense: Int64Array, color: Int16Array
) -> BoolArray:
    """Whether the other labels contradicted these when they were left out, if ever they were."""
    if file is None or file.meta.score == "value":
        return np.zeros(dense.size, bool)
    try:
        left_out = read_left_out(file)
    except NotCrossValidated:
        return np.zeros(dense.size, bool)
    wrong = doubts_of(file, left_out).contradicted
    of_labels = left_out.nodes[wrong] * MAX_CLASSES + left_out.classes[wrong]
    return np.isin(dense * MAX_CLASSES + color, of_labels)  # unless another class was put since


def _places(node_map: NodeMap, dense: Int64Array) -> Int64Array:
    """Places of dense ids in a map."""
    row = np.full(node_map.meta.n_nodes, -1, np.int32)
    row[dense] = np.arange(dense.size, dtype=np.int32)
    wanted = row[node_map.node]
    places = np.flatnonzero(wanted >= 0)
    result = np.empty(dense.size, np.int64)
    result[wanted[places]] = places
    return result


def _values_at(chunks: Sequence[pa.Array], rows: npt.NDArray[Any]) -> list[Any]:
    """Values of some rows of a chunked column, without concatenating the chunks."""
    starts = np.concatenate([[0], np.cumsum([len(chunk) for chunk in chunks])])
    chunk_of = np.searchsorted(starts, rows, side="right") - 1
    values: list[Any] = [None] * rows.size
    for chunk in np.unique(chunk_of).tolist():
        here = np.flatnonzero(chunk_of == chunk)
        in_chunk = chunks[chunk].take(pa.array(rows[here] - starts[chunk])).to_pylist()
        for place, value in zip(here.tolist(), in_chunk, strict=True):
            values[place] = value
    return values
