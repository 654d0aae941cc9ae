"""Stores of files by URL protocol; a store may have several."""

from typing import Final

from fsspec.registry import known_implementations

_OF_HADOOP: Final = {"s3n": "s3", "wasb": "abfs", "wasbs": "abfs"}
"""Protocols that engines write into tables and fsspec does not know."""


def store_of(scheme: str) -> str:
    """The store of a protocol: the same for ``s3``, ``s3a`` and ``s3n``.

    A protocol that is unknown or not in lower case is its own store.
    """
    known = known_implementations.get(_OF_HADOOP.get(scheme, scheme))
    return str(known["class"]) if known else scheme
