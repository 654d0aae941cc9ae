"""Options that several commands have together, as fields of one dataclass."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, get_args, get_type_hints

from peewit.service.cli.operation_commands import asked
from peewit.service.operations.declaration import Group, Mark, parameter, parameters_of


@dataclass(frozen=True, kw_only=True)
class OptionGroup:
    """Options of commands alone: fields with defaults, annotated as their parameters are."""


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer reads it: the fields of a group stand where the group did.

    Groups are those of commands, and those of operations, in the words of every door, as are single
    parameters of operations.
    """
    groups: dict[str, type[OptionGroup | Group]] = {}
    own = set(inspect.signature(command).parameters)
    options = []
    for each in inspect.signature(command).parameters.values():
        kind = get_type_hints(command, include_extras=True)[each.name]
        if isinstance(kind, type) and issubclass(kind, (OptionGroup, Group)):
            groups[each.name] = kind
            options += _options_of(kind)
        elif any(isinstance(one, Mark) for one in get_args(kind)):
            options += asked(parameter(each.name, kind, each.default, is_shared=False), own)
        else:
            options.append(each.replace(kind=each.KEYWORD_ONLY, annotation=kind))

    @wraps(command)
    def run(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{one.name: values.pop(one.name) for one in fields(kind)})
        command(**values)

    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]  # read by typer
    run.__annotations__ = {each.name: each.annotation for each in options}
    return run


def _options_of(group: type[OptionGroup | Group]) -> list[inspect.Parameter]:
    if issubclass(group, Group):
        declared = parameters_of(group)
        return [one for each in declared for one in asked(each, {each.name for each in declared})]
    hints = get_type_hints(group, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(each.name, keyword, default=each.default, annotation=hints[each.name])
        for each in fields(group)
    ]
