"""Options that several commands have together, as fields of one dataclass."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, get_type_hints


@dataclass(frozen=True, kw_only=True)
class OptionGroup:
    """Options of a command: fields with defaults, annotated as its parameters are."""


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer reads it: the fields of a group stand where the group did."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type[OptionGroup]] = {}
    options = []
    for each in inspect.signature(command).parameters.values():
        kind = hints[each.name]
        if isinstance(kind, type) and issubclass(kind, OptionGroup):
            groups[each.name] = kind
            own = get_type_hints(kind, include_extras=True)
            options += [
                inspect.Parameter(
                    one.name, each.KEYWORD_ONLY, default=one.default, annotation=own[one.name]
                )
                for one in fields(kind)
            ]
        else:
            options.append(each.replace(kind=each.KEYWORD_ONLY, annotation=kind))
    if not groups:
        return command

    @wraps(command)
    def run(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{one.name: values.pop(one.name) for one in fields(kind)})
        command(**values)

    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]  # read by typer
    run.__annotations__ = {each.name: each.annotation for each in options}
    return run
