"""How long tiles of a map take, and what the map itself costs.

``python -m docs.benchmarks.map`` makes a map of ten million nodes in clusters with predictions of
ten classes, looks at it as people do, from the whole to single nodes, and prints the time of every
look: of all tiles of one view, as the server makes them. ``--draw N`` draws a graph of N nodes
first and tells what that took.
"""

import resource
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from gzip import compress
from pathlib import Path

import numpy as np
import pyarrow as pa

from docs.benchmarks.frame import CONSOLE, options
from docs.benchmarks.load import prediction_meta
from peewit.service.predictions.colored_maps import ColoredMap
from peewit.service.predictions.map_colors import colors_of
from peewit.service.predictions.map_tiles import TilePlace, tile_bytes
from peewit.service.predictions.prediction_files import PredictionFile, write_predictions
from peewit.solvers.arrays import Float32Array
from peewit.solvers.graph import Graph
from peewit.solvers.laplacian.multigrid.layout import layout
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.node_map import MapStore, in_order

N_CLASSES = 10
N_CLUSTERS = 400
TILES_WIDE, TILES_HIGH = 3, 2


def main() -> None:
    asked = options(__doc__, nodes=1e7, looks=200, draw=0.0, threads=1)
    if asked.draw:
        draw(int(asked.draw), asked.threads)
    with tempfile.TemporaryDirectory(prefix="peewit-map-") as directory:
        look(Path(directory), int(asked.nodes), asked.looks)


def draw(n_nodes: int, n_threads: int) -> None:
    """Draw communities of a thousand nodes, of some six edges a node, a tenth of them outside."""
    rng = np.random.default_rng(0)
    u = np.repeat(np.arange(n_nodes), 6)
    near = np.minimum(u // 1000 * 1000 + rng.integers(0, 1000, u.size), n_nodes - 1)
    v = np.where(rng.random(u.size) < 0.9, near, rng.integers(0, n_nodes, u.size))
    graph = Graph.from_edges(u, v, np.ones(u.size, np.float32), n_nodes=n_nodes, dtype=np.float32)
    started, busy = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(n_threads) as pool:
        layout(graph, seed=0, parallel=pool.map)
    CONSOLE.print(
        f"drawn: {n_nodes:,} nodes, {graph.n_edges:,} edges, {n_threads} threads: "
        f"{time.perf_counter() - started:.0f} s, {time.process_time() - busy:.0f} s of CPU, "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB at most"
    )


def look(directory: Path, n_nodes: int, n_looks: int) -> None:
    rng = np.random.default_rng(0)
    points, cluster = clustered(n_nodes, rng)
    started = time.perf_counter()
    found = in_order(points, snapshot=1, n_edges=0, n_components=1, made_at=0.0)
    store = MapStore(GraphPaths(root=directory))
    store.publish(found)
    size = next(directory.glob("map/*")).stat().st_size
    CONSOLE.print(
        f"map: {n_nodes:,} nodes, {size / 2**20:.0f} MiB, {time.perf_counter() - started:.1f} s"
    )
    file = predictions(directory, n_nodes, cluster % N_CLASSES, rng)
    read = store.open()
    assert read is not None
    started = time.perf_counter()
    colors = colors_of(read, file, np.zeros(0, np.int64))
    CONSOLE.print(f"predictions joined, once for each solve: {time.perf_counter() - started:.2f} s")
    labeled = np.sort(rng.choice(n_nodes, min(10_000, n_nodes), replace=False))
    colored = ColoredMap(
        map=read,
        file=file,
        colors=colors,
        class_names=colors.class_names,
        labeled=labeled,
        label_color=colors.color[labeled],
        is_contradicted=labeled % 20 == 0,
        labels_seq=1,
        tag="benchmark",
        names=[batch.column("node") for batch in file.batches()],
    )
    for min_doubt in (0.0, 0.5):
        time_looks(colored, n_looks, min_doubt, rng)


def time_looks(
    colored: ColoredMap, n_looks: int, min_doubt: float, rng: np.random.Generator
) -> None:
    """Print the times of views at each zoom, around random nodes."""
    seconds, busy, sizes = [], [], []
    for number in range(n_looks):
        zoom = number % (colored.map.meta.max_zoom + 1)
        node = int(rng.integers(colored.map.code.size))
        started, cpu, n_bytes = time.perf_counter(), time.process_time(), 0
        for place in around(colored, node, zoom, min_doubt):
            n_bytes += len(compress(tile_bytes(colored, place), 1))
        if number:  # the first one loads compiled code
            seconds.append(time.perf_counter() - started)
            busy.append(time.process_time() - cpu)
            sizes.append(n_bytes)
    p50, p99 = np.quantile(seconds, (0.5, 0.99))
    cpu50, cpu99 = np.quantile(busy, (0.5, 0.99))
    what = "doubtful nodes" if min_doubt else "all nodes"
    CONSOLE.print(
        f"{n_looks} views of {TILES_WIDE * TILES_HIGH} tiles or the whole, {what}: median "
        f"{1e3 * p50:.0f} ms, p99 {1e3 * p99:.0f} ms, slowest {1e3 * max(seconds):.0f} ms; "
        f"of CPU {1e3 * cpu50:.0f}, {1e3 * cpu99:.0f} and {1e3 * max(busy):.0f} ms; "
        f"{np.median(sizes) / 1024:.0f} KiB"
    )


def around(colored: ColoredMap, node: int, zoom: int, min_doubt: float) -> list[TilePlace]:
    code, tiles = int(colored.map.code[node]), 1 << zoom
    column, line = (
        sum((code >> 2 * bit + axis & 1) << bit for bit in range(24)) >> 24 - zoom
        for axis in (0, 1)
    )
    left = min(max(column - 1, 0), max(tiles - TILES_WIDE, 0))
    top = min(line, max(tiles - TILES_HIGH, 0))
    return [
        TilePlace(zoom=zoom, column=x, line=y, min_doubt=min_doubt)
        for x in range(left, min(left + TILES_WIDE, tiles))
        for y in range(top, min(top + TILES_HIGH, tiles))
    ]


def clustered(n_nodes: int, rng: np.random.Generator) -> tuple[Float32Array, np.ndarray]:
    """Points of normal clusters in the unit square, and the cluster of each."""
    centers = rng.uniform(0.1, 0.9, (N_CLUSTERS, 2))
    cluster = rng.integers(0, N_CLUSTERS, n_nodes)
    points = centers[cluster].astype(np.float32)
    points += rng.standard_normal((n_nodes, 2), np.float32) * np.float32(0.02)
    return np.clip(points, 0.0, np.float32(1 - 2**-23)), cluster


def predictions(
    directory: Path, n_nodes: int, classes: np.ndarray, rng: np.random.Generator
) -> PredictionFile:
    """A file of predictions of those classes, a tenth of them in doubt."""
    best = np.where(rng.random(n_nodes) < 0.1, rng.uniform(0.3, 0.6, n_nodes), 0.95)
    scores = np.repeat((1 - best[:, None]) / (N_CLASSES - 1), N_CLASSES, axis=1)
    scores[np.arange(n_nodes), classes] = best
    meta = prediction_meta(
        graph_id="0",
        job_id="0",
        attempt=1,
        model="benchmark",
        score="probability",
        class_names=tuple(range(N_CLASSES)),
    )
    nodes = pa.array(np.arange(n_nodes), pa.int64())
    path = write_predictions(
        directory, meta, nodes=nodes, scores=scores, reachable=np.ones(n_nodes, bool)
    )
    return PredictionFile(path)


if __name__ == "__main__":
    main()
