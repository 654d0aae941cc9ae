"""Items: the picture or text of a node, for people who label, in a file named after the node.

Context: nobody can label ``digit-0042`` without seeing it, and graphs hold edges, not contents.
Decision: files of the user's own, ``<directory>/<graph>/<node>.png`` and the like, looked for when
a page shows the node. Consequence: nothing to import, nothing kept twice, no other host is asked;
they are no part of backups.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PICTURES: Final = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".gif": "image/gif",
    ".svg": "image/svg+xml",
    ".avif": "image/avif",
}
"""Endings of files that are shown as pictures, in the order in which they are looked for."""

KINDS: Final = {**PICTURES, ".txt": "text/plain"}
"""The same with that of a text, UTF-8, which is shown where there is no picture."""

MAX_TEXT_BYTES: Final = 16_384
"""What is shown of a text, from its beginning."""

_LONGEST_NAME: Final = 255
_ESCAPED: Final = str.maketrans({"%": "%25", "/": "%2F", "\0": "%00"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Picture or text of a node.

    Attributes
    ----------
    path : Path
        The file.
    media_type : str
        Of a picture; ``text/plain`` of a text.
    """

    path: Path
    media_type: str

    @property
    def is_picture(self) -> bool:
        """Whether it is to be drawn."""
        return self.media_type.startswith("image/")

    def text(self) -> str:
        """The beginning of a text; raises OSError."""
        with self.path.open("rb") as file:
            content = file.read(MAX_TEXT_BYTES + 1)
        if len(content) <= MAX_TEXT_BYTES:
            return content.decode(errors="replace")
        return content[:MAX_TEXT_BYTES].decode(errors="ignore") + " …"


class Items:
    """The items of all graphs.

    Parameters
    ----------
    directory : Path
        Has a directory for each graph, called like it; neither need exist. Links within it are
        followed, but not out of it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find(self, graph: str, node: str) -> Item | None:
        """Item of a node, or None where there is none.

        Parameters
        ----------
        graph : str
            Name of the graph.
        node : str
            External id as text; ``/`` and ``%`` read ``%2F`` and ``%25`` in the name of its file.

        Raises
        ------
        OSError
            The directory cannot be searched.
        """
        stem = node.translate(_ESCAPED)
        if len(os.fsencode(stem)) + max(map(len, KINDS)) > _LONGEST_NAME:
            return None  # a file cannot be called so
        directory = self._directory / graph
        if not directory.is_dir():
            return None
        root = self._directory.resolve()
        for ending, media_type in KINDS.items():
            path = directory / f"{stem}{ending}"
            if path.is_file() and path.resolve().is_relative_to(root):
                return Item(path=path.resolve(), media_type=media_type)
        return None
