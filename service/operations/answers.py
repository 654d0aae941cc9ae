"""Answers made of records of the stores."""

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter

Answer = TypeVar("Answer")

_adapter_of: Final[Callable[[Any], TypeAdapter[Any]]] = cache(TypeAdapter)


def answer_of(kind: type[Answer], record: object, /, **others: Any) -> Answer:
    """A checked answer: fields from the attributes of a record, and others by name.

    Attributes that the answer has no field for stay behind.
    """
    names = {field.name for field in fields(kind)} - others.keys()  # type: ignore[arg-type]
    values = {name: getattr(record, name) for name in names}
    answer: Answer = _adapter_of(kind).validate_python(values | others)
    return answer
