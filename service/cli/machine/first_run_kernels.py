"""Kernels that a first run compiles, for a progress line that knows how many will come."""

from typing import Final

_OF_INGEST: Final = {
    "solvers.kernels.adjacency": ("count_records", "fill_buckets", "row_sums", "sort_buckets"),
    "solvers.kernels.components": ("find_root", "join_edges", "number_components"),
    "solvers.kernels.jacobi_chebyshev": ("smooth_rows",),
    "solvers.kernels.laplacian_products": (
        "_add_products",
        "_add_sums",
        "_all_columns",
        "_four_columns",
        "_one_column",
        "_step",
        "_two_columns",
        "advance",
        "column_dots",
        "component_sums",
        "laplacian_rows",
        "redirect",
        "subtract_by_component",
    ),
    "solvers.kernels.random_projection": ("project_rows",),
    "solvers.kernels.random_walk": (
        "lanczos_rows",
        "normalize_rows",
        "orthogonalize_rows",
        "project_roots",
    ),
    "solvers.kernels.resistance_records": ("count_ends", "fill_rows"),
    "streaming.kernels.coins": (
        "add_degrees",
        "choose_coarse",
        "degree_variance",
        "lower_probabilities",
        "pack_cards",
        "score_records",
        "stale_leverages",
        "take_arrivals",
        "take_survivors",
    ),
    "streaming.kernels.dependent_rounding": ("_throw_batch", "throw_leaning_coins"),
    "streaming.kernels.hashing": ("hash_strings",),
    "streaming.kernels.node_table": ("gather_strings", "map_rows", "move_slots"),
    "streaming.kernels.pair_set": ("sample_pairs",),
    "streaming.kernels.spanning_forest": ("classify", "mark_forest"),
}

INGEST: Final = frozenset(
    f"{module}.{name}" for module, names in _OF_INGEST.items() for name in names
)
"""Kernels for edges of nodes with names, a sparsifier that thins them, and its first snapshot."""
