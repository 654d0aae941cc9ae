"""The Parameters section of an estimator's docstring, from its fields and its model's."""

import inspect
from collections.abc import Mapping
from dataclasses import fields
from textwrap import TextWrapper
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from peewit.solvers.hyperparameters import rule_of
from peewit.solvers.models.contract.model import Model


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
