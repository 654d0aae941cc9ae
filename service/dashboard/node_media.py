"""Items: picture or text of a node, for people who label, in a file named after the node.

Context: nobody can label ``digit-0042`` without seeing it, and graphs hold edges, not contents.
Decision: files of the user's own, ``<directory>/<graph>/<node>.png`` and the like, looked up when a
page shows the node. Consequence: no import, no copies, no requests to other hosts; backups do not
hold them.
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
"""Suffixes and media types of pictures, in order of lookup."""

KINDS: Final = {**PICTURES, ".txt": "text/plain"}
"""The same with UTF-8 text, which is shown where there is no picture."""

MAX_TEXT_BYTES: Final = 16_384
"""Bytes of a text that are shown, from its start."""

_LONGEST_NAME: Final = 255
_ESCAPED: Final = str.maketrans({"%": "%25", "/": "%2F", "\0": "%00"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Picture or text of a node."""

    path: Path
    media_type: str

    @property
    def is_picture(self) -> bool:
        """Whether it is a picture."""
        return self.media_type.startswith("image/")

    def text(self) -> str:
        """The start of a text; raises OSError."""
        with self.path.open("rb") as file:
            content = file.read(MAX_TEXT_BYTES + 1)
        if len(content) <= MAX_TEXT_BYTES:
            return content.decode(errors="replace")
        return content[:MAX_TEXT_BYTES].decode(errors="ignore") + " …"


class Items:
    """The items of all graphs.

    ``directory`` has a directory for each graph, by its name; neither need exist. Links are
    followed within it, but not out of it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find(self, graph: str, node: str) -> Item | None:
        """The item of a node, an external id as text; None without one.

        In file names ``/`` and ``%`` of the id are ``%2F`` and ``%25``. Raises OSError where the
        directory cannot be searched.
        """
        stem = node.translate(_ESCAPED)
        if len(os.fsencode(stem)) + max(map(len, KINDS)) > _LONGEST_NAME:
            return None  # no valid file name
        directory = self._directory / graph
        if not directory.is_dir():
            return None
        root = self._directory.resolve()
        for ending, media_type in KINDS.items():
            path = directory / f"{stem}{ending}"
            if path.is_file() and path.resolve().is_relative_to(root):
                return Item(path=path.resolve(), media_type=media_type)
        return None
