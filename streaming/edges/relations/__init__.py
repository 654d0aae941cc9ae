"""Relations: kinds of edges, each with a sparsifier of its own over one shared node index.

Apart from what reads them, as commands that name relations load no arrays.
"""

from typing import Final

UNNAMED: Final = ""
"""The relation of edges of which nobody says one."""

RELATION_NAMES: Final = ("relation", "relation_column", "entity", "via")
"""What doors call that which says the relations of a table; an entity is ``src`` of events."""
