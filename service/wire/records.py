"""Base of the records of answers."""

from dataclasses import MISSING, dataclass, field
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


def described(description: str, *, default: Any = MISSING, default_factory: Any = MISSING) -> Any:
    """A field with its description in the API's documentation."""
    return field(
        default=default, default_factory=default_factory, metadata={"description": description}
    )


def constant(*, default: str) -> Any:
    """A field that is the same in every answer of this server; a client accepts others."""
    return field(default=default, metadata={"json_schema_extra": {"const": default}})


@dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(described, constant)
)
def record(cls: type[T]) -> type[T]:
    """A frozen dataclass of named fields; its docstring is its description."""
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)
