"""The table of operations, by what the API groups them under."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from peewit.service.operations import (
    erasures,
    graphs,
    horizon_and_repairs,
    jobs,
    judging,
    label_columns,
    opinions,
    sources_and_files,
    submissions,
    suggestions,
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
    "labels": (
        label_columns.list_label_columns,
        opinions.get_second_opinions,
        opinions.give_back_nodes,
        opinions.put_opinions,
        opinions.take_opinion_back,
        opinions.get_agreement,
        opinions.list_disagreements,
        opinions.decide_label,
    ),
    "jobs": (
        submissions.submit_job,
        submissions.solve_columns,
        submissions.estimate_job,
        jobs.list_jobs,
        jobs.get_job,
        jobs.cancel_job,
    ),
    "suggestions": (suggestions.get_suggestions,),
    "erasures": (erasures.erase_nodes, erasures.list_erasures, erasures.get_erasure),
    "windows": (horizon_and_repairs.move_horizon, horizon_and_repairs.get_horizon),
    "repairs": (horizon_and_repairs.repair_graph, horizon_and_repairs.get_repairs),
}
