"""Calls of the client, written from the declarations of operations."""

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from functools import reduce
from importlib import import_module
from operator import or_
from types import ModuleType, NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from peewit.service.client.errors import error_class
from peewit.service.operations.declaration import Body, Header, Operation, Parameter, Path, Query
from peewit.service.operations.table import TABLE
from peewit.service.problems import type_of
from peewit.streaming.problems import Problem

SUBJECTS: Final[Sequence[ModuleType]] = tuple(
    import_module(name)
    for name in sorted(
        {
            each.call.__module__
            for operations in TABLE.values()
            for each in operations
            if not each.is_call_written
        }
    )
)
"""Modules whose operations the client calls; each has one of `peewit.service.client.calls`."""

_IMPORTS: Final = (
    "peewit.service.client.call_steps",
    "peewit.service.client.calls.common",
    "peewit.service.client.calls.downloads",
    "peewit.service.client.errors",
)
_HEADERS: Final = {"idempotency_key": ("Idempotency-Key", "key")}
"""Headers by the names of parameters: as they are sent, and as callers name them."""


_LONG: Final = 60
"""Characters from which on a request stands in a line of its own."""


def operations_of(subject: ModuleType) -> list[Operation[Any]]:
    """Those of a module whose calls are written, in its order."""
    found = (each for each in vars(subject).values() if isinstance(each, Operation))
    own = (each for each in found if each.call.__module__ == subject.__name__)
    return [each for each in own if not each.is_call_written]


def module_text(subject: ModuleType) -> str:
    """The module of calls, as ruff formats it."""
    operations = operations_of(subject)
    first = (subject.__doc__ or "").partition("\n")[0]
    written = f"Written from `{subject.__name__}`; `make generate` writes it anew."
    head = f'"""{first}\n\n{written}\n"""'
    text = "\n\n".join([head, "\n".join(_imports(operations)), *map(_call, operations)])
    for command in (["check", "--fix", "--select", "I,F401"], ["format"]):
        ruff = [
            sys.executable,
            "-m",
            "ruff",
            *command,
            "--quiet",
            "--stdin-filename",
            "calls.py",
            "-",
        ]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text


def _imports(operations: Sequence[Operation[Any]]) -> Iterator[str]:
    yield f"from {_IMPORTS[0]} import Call, Flow, Request, answered"
    common = "after_job, get, pages, path, plain, read, settled, taken, until"
    yield f"from {_IMPORTS[1]} import {common}"
    yield f"from {_IMPORTS[2]} import batches_of, download, table_of"
    yield f"from {_IMPORTS[3]} import Conflict, InvalidArgument"
    for each in operations:
        kinds = [each.answer, *(_given_as(one) for one in each.parameters)]
        if each.items is not None:
            kinds.append(get_type_hints(each.answer)[each.items])
        for kind in kinds:
            yield from _imports_of(kind)
    yield from (
        "from datetime import datetime",
        "from typing import Literal",
        "from uuid import uuid4",
        "from typing import Any, Literal",
        "from collections.abc import Mapping, Sequence",
        "from pathlib import Path",
        "import pyarrow as pa",
    )


def _imports_of(kind: Any) -> Iterator[str]:
    for alias, module in _ALIASES.items():
        if str(kind) == str(getattr(module, alias)):  # int | str equals str | int
            yield f"from {module.__name__} import {alias}"
            return
    if isinstance(kind, type) and kind.__module__.startswith("peewit.service.wire"):
        yield f"from {kind.__module__} import {kind.__name__}"
    some = _without_none(kind)
    for part in get_args(kind) if some is kind else [some]:
        yield from _imports_of(part)


def _given_as(each: Parameter) -> Any:
    return each.kind if each.mark.given_as is None else each.mark.given_as


def kind_name(kind: Any) -> str:
    """A type as it is written, by the name that it has on the wire."""
    for alias, module in _ALIASES.items():
        if str(kind) == str(getattr(module, alias)):  # int | str equals str | int
            return alias
    if (some := _without_none(kind)) is not kind:
        return f"{kind_name(some)} | None"
    if get_origin(kind) in {Union, UnionType}:
        return " | ".join(map(kind_name, get_args(kind)))
    if isinstance(kind, type) and not get_args(kind):
        return kind.__name__
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", str(kind))


def _without_none(kind: Any) -> Any:
    parts = get_args(kind)
    if get_origin(kind) in {Union, UnionType} and NoneType in parts:
        return reduce(or_, (each for each in parts if each is not NoneType))
    return kind


def _call(operation: Operation[Any]) -> str:
    answer = f"{'Flow' if operation.is_paged else 'Call'}[{_answer(operation)}]"
    text = _function(
        operation.client, _given(operation), answer, _docstring(operation), _body(operation)
    )
    return "\n".join([text, *_further(operation)])


