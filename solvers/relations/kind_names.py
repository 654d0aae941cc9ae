"""Names of kinds of nodes, and nodes that say theirs, KIND:ID: patterns that re and RE2 read."""

from typing import Final

KIND_NAME: Final = "[A-Za-z_][A-Za-z0-9_-]{0,62}"

NODE_OF_KIND: Final = rf"(?s)^(?P<kind>{KIND_NAME}):(?P<id>.+)$"
