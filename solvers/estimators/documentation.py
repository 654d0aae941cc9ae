"""The Parameters sections of docstrings: of estimators from their fields, of `fit` from others."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from textwrap import TextWrapper
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin

from peewit.solvers.hyperparameters import rule_of
from peewit.solvers.models.contract.model import Model

Method = TypeVar("Method", bound=Callable[..., Any])

_HEAD: Final = "Parameters\n----------\n"
_PARAMETERS: Final = re.compile(rf"{_HEAD}(.*?)(?=\n\n|\Z)", re.DOTALL)


def with_parameters(estimator: Any, model: type[Model]) -> str:
    """The docstring of an estimator, a dataclass, with what its fields mean, the model's first.

    A field that is the model's means what its rule says there, others say it themselves.
    """
    of_model = {parameter.name: parameter for parameter in fields(model)}
    indented = TextWrapper(
        96, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False
    )
    lines = [inspect.cleandoc(estimator.__doc__), "", "Parameters", "----------"]
    for parameter in sorted(fields(estimator), key=lambda field: field.name not in of_model):
        source = of_model.get(parameter.name, parameter)
        doc = source.metadata.get("doc") or rule_of(source).doc
        lines.append(f"{parameter.name} : {_values(parameter.type)}, default {parameter.default!r}")
        lines += indented.wrap(doc)
    return "\n".join(lines)


def with_arguments_of(method: Any, *names: str) -> Callable[[Method], Method]:
    """Decorates a method: its Parameters begin with what another says of these."""
    section = _PARAMETERS.search(inspect.cleandoc(method.__doc__))
    entries = re.split(r"\n(?=\S)", section[1] if section else "")
    said = {entry.partition(" :")[0]: entry for entry in entries}
    lines = "\n".join(said[name] for name in names)

    def documented(own: Method) -> Method:
        text = inspect.cleandoc(own.__doc__ or "")
        own.__doc__ = text.replace(_HEAD, f"{_HEAD}{lines}\n", 1)
        return own

    return documented


def _values(hint: Any) -> str:
    """A type in numpydoc's words, such as ``float or 'auto'``."""
    arguments = get_args(hint)
    if get_origin(hint) is Literal:
        words = ", ".join(map(repr, arguments))
        return words if len(arguments) == 1 else f"{{{words}}}"
    if get_origin(hint) in {Union, UnionType}:
        return " or ".join(map(_values, arguments))
    if get_origin(hint) is Mapping:
        return "mapping of classes to numbers"
    return "None" if hint is NoneType else inspect.formatannotation(hint)
