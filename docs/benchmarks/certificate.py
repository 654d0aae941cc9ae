"""How fast is a pass over raw edges, beside plain pyarrow reading; what does a certificate cost?

Run ``python -m docs.benchmarks.certificate`` (10 M edges, n = 100 k) or ``--quick``; ``--edges
100_000_000 --nodes 1_000_000`` is the large one. A graph of communities is ingested as ``dense``
ids; a pass is measured from the files where they lie and from a spool of the same edges, which is
what graphs of other ids read. CPU seconds tell what a machine that others use as well would need.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from docs.benchmarks.communities import Communities
from docs.benchmarks.peak_memory import peak_bytes
from docs.benchmarks.reading import Measure, measure, read_plainly
from peewit.solvers.arrays import FloatArray
from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.edges.reader import read_parts
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.staging import stage
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.nodes.index import DenseNodes
from peewit.streaming.passes.certificate_store import Certificate, CertifySettings
from peewit.streaming.passes.certify import certify
from peewit.streaming.passes.raw_edge_passes import RawEdges
from peewit.streaming.passes.raw_edge_spool import Spool
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.checkpoints import AbsorbedFile, CheckpointStore
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings

N_VECTORS = 4


def ingest(paths: GraphPaths, directory: Path, *, n_nodes: int, epsilon: float) -> None:
    """Make a snapshot of all files, unless there is one."""
    if SnapshotStore(paths.snapshots).latest() is None:
        sparsifier = SparsifierSettings(epsilon=epsilon, seed=0, expected_nodes=n_nodes)
        settings = StreamSettings(node_kind="dense", sparsifier=sparsifier)
        Stream(paths, settings).ingest(EdgeFiles(directory).list())


def raw_edges(paths: GraphPaths, spool: Path, n_threads: int) -> RawEdges:
    """The raw edges of the newest snapshot, opened."""
    meta = SnapshotStore(paths.snapshots).list()[-1]
    edges = RawEdges(
        CheckpointStore(paths.checkpoints).first_files(meta.n_files),
        nodes=DenseNodes(n_nodes=meta.n_nodes),
        node_kind="dense",
        n_nodes=meta.n_nodes,
        spool=Spool(spool),
        staging=paths.staging,
        n_threads=n_threads,
    )
    edges.open()
    return edges


def fill_spool(paths: GraphPaths, directory: Path, n_threads: int) -> None:
    """Spool what dense graphs do not: the same edges for the same pass."""
    meta = SnapshotStore(paths.snapshots).list()[-1]
    spool = Spool(directory)
    for file in CheckpointStore(paths.checkpoints).first_files(meta.n_files):
        if spool.find(file.edges_key) is None:
            spool.write(file.edges_key, _blocks(paths, file, n_threads))


def _blocks(paths: GraphPaths, file: AbsorbedFile, n_threads: int) -> Iterator[EdgeBlock]:
    nodes = DenseNodes()
    (found,) = EdgeFiles(file.path).list()
    with stage(found, paths.staging) as staged:
        parts = [(staged, part) for part in staged.parts]
        for raw in read_parts(parts, node_kind="dense", max_nodes=10**8, n_threads=n_threads):
            yield nodes.map_block(raw)


def compare_passes(paths: GraphPaths, directory: Path, spool: Path, n_repeats: int) -> Table:
    """Plain reading, and one pass with four vectors."""
    files = sorted(directory.glob("*.parquet"))
    in_place, spooled = (raw_edges(paths, each, 2) for each in (paths.root / "none", spool))
    alone = raw_edges(paths, spool, 1)
    n_nodes = SnapshotStore(paths.snapshots).list()[-1].n_nodes
    block: FloatArray = np.random.default_rng(0).standard_normal((n_nodes, N_VECTORS))
    timings = measure(
        {
            "pyarrow, 2 threads": lambda: read_plainly(files, 2),
            "pass, files in place": lambda: in_place.laplacian_product(block),
            "pass, spool": lambda: spooled.laplacian_product(block),
            "pass, spool, 1 thread": lambda: alone.laplacian_product(block),
            "components, spool": spooled.components,
        },
        n_repeats,
    )
    sizes = {
        "pyarrow, 2 threads": sum(path.stat().st_size for path in files),
        "pass, spool": sum(path.stat().st_size for path in spool.iterdir()),
    }
    return pass_table(timings, sizes, in_place.n_edges)


def pass_table(timings: dict[str, Measure], sizes: dict[str, int], n_edges: int) -> Table:
    """Speeds, and ratios to plain reading."""
    table = Table(title=f"{n_edges:,} edges, {N_VECTORS} vectors")
    columns = ("", "s", "CPU s", "M edges/s", "M edges/CPU s", "speed / pyarrow", "bytes/edge")
    for column in columns:
        table.add_column(column, justify="left" if not column else "right")
    plain = timings["pyarrow, 2 threads"]
    for name, timing in timings.items():
        size = f"{sizes[name] / n_edges:.1f}" if name in sizes else ""
        table.add_row(
            name,
            f"{timing.wall:.2f}",
            f"{timing.cpu:.2f}",
            f"{n_edges / timing.wall / 1e6:.1f}",
            f"{n_edges / timing.cpu / 1e6:.1f}",
            f"{plain.wall / timing.wall:.2f}",
            size,
        )
    return table


def certificate_table(found: Certificate, asked: float, expected: float, cpu: float) -> Table:
    """What a certificate says and cost."""
    table = Table(title=f"certificate of snapshot {found.snapshot}", show_header=False)
    rows = {
        "epsilon asked / expected": f"{asked:.3f} / {expected:.3f}",
        "epsilon least / certified": f"{found.epsilon_least} / {found.epsilon_certified}",
        "Ritz values": f"{found.ritz_min} .. {found.ritz_max}",
        "outer bounds": f"{found.outer_min} .. {found.outer_max}",
        "status": found.status,
        "passes x vectors": f"{found.n_passes} x {found.n_vectors}",
        "seconds / CPU seconds": f"{found.seconds:.1f} / {cpu:.1f}",
        "peak memory": f"{peak_bytes() / 2**30:.2f} GiB",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--epsilon", type=float, default=0.7)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dir", type=Path, help="keeps the files for the next run")
    parser.add_argument("--quick", action="store_true", help="20 k nodes, 2 M edges, once")
    options = parser.parse_args()
    n_nodes, n_edges, n_repeats = options.nodes, options.edges, options.repeats
    if options.quick:
        n_nodes, n_edges, n_repeats = 20_000, 2_000_000, 1
    console = Console(width=110)
    with tempfile.TemporaryDirectory(prefix="peewit-certificate-") as temporary:
        root = options.dir or Path(temporary)
        data = root / f"edges-{n_nodes}-{n_edges}"
        Communities(n_nodes=n_nodes, n_edges=n_edges).write(data)
        paths = GraphPaths(root=root / f"graph-{n_nodes}-{n_edges}-{options.epsilon}")
        ingest(paths, data, n_nodes=n_nodes, epsilon=options.epsilon)
        meta = SnapshotStore(paths.snapshots).list()[-1]
        console.print(f"{meta.edges_seen:,} edges in, {meta.edges_kept:,} kept, {n_nodes:,} nodes")
        spool = root / f"spool-{n_nodes}-{n_edges}"
        fill_spool(paths, spool, 2)
        console.print(compare_passes(paths, data, spool, n_repeats))
        cpu = time.process_time()
        settings = CertifySettings(n_vectors=N_VECTORS)
        found = certify(paths, meta.number, settings, n_threads=2)
        cpu = time.process_time() - cpu
        console.print(certificate_table(found, options.epsilon, meta.epsilon_expected, cpu))


if __name__ == "__main__":
    main()
