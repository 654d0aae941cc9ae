"""Settings of a graph's stream."""

from peewit.service.catalog import GraphRecord
from peewit.service.settings import Settings
from peewit.streaming.settings import StreamSettings
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings


def stream_settings(record: GraphRecord, settings: Settings) -> StreamSettings:
    """Settings of a graph's stream, from the graph's settings and this machine's."""
    chosen = record.settings
    if chosen.seed is None:
        raise ValueError("seed must be set by the catalog, got None")
    every = chosen.snapshot_every
    return StreamSettings(
        node_kind=chosen.node_ids,
        max_nodes=chosen.max_nodes,
        sparsifier=SparsifierSettings(
            epsilon=chosen.epsilon,
            seed=chosen.seed,
            expected_nodes=chosen.expected_nodes,
            max_edges=chosen.max_edges,
        ),
        n_threads=settings.n_threads,
        scheduler=settings.scheduler,
        memory_limit=None if settings.memory_limit is None else int(settings.memory_limit),
        deletions=chosen.deletions,
        parallel_edges=chosen.parallel,
        window=chosen.window,
        checkpoint_seconds=settings.checkpoint_seconds,
        snapshot_edges=None if every is None else every.edges,
        snapshot_seconds=None if every is None else every.seconds,
    )
