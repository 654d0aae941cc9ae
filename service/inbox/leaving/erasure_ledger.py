"""Ledger of erasures: what a restored backup has to forget again.

A file of JSON lines in the home, which no backup holds. The first line has a key; each other line
is an erasure, with its nodes as BLAKE2 hashes under that key, so the file alone names nobody.
"""

import errno
import hashlib
import json
import os
import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from peewit.streaming.durable_files import fsync_directory, fsync_file

LEDGER: Final = "erasures.jsonl"
"""Name of the file in the home."""

_FORMAT: Final = 1
_DIGEST_BYTES: Final = 32


class BadLedger(ValueError):
    """The file is no ledger of erasures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One erasure."""

    erasure: str  # its id
    graph: str  # id of the graph
    position: int  # last turn of the graph's pushes and files that it holds for
    at: str  # when it was asked for, ISO 8601
    nodes: tuple[str, ...]  # hashes of external ids, hexadecimal


class Ledger:
    """A ledger file, created by its first entry."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(
        self, *, erasure: str, graph: str, position: int, at: str, nodes: Sequence[str]
    ) -> None:
        """Add an erasure; it is on the disk when this returns."""
        key = self._key(make=True)
        entry = LedgerEntry(
            erasure=erasure,
            graph=graph,
            position=position,
            at=at,
            nodes=tuple(_hash(key, node) for node in nodes),
        )
        # a line of its own, also behind one that a crash has cut
        line = b"\n" + json.dumps(asdict(entry)).encode() + b"\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        try:
            if os.write(descriptor, line) < len(line):  # at once: others append too
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def entries(self) -> Iterator[LedgerEntry]:
        """All erasures in order; raises `BadLedger`.

        A line cut by a crash is left out: nobody was told that it was stored.
        """
        self._key(make=False)
        with self._path.open(encoding="utf-8") as file:
            next(file)
            for number, line in enumerate(file, 2):
                if not line.rstrip().endswith("}"):
                    continue
                try:
                    values: dict[str, Any] = json.loads(line)
                    entry = LedgerEntry(**{**values, "nodes": tuple(values["nodes"])})
                except (KeyError, TypeError, ValueError) as error:
                    raise BadLedger(f"line {number} of {self._path} is no erasure") from error
                yield entry

    def nodes_by_hash(self, nodes: Iterable[str], hashes: Collection[str]) -> dict[str, str]:
        """The external ids, by hash, whose hash is one of ``hashes``."""
        key = self._key(make=False)
        hashed = ((_hash(key, node), node) for node in nodes)
        return {digest: node for digest, node in hashed if digest in hashes}

    def _key(self, *, make: bool) -> bytes:
        if make and not self._path.exists():
            self._begin()
        try:
            with self._path.open(encoding="utf-8") as file:
                header = json.loads(file.readline())
            if header["format"] != _FORMAT:
                raise BadLedger(f"{self._path} has format {header['format']}, not {_FORMAT}")
            return bytes.fromhex(header["key"])
        except (KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise BadLedger(f"{self._path} is no ledger of erasures") from error

    def _begin(self) -> None:
        """Create the file with a new key, unless another process is quicker."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        header = {"format": _FORMAT, "key": secrets.token_hex(_DIGEST_BYTES)}
        made = self._path.with_name(f".{self._path.name}.{secrets.token_hex(8)}")
        made.write_text(json.dumps(header) + "\n", encoding="utf-8")
        made.chmod(0o600)
        fsync_file(made)
        with suppress(FileExistsError):
            os.link(made, self._path)
        made.unlink()
        fsync_directory(self._path.parent)


def _hash(key: bytes, node: str) -> str:
    return hashlib.blake2b(node.encode(), key=key, digest_size=_DIGEST_BYTES).hexdigest()
