"""Answers of the client beside the records of `peewit.service.wire`: errors, events and tables.

Records hold no connection: both clients give the same, and they can be kept, compared and pickled.
Fields that a newer server adds are ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pyarrow as pa

from peewit.service.validation_rules import rule_of, with_argument

T = TypeVar("T")

_ADAPTERS: Final[dict[Any, Any]] = {}
"""Made when the first answer of a kind comes; all of them would cost the import a second."""


def record_of(kind: type[T], content: bytes) -> T:
    """A record from JSON; raises ValueError that says what is wrong and where."""
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 (a third of the import)

    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    try:
        record: T = _ADAPTERS[kind].validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(with_argument(place, rule_of(first))) from error
    return record


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What is wrong with a call (RFC 9457); see `peewit.service.client.errors.PeewitError`."""

    title: str
    detail: str
    type: str = "about:blank"
    status: int | None = None
    argument: str | None = None
    rule: str | None = None
    row: int | None = None
    value: str | None = None
    refused: tuple[str, ...] | None = None
    n_refused: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """One line of a job's history; ``seq`` counts from 1, ``kind`` says what happened."""

    seq: int
    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predictions:
    """A table of predictions, and where it comes from.

    Attributes
    ----------
    table : pyarrow.Table
        Columns ``node`` (not of new points), ``label``, ``score``, ``margin`` and others.
    job, model, snapshot, labels_seq, features_version, solver_status
        What it was made from.
    etag : str or None
        For `if_changed_since` of the next call; new points have none.
    """

    table: pa.Table
    job: str
    model: str
    snapshot: int
    labels_seq: int
    features_version: int
    solver_status: str
    etag: str | None
