"""The table of operations, by what the API groups them under."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from peewit.service.operations import (
    erasures,
    graphs,
    horizon_and_repairs,
    judging,
    sources_and_files,
)
from peewit.service.operations.declaration import Operation

TABLE: Final[Mapping[str, Sequence[Operation[Any]]]] = {
    "graphs": (graphs.list_graphs, graphs.get_graph, graphs.delete_graph),
    "sources": (
        sources_and_files.add_source,
        sources_and_files.list_sources,
        sources_and_files.remove_source,
        sources_and_files.retry_source,
        sources_and_files.list_files,
        sources_and_files.get_file,
        sources_and_files.retract_file,
        sources_and_files.retry_file,
    ),
    "snapshots": (graphs.list_snapshots,),
    "predictions": (
        judging.get_sets,
        judging.get_abstention,
        judging.get_doubtful_labels,
        judging.get_reasons,
        judging.get_threshold,
    ),
    "erasures": (erasures.erase_nodes, erasures.list_erasures, erasures.get_erasure),
    "windows": (horizon_and_repairs.move_horizon, horizon_and_repairs.get_horizon),
    "repairs": (horizon_and_repairs.repair_graph, horizon_and_repairs.get_repairs),
}
