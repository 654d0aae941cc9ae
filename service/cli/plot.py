"""`peewit plot`: a picture of a graph, its nodes placed by the spectrum of the Laplacian."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer

from peewit.service.catalog import GraphRecord
from peewit.service.cli.session import (
    AsJson,
    GraphName,
    Session,
    command_group,
    open_session,
    print_json,
)
from peewit.service.cli.table_files import LabelColumnOption
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.labels.store import LabelStore
from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.predictions.store import PredictionStore
from peewit.service.tables.uploads import id_type
from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.extras import how_to_install
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.models.spectral_embedding import spectral_embedding
from peewit.streaming.durable_files import publish_file
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.snapshots.store import SnapshotStore

app = command_group()

MAX_NODES: Final = 20_000
MAX_EDGES: Final = 30_000
"""More would be one blot; some are drawn, chosen by the graph's seed."""

_N_EIGENVECTORS: Final = 12
_KINDS: Final = (".png", ".svg", ".pdf")
_LEGEND_CLASSES: Final = 20
_EDGE_QUANTILE: Final = 0.005


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """Where the nodes of the largest component lie.

    Attributes
    ----------
    nodes : (n,) int64
        Dense ids of those that are drawn.
    places : (n, 2) float64
    edges : (m, 2) int64
        Places in ``nodes`` of the ends of those that are drawn.
    n_nodes, n_all : int
        Nodes of the component and of the graph.
    """

    nodes: Int64Array
    places: FloatArray
    edges: Int64Array
    n_nodes: int
    n_all: int