def _given(operation: Operation[Any], *further: str) -> list[str]:
    """Parameters as they are written."""
    given = ["graph: str"] if operation.has_graph else []
    parameters = _parameters(operation)
    given += [_argument(each) for each in parameters if not each.is_shared]
    shared = [_argument(each) for each in parameters if each.is_shared]
    if operation.rows is not None:  # what a table is of stands first
        given, shared = (
            [each for each in given if " = " not in each],
            [each for each in given if " = " in each] + shared,
        )
    if operation.waits:
        shared.append("wait: float | None = 0.0")
    if operation.after is not None:
        shared.append("timeout: float | None = None")
    keywords = [each for each in further if "=" in each] + shared
    return [
        *given,
        *(each for each in further if "=" not in each),
        *(["*", *keywords] if keywords else []),
    ]


def _further(operation: Operation[Any]) -> Iterator[str]:
    """Further calls of large tables: a batch at a time, and to a file."""
    if operation.unchanged is None:
        return
    name, request = operation.client, _request(operation)
    yield _function(
        f"stream_{name}",
        _given(operation),
        "Flow[pa.RecordBatch]",
        f'"""`{name}` a batch at a time; see `stream_predictions`."""',
        [f"return batches_of({request})"],
    )
    yield _function(
        f"download_{name}",
        _given(operation, "target: Path | str", "table_format: str | None = None"),
        "Call[Path]",
        f'"""`{name}` in a file; see `download_predictions`."""',
        [f"request = {request}", "return (yield from download(request, target, table_format))"],
    )


def _function(name: str, given: Sequence[str], answer: str, doc: str, body: Iterable[str]) -> str:
    return "\n".join(
        [
            f"def {name}({', '.join(given)}) -> {answer}:",
            textwrap.indent(doc, "    "),
            *(f"    {line}" for line in body),
        ]
    )


def _parameters(operation: Operation[Any]) -> list[Parameter]:
    """What callers give: not which page of a list, as they get all."""
    return [each for each in operation.parameters if each.key not in operation.hidden]


def _argument(each: Parameter) -> str:
    if isinstance(each.mark, Header):
        return f"{_HEADERS[each.name][1]}: str | None = None"
    default = "" if each.is_required else f" = {each.default!r}"
    return f"{each.name}: {kind_name(_given_as(each))}{default}"


def _answer(operation: Operation[Any]) -> str:
    if operation.answer is type(None):
        return "None"
    if operation.rows is not None:
        return "pa.Table"
    if operation.items is None:
        return kind_name(operation.answer)
    items = get_type_hints(operation.answer)[operation.items]
    return kind_name(get_args(items)[0] if operation.is_paged else items)


def _docstring(operation: Operation[Any]) -> str:
    lines = [f'"""{operation.doc}']
    if _parameters(operation) or operation.waits:
        lines += ["", "Parameters", "----------"]
        if operation.has_graph:
            lines += ["graph : str", "    Its name."]
    together = {
        field.name: group
        for group in operation.groups.values()
        if group.TOGETHER
        for field in fields(group)
    }
    for each in _parameters(operation):
        if each.name not in together:
            lines += _described([each], each.mark.doc)
    for group in dict.fromkeys(together.values()):
        own = [each for each in operation.parameters if together.get(each.name) is group]
        lines += _described(own, group.TOGETHER)
    if operation.waits:
        lines += [
            "wait : float or None",
            "    Longest wait for the end, in seconds; None for ever.",
        ]
    if operation.after is not None:
        lines += [
            "timeout : float, optional",
            "    Seconds to wait for a job that must end first; for ever when left out.",
        ]
    raised: dict[str, list[str]] = {}
    for error in dict.fromkeys([*operation.raises, *filter(None, [operation.refused])]):
        raised.setdefault(_raised(error), []).append((error.__doc__ or "").partition("\n")[0])
    if operation.after is not None:
        raised["JobCancelled"] = ["Somebody has cancelled the job that must end first."]
        raised["StillWaiting"] = ["Time is over; the job goes on."]
    if operation.rows is not None:
        lines += ["", "Returns", "-------", "pyarrow.Table", *_indented(operation.rows)]
    if raised:
        lines += ["", "Raises", "------"]
    for name, reasons in raised.items():
        lines.append(name)
        text = " Or: ".join(dict.fromkeys(reasons))
        lines += _indented(text)
    end = '"""'
    return (
        f"{lines[0]}{end}" if len(lines) == 1 and "\n" not in lines[0] else "\n".join([*lines, end])
    )


def _raised(error: type[Problem]) -> str:
    """Name of what callers catch."""
    return error_class(error.status, type_of(error.title)).__name__


def _described(parameters: Sequence[Parameter], doc: str) -> Iterator[str]:
    kind = kind_name(_given_as(parameters[0])).removesuffix(" | None").replace(" | ", " or ")
    optional = "" if parameters[0].is_required else ", optional"
    names = (
        _HEADERS[each.name][1] if isinstance(each.mark, Header) else each.name
        for each in parameters
    )
    yield f"{', '.join(names)} : {kind}{optional}"
    yield from _indented(doc)


