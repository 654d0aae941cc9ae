"""Relations: kinds of edges, each with a sparsifier of its own over one shared node index.

Apart from what reads them, as commands that name relations load no arrays.
"""

from typing import Final

UNNAMED: Final = ""
"""The relation of edges of which nobody says one."""

KIND_COLUMNS: Final = ("src_kind_column", "dst_kind_column")
"""Columns of the kind of the node at either end of each row."""

RELATION_NAMES: Final = ("relation", "relation_column", "entity", "via", *KIND_COLUMNS)
"""What doors call that which says the relations of a table, and the kinds of nodes of its rows; an
entity is ``src`` of events. A graph keeps none of it."""
