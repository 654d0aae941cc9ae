"""Signatures of methods that are made from calls, for `help` and for editors."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from types import NoneType
from typing import Any, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

from peewit.service.client.call_steps import Item

P = ParamSpec("P")
T = TypeVar("T")


def as_method(method: Callable[P, T], call: Callable[..., Any]) -> Callable[P, T]:
    """The method with the call's signature behind ``self``, and what it answers as its result."""
    self_first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.signature(call)
    answer = _answer(call, Iterator if inspect.isgeneratorfunction(method) else AsyncIterator)
    method.__signature__ = signature.replace(  # type: ignore[attr-defined]  # read by inspect
        parameters=[self_first, *signature.parameters.values()], return_annotation=answer
    )
    return method


def _answer(call: Callable[..., Any], iterator: Any) -> Any:
    steps, _, returned = get_args(get_type_hints(call)["return"])
    items = [get_args(each)[0] for each in get_args(steps) if get_origin(each) is Item]
    if items:
        return iterator[items[0]]
    return None if returned is NoneType else returned