def _indented(text: str) -> list[str]:
    return textwrap.wrap(text, 92, initial_indent="    ", subsequent_indent="    ")


def _body(operation: Operation[Any]) -> Iterator[str]:
    kind = kind_name(operation.answer)
    if operation.is_paged:
        path = [repr("graphs"), "graph"] if operation.has_graph else []
        path += [repr(each) for each in _steps(operation)]
        path += [f"{each.key}={each.name}" for each in _parameters(operation)]
        yield f"return pages({kind}, lambda page: page.{operation.items}, {', '.join(path)})"
        return
    request = _request(operation)
    if len(request) > _LONG:
        yield f"request = {request}"
        request = "request"
    if operation.answer is type(None):
        yield f"yield from answered({request})"
        return
    if operation.rows is not None:
        yield f"return (yield from table_of({request}))[0]"
        return
    refused = None
    if operation.refused is not None:
        refused = f"({_raised(operation.refused)}, {operation.refused.title!r})"
    if operation.after is not None:
        steps = f"(yield from after_job({kind}, {request}, seconds=timeout))"
    elif not operation.waits:
        steps = f"(yield from read({kind}, {request}))"
    elif operation.method == "GET":
        steps = f"(yield from until({kind}, {request}, seconds=wait))"
        steps = steps if refused is None else f"taken({steps}, {refused})"
    else:
        follow = operation.follow or operation
        parts = [step.replace("{", "first.").replace("}", "") for step in _steps(follow)]
        parts = ["first.id" if each.startswith("first.") else repr(each) for each in parts]
        given = "first" if "first.id" in parts else "_"
        if follow.has_graph:
            parts = [repr("graphs"), "graph", *parts]
        later = f"lambda {given}: get({', '.join(parts)})"
        rest = "seconds=wait"
        if refused is not None:
            rest += f", refused={refused}"
        steps = f"(yield from settled({kind}, {request}, {later}, {rest}))"
    yield f"return {steps}{'' if operation.items is None else '.' + operation.items}"


def _steps(operation: Operation[Any]) -> list[str]:
    return [each for each in operation.path.split("/") if each]


def _request(operation: Operation[Any]) -> str:
    own = {f"{{{each.key}}}": each.name for each in operation.of(Path)}
    steps, verb = _steps(operation), ""
    if steps and not steps[-1].endswith("}"):
        steps[-1], _, verb = steps[-1].partition(":")
    parts = ['"graphs"', "graph"] if operation.has_graph else []
    parts += [own.get(step, repr(step)) for step in steps]
    headers = operation.of(Header)
    asked = [each for each in operation.of(Query) if each.key not in operation.hidden]
    if operation.method == "GET" and not verb and not headers:
        named = [f"{each.key}={each.name}" for each in asked]
        if "limit" in operation.hidden and not operation.is_paged:
            named.append("limit=1")  # of a page that nobody reads
        return f"get({', '.join([*parts, *named])})"
    if verb:
        parts.append(f"verb={verb!r}")
    arguments = [f'method="{operation.method}"', f"path=path({', '.join(parts)})"]
    if asked:
        arguments.append(f"params={_mapping(asked)}")
    if headers:
        sent = (
            f'"{_HEADERS[each.name][0]}": {_HEADERS[each.name][1]} or uuid4().hex'
            for each in headers
        )
        arguments.append(f"headers={{{', '.join(sent)}}}")
    if asked := operation.of(Body):
        arguments.append(f"json={_mapping(asked)}")
    followed = operation.follow.of(Path) if operation.follow is not None else []
    makes_one = {each.name for each in followed} - set(own.values())
    reads = operation.method in {"GET", "PUT"} or (operation.waits and not makes_one)
    if headers or reads or operation.is_repeatable:
        arguments.append("is_repeatable=True")
    return f"Request({', '.join(arguments)})"


def _mapping(asked: Sequence[Parameter]) -> str:
    return "{" + ", ".join(f'"{each.key}": {_sent(each)}' for each in asked) + "}"


def _sent(each: Parameter) -> str:
    """A value as JSON takes it."""
    kind = kind_name(_given_as(each))
    if kind.startswith("Mapping") and get_origin(each.kind) is list:
        return f'[{{"node": node, "label": label}} for node, label in {each.name}.items()]'
    if kind.startswith(("Mapping", "Sequence")):
        sent = f"{'dict' if kind.startswith('Mapping') else 'list'}({each.name})"
        return sent if each.is_required else f"None if {each.name} is None else {sent}"
    return f"plain({each.name})" if "datetime" in kind else each.name


def _aliases() -> dict[str, ModuleType]:
    """Names that types on the wire have."""
    from peewit.service.wire import jobs, labels, predictions, sources_and_pushes

    return {
        "FileStatus": sources_and_pushes,
        "JobStatus": jobs,
        "Label": labels,
        "NodeId": predictions,
    }


_ALIASES: Final = _aliases()
