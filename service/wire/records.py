"""Base of the records of answers."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any, Self, TypeVar, dataclass_transform

T = TypeVar("T")


def described(description: str, *, default: Any = MISSING, default_factory: Any = MISSING) -> Any:
    """A field with its description in the API's documentation."""
    return field(
        default=default, default_factory=default_factory, metadata={"description": description}
    )


def constant(*, default: str) -> Any:
    """A field that is the same in every answer of this server; a client accepts others."""
    return field(default=default, metadata={"json_schema_extra": {"const": default}})


class Ongoing:
    """Base of answers that tell of something that goes on, until they are settled."""

    __slots__ = ()

    @property
    def is_settled(self) -> bool:
        """Whether it will change no more."""
        raise NotImplementedError

    @property
    def is_done(self) -> bool:
        """Whether what was asked for has come about."""
        return self.is_settled

    @property
    def refusal(self) -> str | None:
        """Why what was asked for will not come about; None where it may."""
        return None

    @property
    def place(self) -> Mapping[str, Any]:
        """What of a table a refusal speaks of."""
        return {}

    def since(self, first: Self) -> Self:  # noqa: ARG002 - for those that tell of others, too
        """The same for whoever asked for it and was first answered so."""
        return self


@dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(described, constant)
)
def record(cls: type[T]) -> type[T]:
    """A frozen dataclass of named fields; its docstring is its description."""
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)
