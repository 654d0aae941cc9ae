"""Change rules of a graph: whether edges may be deleted, and what a further edge of a pair does."""

from typing import Literal, TypeAlias

Deletions: TypeAlias = Literal["off", "exact"]
"""Whether edges may be deleted: not at all, or by a log of all edges, from which what deletes have
spoiled is sampled anew."""

ParallelEdges: TypeAlias = Literal["sum", "replace"]
"""What a further edge of a pair does: its weight is added, or takes the place of the others."""
