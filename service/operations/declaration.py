"""Declaration of operations: marks of parameters, and what is read off a signature.

``here`` and ``graph`` are given by the door. A parameter with a mark is asked for; one whose type
is a `Group` stands for the fields of that class, which several operations share.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel

from peewit.service.catalog import GraphRecord
from peewit.service.jobs.job import Job
from peewit.service.key_store import Scope
from peewit.service.operations.here import Here
from peewit.service.wire.records import Ongoing
from peewit.streaming.problems import Problem

S = TypeVar("S")
T = TypeVar("T")

Before = Callable[[Here, GraphRecord, Mapping[str, Any]], Job | None]

EMPTY: Final = inspect.Parameter.empty


class Mark:
    """What a parameter means, in the words of every door, and the rules of its value.

    Parameters
    ----------
    doc : str
        A sentence; empty where the name says it.
    name : str, optional
        In addresses and bodies, where it is not the parameter's own.
    flag : str, optional
        On the command line: ``-k``, ``NODE`` for an argument, ``[NODE] --node`` for either.
    metavar : str, optional
        How the value is called there.
    of_file : str, optional
        Column of a file that a command takes beside values one by one.
    given_as : type, optional
        What Python callers may give, where it is more than the type that is read.
    json : type, optional
        Schema of the JSON that may come in place of a table.
    **rules
        As pydantic names them: ``ge``, ``le``, ``min_length``, ``max_length``, ``examples``.
    """

    def __init__(
        self,
        doc: str = "",
        *,
        name: str | None = None,
        flag: str | None = None,
        metavar: str | None = None,
        of_file: str | None = None,
        given_as: Any = None,
        json: type[BaseModel] | None = None,
        **rules: Any,
    ) -> None:
        self.doc = doc
        self.metavar = metavar
        self.of_file = of_file
        self.given_as = given_as
        self.json = json
        self.name = name
        self.flag = flag
        self.rules: Mapping[str, Any] = rules


class Path(Mark):
    """A part of the address."""


class Query(Mark):
    """Stands in the query."""


class Body(Mark):
    """A field of a JSON body."""


class Whole(Mark):
    """The body itself, which is no object of few fields; its command is written, too."""


class Table(Mark):
    """The body itself, a table in any format, as ``doc`` says; or JSON, where it has a schema.

    Its value is a `TableUpload` or `JsonUpload`, or what reads a file of the command line.
    """


class Header(Mark):
    """A header, which the command line has no option for."""


@dataclass(frozen=True)
class Group:
    """Parameters that several operations have together; fields are marked as parameters are.

    ``TOGETHER`` describes them all in one sentence where callers in Python read of them.
    """

    TOGETHER: ClassVar[str] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One thing that is asked for."""

    name: str
    mark: Mark
    kind: Any
    default: Any
    is_shared: bool  # of a group

    @property
    def key(self) -> str:
        """Its name in addresses and bodies."""
        return self.mark.name or self.name

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is EMPTY


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operation(Generic[T]):
    """A declared operation.

    Attributes
    ----------
    call : callable
        The function.
    method, path : str
        As `operation` takes them together.
    scopes : sequence of str
        A key must allow one of them; who runs what has none needs no key.
    answer : type
        What it returns, or what a mapping of fields that it returns is, unchecked: the last of
        what its result is annotated with.
    parameters : sequence of Parameter
        Its own, then those of groups.
    has_graph : bool
        Whether it is about a graph.
    groups : mapping
        Classes of parameters that belong together.
    raises : sequence of types
        Errors beside an unknown graph and a broken rule.
    client : str
        Name of the client's call; that of the function by default.
    is_call_written : bool
        Whether that call is written by hand, as it does more than one request, or sends a body
        whole.
    items : str, optional
        The field of the answer that the client returns alone.
    is_paged : bool
        Whether the answer is a page of a list, by ``page`` and ``limit``, with its ``next_page``;
        the client iterates over all of them.
    status : int, optional
        HTTP status of success, where it is not 200, or 204 of what answers nothing.
    location : str, optional
        Address of what was made, below /v1, with attributes of the answer in braces.
    tool : str, optional
        Title of a tool that agents are offered; only what reads may be.
    is_repeatable : bool
        Whether a POST twice does no more than once; known of those that wait or have a key.
    follow : Operation, optional
        What tells how it goes on, where the answer is `Ongoing`; itself by default.
    quick : callable, optional
        Gives the answer by the same parameters where it is at hand, else None; a server asks it
        without a thread.
    after : callable, optional
        Gives the job that must have ended first, by what is asked; None where there is none.
    gate : str, optional
        What a server's home lets only a few calls at a time through.
    room : str, optional
        Store of a home that must have room for more before the body is read.
    rows : str, optional
        What columns the answer has, where that is a table.
    unchanged : str, optional
        What holds while such a table has the caller's `ETag`, where it has one.
    refused : type, optional
        Error in place of an answer that has a ``refusal``; of what only reads, to the client.
    hidden : sequence of str
        Parameters that are not the client's: of what ``items`` leaves out.
    """

    call: Callable[..., T]
    method: str
    path: str
    scopes: Sequence[Scope]
    answer: Any
    parameters: Sequence[Parameter]
    has_graph: bool
    groups: Mapping[str, type[Group]]
    raises: Sequence[type[Problem]] = ()
    client: str
    is_call_written: bool = False
    items: str | None = None
    is_paged: bool = False
    status: int | None = None
    location: str | None = None
    tool: str | None = None
    is_repeatable: bool = False
    follow: "Operation[Any] | None" = None
    quick: Callable[..., T | None] | None = None
    after: "Before | None" = None
    gate: str | None = None
    room: str | None = None
    rows: str | None = None
    unchanged: str | None = None
    refused: type[Problem] | None = None
    hidden: Sequence[str] = ()

    @property
    def name(self) -> str:
        """That of the function."""
        return self.call.__name__

    @property
    def waits(self) -> bool:
        """Whether every door can wait until its answer is settled."""
        return isinstance(self.answer, type) and issubclass(self.answer, Ongoing)

    def look(self, here: Here, graph: GraphRecord | None, first: Any) -> Any:
        """How it goes on, after the first answer."""
        follow = self.follow or self
        own = {each.name: first.id for each in follow.of(Path)}
        later: Any = follow(here, *((graph,) if follow.has_graph else ()), **own)
        return self.taken(later).since(first)

    def taken(self, answer: Any) -> Any:
        """The answer, unless what was asked for will not come about."""
        if self.refused is not None and answer.refusal is not None:
            raise self.refused(answer.refusal, **answer.place)
        return answer

    def job_before(
        self, here: Here, graph: GraphRecord | None, arguments: Mapping[str, Any]
    ) -> Job | None:
        """The job that must have ended first."""
        return None if self.after is None or graph is None else self.after(here, graph, arguments)

    @property
    def doc(self) -> str:
        """What it does, in the words of every door."""
        return inspect.getdoc(self.call) or ""

    def of(self, *marks: type[Mark]) -> list[Parameter]:
        """The parameters of some kinds."""
        return [each for each in self.parameters if isinstance(each.mark, marks)]

    def __call__(self, here: Here, graph: GraphRecord | None = None, /, **values: Any) -> T:
        """Run it; fields of groups are put together again."""
        return self._run(self.call, here, graph, values)

    def at_hand(self, here: Here, graph: GraphRecord | None, values: Mapping[str, Any]) -> T | None:
        """The answer where it needs no thread."""
        return None if self.quick is None else self._run(self.quick, here, graph, values)

    def _run(
        self,
        call: Callable[..., S],
        here: Here,
        graph: GraphRecord | None,
        values: Mapping[str, Any],
    ) -> S:
        left = dict(values)
        for name, group in self.groups.items():
            own = {each.name for each in fields(group)}
            left[name] = group(**{key: left.pop(key) for key in own & left.keys()})
        return call(here, graph, **left) if self.has_graph else call(here, **left)