@app.command()
def plot(
    name: GraphName,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help=f"Picture to write: {', '.join(_KINDS)}."),
    ],
    model: Annotated[
        str | None, typer.Option(help="Colour by its latest predictions; of any model by default.")
    ] = None,
    label_column: LabelColumnOption = None,
    axes: Annotated[
        tuple[int, int] | None,
        typer.Option(
            min=1, max=20, help="Two eigenvectors, from 1; by default the plane of twelve."
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Draw the largest component of the newest snapshot, coloured by predicted class.

    Nodes lie where the eigenvectors of the least eigenvalues of the normalized Laplacian put
    them: in the plane that shows most of twelve, each node at distance 1 from the middle of all.
    Labeled ones have a ring. Of a large graph a sample is drawn. Needs matplotlib (extra "plot").
    """
    if output.suffix.lower() not in _KINDS:
        raise typer.BadParameter(
            f"must end with one of {', '.join(_KINDS)}, got {output.name}", param_hint="--output"
        )
    if axes is not None and axes[0] == axes[1]:
        raise typer.BadParameter(
            f"must be two different ones, got {axes[0]} twice", param_hint="--axes"
        )
    figure_class = _figure_class()
    with open_session() as session:
        graph = session.graph(name)
        snapshot = _newest(session, graph)
        layout = laid_out(snapshot, seed=graph.settings.seed or 0, axes=axes)
        file = _predictions(session, graph, model, label_column or "")
        labeled = _labeled_nodes(session, graph, label_column or "")
    figure = _draw(figure_class, name, layout, file, labeled)
    publish_file(output, lambda path: figure.savefig(path, format=output.suffix[1:], dpi=150))
    told = {
        "path": output,
        "n_nodes": int(layout.nodes.size),
        "n_edges": len(layout.edges),
        "model": None if file is None else file.meta.model,
    }
    if json:
        print_json(told)
    else:
        coloured = "" if file is None else f", coloured by {file.meta.model}"
        typer.echo(
            f"wrote {output}: {layout.nodes.size:,} nodes and {len(layout.edges):,} edges of "
            f"{layout.n_nodes:,} nodes{coloured}"
        )


def laid_out(graph: Graph, *, seed: int, axes: tuple[int, int] | None = None) -> Layout:
    """The largest component in the plane, by eigenvectors of the normalized Laplacian.

    Parameters
    ----------
    graph : Graph
    seed : int
        Draws nodes and edges where there are too many.
    axes : tuple of int, optional
        Which two eigenvectors, from 1. By default the rows of the first twelve, scaled to length 1
        as for spectral clustering (Ng, Jordan and Weiss 2002), in their principal plane.

    Raises
    ------
    ValueError
        The component has not as many eigenvectors.
    """
    inside = np.flatnonzero(graph.component == int(graph.component_sizes().argmax()))
    n_wanted = min(_N_EIGENVECTORS, inside.size - 1) if axes is None else max(axes)
    if inside.size <= max(n_wanted, 2):
        asked = "" if axes is None else f", got axes {axes[0]} and {axes[1]}"
        raise ValueError(
            f"axes must be below {inside.size}, the nodes of the largest component{asked}"
        )
    rank = np.full(graph.n_nodes, -1, np.int64)
    rank[inside] = np.arange(inside.size)
    u, v, weight = graph.edges()
    kept = rank[u] >= 0
    part = Graph.from_edges(rank[u[kept]], rank[v[kept]], weight[kept], n_nodes=inside.size)
    coordinates, _ = spectral_embedding(part, n_wanted, Watch())
    places = (
        _principal_plane(coordinates)
        if axes is None
        else coordinates[:, [axes[0] - 1, axes[1] - 1]]
    )
    rng = np.random.default_rng(seed)
    chosen = np.arange(inside.size)
    if chosen.size > MAX_NODES:
        chosen = np.sort(rng.choice(chosen, MAX_NODES, replace=False))
    place = np.full(inside.size, -1, np.int64)
    place[chosen] = np.arange(chosen.size)
    ends = np.stack([place[rank[u[kept]]], place[rank[v[kept]]]], axis=1)
    ends = ends[(ends >= 0).all(axis=1)]
    if len(ends) > MAX_EDGES:
        ends = ends[np.sort(rng.choice(len(ends), MAX_EDGES, replace=False))]
    return Layout(
        nodes=inside[chosen].astype(np.int64),
        places=places[chosen],
        edges=ends,
        n_nodes=int(inside.size),
        n_all=graph.n_nodes,
    )


def _principal_plane(coordinates: FloatArray) -> FloatArray:
    """The plane that shows most of the rows, each scaled to length 1."""
    length = np.linalg.norm(coordinates, axis=1, keepdims=True)
    rows = np.divide(coordinates, length, out=np.zeros_like(coordinates), where=length > 0)
    rows -= rows.mean(axis=0)
    _, directions = np.linalg.eigh(rows.T @ rows)
    plane: FloatArray = rows @ directions[:, [-1, -2]]
    return plane


def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise ValueError(f"peewit plot needs matplotlib; {how_to_install('plot')}") from error
    return Figure


def _newest(session: Session, graph: GraphRecord) -> Graph:
    paths = GraphPaths(root=session.settings.graphs_directory / graph.id)
    if graph.progress.snapshot is None:
        raise ValueError(f"graph {graph.settings.name} has no snapshot yet; ingest edges first")
    return SnapshotStore(paths.snapshots).load(graph.progress.snapshot).graph


def _predictions(
    session: Session, graph: GraphRecord, model: str | None, column: str
) -> PredictionFile | None:
    """The latest predictions of a label column; none is no fault unless a model is named."""
    store = PredictionStore(session.database, session.settings.graphs_directory)
    job = store.latest(graph.id, model, column=column)
    if job is None and model is not None:
        raise ValueError(
            f"{graph.settings.name} has no predictions of {model} yet; make some with "
            f"`peewit solve {graph.settings.name} --model {model}`"
        )
    return None if job is None else store.read(job)


def _labeled_nodes(session: Session, graph: GraphRecord, column: str) -> Int64Array:
    """Dense ids of the nodes that have a label in a column."""
    current = LabelStore(session.database).current(graph.id, column=column)
    if not current.labels:
        return np.zeros(0, np.int64)
    ids = current.nodes.cast(id_type(graph.settings.node_ids))
    dense = KnownNodes(session.settings.graphs_directory, session.manifest).lookup(graph, ids)
    return dense[dense >= 0].astype(np.int64)


def _draw(
    figure_class: Any,
    name: str,
    layout: Layout,
    file: PredictionFile | None,
    labeled: Int64Array,
) -> Any:
    from matplotlib.collections import LineCollection  # noqa: PLC0415 - an extra

    figure = figure_class(figsize=(9, 7), layout="constrained")
    axes = figure.subplots()
    places = layout.places
    axes.add_collection(
        LineCollection(list(places[layout.edges]), colors="#00000018", linewidths=0.4, zorder=1)
    )
    size = float(np.clip(20_000 / max(len(places), 1), 3, 40))
    is_labeled = np.isin(layout.nodes, labeled)
    _scatter(axes, layout, file, size)
    axes.scatter(
        *places[is_labeled].T,
        s=3 * size,
        facecolors="none",
        edgecolors="black",
        linewidths=1,
        zorder=3,
        label="labeled",
    )
    low, high = np.quantile(places, [_EDGE_QUANTILE, 1 - _EDGE_QUANTILE], axis=0)
    margin = 0.08 * np.maximum(high - low, 1e-12)
    axes.set(xlim=(low[0] - margin[0], high[0] + margin[0]))
    axes.set(ylim=(low[1] - margin[1], high[1] + margin[1]))
    axes.set_axis_off()
    axes.set_title(_title(name, layout, file))
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure


def _scatter(axes: Any, layout: Layout, file: PredictionFile | None, size: float) -> None:
    """The nodes: by class, by number, or grey."""
    places = layout.places
    style: dict[str, Any] = {"s": size, "linewidths": 0, "zorder": 2}
    is_predicted: BoolArray = layout.nodes < (0 if file is None else file.n_nodes)
    axes.scatter(*places[~is_predicted].T, color="#9a9a9a", **style)
    if file is None:
        return
    column = file.table().column("label").take(layout.nodes[is_predicted])
    shown = places[is_predicted]
    values = column.to_pylist()
    if file.meta.score == "value":
        numbers = np.array([np.nan if each is None else each for each in values], np.float64)
        drawn = axes.scatter(*shown.T, c=numbers, cmap="viridis", **style)
        axes.figure.colorbar(drawn, ax=axes, shrink=0.6)
        return
    from matplotlib import colormaps  # noqa: PLC0415 - an extra

    names = file.meta.class_names
    palette = colormaps["tab10" if len(names) <= 10 else "tab20"]
    texts = np.array([None if each is None else str(each) for each in values], dtype=object)
    for number, class_name in enumerate(names):
        inside = texts == str(class_name)
        label = str(class_name) if number < _LEGEND_CLASSES else None
        axes.scatter(*shown[inside].T, color=palette(number % palette.N), label=label, **style)
    unreached = np.array([each is None for each in values])
    if unreached.any():
        axes.scatter(*shown[unreached].T, color="#9a9a9a", label="not reached", **style)


def _title(name: str, layout: Layout, file: PredictionFile | None) -> str:
    component = (
        f"{layout.n_nodes:,} nodes"
        if layout.n_nodes == layout.n_all
        else f"largest component, {layout.n_nodes:,} of {layout.n_all:,} nodes"
    )
    coloured = "" if file is None else f"; {file.meta.model}, snapshot {file.meta.snapshot}"
    return f"{name}: {component}{coloured}"
