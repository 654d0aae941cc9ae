"""How fast is a pass over raw edges, beside plain pyarrow reading; what does a certificate cost?

A graph of communities is ingested as ``dense`` ids; a pass is measured from the files where they
lie and from a spool of the same edges, which is what graphs of other ids read.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from docs.benchmarks.communities import Communities
from docs.benchmarks.frame import CONSOLE, cpu_of, options, show
from docs.benchmarks.peak_memory import peak_bytes
from docs.benchmarks.reading import Measure, measure, read_plainly
from docs.benchmarks.streams import ingested, newest_meta, store_of
from peewit.solvers.arrays import FloatArray
from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.edges.reader import read_parts
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.staging import stage
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.nodes.index import DenseNodes
from peewit.streaming.passes.certificate_store import Certificate, CertifySettings
from peewit.streaming.passes.certify import certify
from peewit.streaming.passes.raw_edge_passes import RawEdges
from peewit.streaming.passes.raw_edge_spool import Spool
from peewit.streaming.snapshots.checkpoints import AbsorbedFile, CheckpointStore

N_VECTORS = 4


def raw_edges(paths: GraphPaths, spool: Path, n_threads: int) -> RawEdges:
    meta = newest_meta(paths.root)
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
    meta = newest_meta(paths.root)
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


def compare_passes(paths: GraphPaths, directory: Path, spool: Path, n_repeats: int) -> None:
    """Show plain reading, and one pass with four vectors."""
    files = sorted(directory.glob("*.parquet"))
    in_place, spooled = (raw_edges(paths, each, 2) for each in (paths.root / "none", spool))
    alone = raw_edges(paths, spool, 1)
    n_nodes = newest_meta(paths.root).n_nodes
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
    show_passes(timings, sizes, in_place.n_edges)


def show_passes(timings: dict[str, Measure], sizes: dict[str, int], n_edges: int) -> None:
    columns = "|s {:.2f}|CPU s {:.2f}|M edges/s {:.1f}|M edges/CPU s {:.1f}|speed / pyarrow {:.2f}"
    plain, millions = timings["pyarrow, 2 threads"], n_edges / 1e6
    rows = (
        (
            *(name, each.wall, each.cpu, millions / each.wall, millions / each.cpu),
            plain.wall / each.wall,
            sizes[name] / n_edges if name in sizes else "",
        )
        for name, each in timings.items()
    )
    show(f"{n_edges:,} edges, {N_VECTORS} vectors", f"{columns}|bytes/edge {{:.1f}}", rows)


def show_certificate(found: Certificate, asked: float, expected: float, cpu: float) -> None:
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
    show(f"certificate of snapshot {found.snapshot}", "|", rows.items(), show_header=False)


def main() -> None:
    asked = options(
        __doc__,
        quick={"nodes": 20_000, "edges": 2_000_000, "repeats": 1},
        nodes=100_000,
        edges=10_000_000,
        epsilon=0.7,
        repeats=3,
        dir=(Path, "keeps the files for the next run"),
    )
    size = f"{asked.nodes}-{asked.edges}"
    with tempfile.TemporaryDirectory(prefix="peewit-certificate-") as temporary:
        root = asked.dir or Path(temporary)
        data, spool = root / f"edges-{size}", root / f"spool-{size}"
        Communities(n_nodes=asked.nodes, n_edges=asked.edges).write(data)
        paths = GraphPaths(root=root / f"graph-{size}-{asked.epsilon}")
        if store_of(paths.root).latest() is None:
            ingested(paths.root, data, epsilon=asked.epsilon, seed=0, expected_nodes=asked.nodes)
        meta = newest_meta(paths.root)
        kept = f"{meta.edges_seen:,} edges in, {meta.edges_kept:,} kept, {asked.nodes:,} nodes"
        CONSOLE.print(kept)
        fill_spool(paths, spool, 2)
        compare_passes(paths, data, spool, asked.repeats)
        settings = CertifySettings(n_vectors=N_VECTORS)
        found, cpu = cpu_of(certify, paths, meta.number, settings, n_threads=2)
        show_certificate(found, asked.epsilon, meta.epsilon_expected, cpu)


if __name__ == "__main__":
    main()