def operation(
    route: str, *scopes: Scope, **options: Any
) -> Callable[[Callable[..., T]], Operation[T]]:
    """Declare an operation by its function.

    ``route`` is ``"GET /predictions/sets"``, below the graph where the function takes one; options
    are the attributes of `Operation` that have a default.
    """

    def declare(call: Callable[..., T]) -> Operation[T]:
        method, _, path = route.partition(" ")
        hints = get_type_hints(call, include_extras=True)
        signature = list(inspect.signature(call).parameters.values())
        has_graph = len(signature) > 1 and hints[signature[1].name] is GraphRecord
        parameters: list[Parameter] = []
        groups: dict[str, type[Group]] = {}
        for each in signature[1 + has_graph :]:
            hint = hints[each.name]
            if isinstance(hint, type) and issubclass(hint, Group):
                groups[each.name] = hint
                parameters += parameters_of(hint)
            else:
                parameters.append(parameter(each.name, hint, each.default, is_shared=False))
        parameters.sort(key=lambda one: (one.is_shared, not one.is_required))
        is_whole = any(isinstance(each.mark, (Whole, Table)) for each in parameters)
        declared = {"client": call.__name__, "is_call_written": is_whole, **options}
        if declared.get("is_paged"):
            declared["hidden"] = "page", "limit"
        return Operation(
            call=call,
            method=method,
            path=path,
            scopes=scopes,
            answer=(get_args(hints["return"]) or (hints["return"],))[-1],
            parameters=parameters,
            has_graph=has_graph,
            groups=groups,
            **declared,
        )

    return declare


def doc_of(group: type[Group], name: str) -> str:
    """What a field of a group means, for a door that is written by hand."""
    (declared,) = (each for each in parameters_of(group) if each.name == name)
    return declared.mark.doc


def parameters_of(group: type[Group]) -> list[Parameter]:
    """What a group stands for, in order."""
    hints = get_type_hints(group, include_extras=True)
    return [
        parameter(
            each.name,
            hints[each.name],
            EMPTY if each.default is MISSING else each.default,
            is_shared=True,
        )
        for each in fields(group)
    ]


def parameter(name: str, hint: Any, default: Any, *, is_shared: bool) -> Parameter:
    """What a function asks for by one of its parameters."""
    marks = [each for each in get_args(hint)[1:] if isinstance(each, Mark)]
    if get_origin(hint) is not Annotated or not marks:
        raise TypeError(f"parameter {name} of an operation must have a mark")
    kind, *extras = get_args(hint)
    for one in extras:
        kind = kind if isinstance(one, Mark) else Annotated[kind, one]
    return Parameter(name=name, mark=marks[0], kind=kind, default=default, is_shared=is_shared)
