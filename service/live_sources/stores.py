"""Stores of files by the protocols of their URLs, of which one store may have several."""

from typing import Final

from fsspec.registry import known_implementations

_OF_HADOOP: Final = {"s3n": "s3", "wasb": "abfs", "wasbs": "abfs"}
"""Protocols that engines write into tables and fsspec does not know."""


def store_of(scheme: str) -> str:
    """What all protocols of one kind of store share, such as ``s3``, ``s3a`` and ``s3n``.

    A protocol that is unknown, or not in lower case, stands for itself.
    """
    known = known_implementations.get(_OF_HADOOP.get(scheme, scheme))
    return str(known["class"]) if known else scheme
