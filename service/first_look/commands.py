"""What is to be done with tables: steps, which are commands, and the script of these."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import join
from typing import Final

from peewit.service.first_look.roles import SIGNS, Role, Roles
from peewit.service.tables.uploads.joined_features import joined_names

_POSITIVE: Final = ("1", "true", "yes", "t", "y", "fraud", "spam", "bot", "scam", "bad")
_TWO: Final = 2
N_LISTED: Final = 10
_SHOWN: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command that tables call for."""

    words: tuple[str, ...]  # of the command: ingest, labels put
    title: str  # what it does
    roles: tuple[Role, ...] = ()  # of the tables that it reads
    options: Mapping[str, str | None]  # without their dashes; None of those without a value

    @property
    def role(self) -> Role:
        """That of its only table."""
        (role,) = self.roles
        return role

    def arguments(self, graph: str, paths: Mapping[Path, str]) -> list[str]:
        """Arguments of `peewit`, with the paths that stand for its tables."""
        read = [_path(each, paths) for each in self.roles]
        flags = [
            word
            for name, value in self.options.items()
            for word in ([f"--{name}"] if value is None else [f"--{name}", value])
        ]
        return [*self.words, graph, *read, *flags]


def steps(roles: Roles) -> list[Step]:
    """What is to be done with tables, in order."""
    made = [
        Step(
            words=("graph", "create"),
            title="Make the graph",
            options={"seed": "0"} | _node_ids(roles) | _window(roles),
        )
    ]
    joining = [role for role in roles.of_tables if role.joins]
    made += [
        Step(
            words=("ingest",),
            title=f"Read the edges in {role.table.path.name}",
            roles=(role,),
            options=_edges(role, roles, is_alone=len(joining) == 1),
        )
        for role in joining
    ]
    if described := tuple(role for role in roles.of_tables if role.features):
        names = [role.table.path.name for role in described]
        title = f"Read the features in {' and '.join(names)}"
        title += ", joined by their ids" if len(described) > 1 else ""
        options = _features(described, roles)
        made.append(Step(words=("features",), title=title, roles=described, options=options))
    labeled = next((role for role in roles.of_tables if role.label is not None), None)
    if labeled is None or labeled.node is None or labeled.label is None:
        return made
    return [*made, *_answers(labeled, labeled.node, labeled.label, roles)]


def _answers(labeled: Role, node: str, label: str, roles: Roles) -> Iterator[Step]:
    """Labels, and what follows from them."""
    put = {"node": _named(roles, labeled, node), "label": label}
    put |= {"unknown": "keep"}  # edges of their nodes may be missing in a sample
    column = labeled.table.columns[label]
    put |= _nodeless(labeled)
    put |= {"no-label": ""} if column.n_filled < labeled.table.n_rows else {}
    put |= {"keep-word": "-1"} if set(column.counts) == SIGNS else {}
    yield Step(
        words=("labels", "put"),
        title=f"Put the labels in {labeled.table.path.name}",
        roles=(labeled,),
        options=put,
    )
    yield Step(words=("solve",), title="Predict the labels of all nodes", options={})
    by = f"probability:{positive(roles)}" if len(roles.classes) == _TWO else "score"
    some: dict[str, str | None] = {} if are_all_labeled(roles) else {"unlabeled": None}
    yield Step(
        words=("predictions",),
        title=f"List the first {N_LISTED}",
        options={"sort": by, **some, "top": str(N_LISTED)},
    )


def commands(graph: str, roles: Roles, paths: Mapping[Path, str] | None = None) -> list[list[str]]:
    """Arguments of `peewit` in order; ``paths`` are those of samples that stand for tables."""
    return [each.arguments(graph, paths or {}) for each in steps(roles)]


def are_all_labeled(roles: Roles) -> bool:
    """Whether every node that may be labeled has a label."""
    labeled = next((role for role in roles.of_tables if role.label is not None), None)
    if labeled is None or labeled.node is None:
        return False
    own = roles.kind(labeled, labeled.node)
    n_nodes = max(len(each.distinct) for each, kind in roles.kinds.items() if kind == own)
    return sum(roles.classes.values()) >= n_nodes


def _node_ids(roles: Roles) -> dict[str, str | None]:
    """Whole numbers where all ids are some; nodes of several kinds are told apart by these."""
    if roles.is_typed or any(role.table.names_kinds for role in roles.of_tables):
        return {}
    return {"node-ids": "int64"} if all(each.is_whole for each in roles.used) else {}


def _window(roles: Roles) -> dict[str, str | None]:
    return {"window": roles.window} if roles.window else {}


def positive(roles: Roles) -> str:
    """The class of two that people look for: by its name, else the rarer."""
    classes = roles.classes
    told = next((each for each in classes if each.lower() in _POSITIVE), None)
    return told or min(classes, key=lambda each: (classes[each], each))


def plain(text: str) -> str:
    """A text on one line, so that no value of a table ends a comment of the script."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def in_words(role: Role, roles: Roles) -> Iterator[str]:
    """Sentences about a table, each on one line."""
    return map(plain, _sentences(role, roles))


def _sentences(role: Role, roles: Roles) -> Iterator[str]:
    if not role.table.n_rows:
        yield "no rows, only the names of columns"
        return
    if not role.table.has_names:
        yield "no line of names, so columns are called by their places: #1 is the first"
    if role.table.names_kinds:
        yield "edges, each of which names the kinds of its ends"
    elif role.ends is not None:
        src, dst = role.ends
        ways = ", one way" if role.is_directed else ""
        named = f", called {role.relation}" if role.relation else ""
        yield f"edges from {_thing(roles, role, src)} to {_thing(roles, role, dst)}{ways}{named}"
    if role.via:
        others = " and with ".join(_thing(roles, role, each) for each in role.via)
        yield f"events: each row joins {_thing(roles, role, role.entity or '')} with {others}"
    if role.weight and role.joins:
        yield f"weights: {role.weight}"
    if role.time:
        yield f"times: {role.time} (edges live for {roles.window})"
    if n_missing := role.n_without_end or role.n_nodeless:
        yield f"rows without an id, which are left out: at most {n_missing:,}"
    if role.label is not None:
        counts = _some([f"{each} {count:,}" for each, count in roles.classes.items()])
        guess = ", guessed by its values" if roles.is_label_guessed else ""
        yield f"labels of {_thing(roles, role, role.node or '')} ({role.label}{guess}): {counts}"
    if role.features:
        about = _thing(roles, role, role.node or "")
        yield f"features of {about}: {_some(role.features)}"
    times = [name for name in role.left_out if role.joins and _are_times(role, name)]
    if times:
        yield f"times: {_some(times)} (not needed unless edges are to expire)"
    pointed = [each for each in role.left_out if role.table.columns[each].are_pointed_ids]
    if pointed:
        id_ = role.table.columns[pointed[0]].distinct[0]
        yield f"ids with a point, as {id_}: {_some(pointed)}. Write whole numbers, and try again"
    unused = [name for name in role.left_out if name not in {*times, *pointed}]
    if unused:
        yield f"not used: {_some(unused)}{_why_not(role, roles)}"


def _are_times(role: Role, column: str) -> bool:
    return role.table.columns[column].holds == "times"


def _why_not(role: Role, roles: Roles) -> str:
    """Why columns that may be features are not taken, and how they would be."""
    if not role.has_untaken:
        return ""
    if not role.table.has_names:
        return " (features need a first line with the names of the columns: add one)"
    if role.label is None or not any(each.features for each in roles.of_tables):
        return ""
    return " (they stand beside labels of a few, and may come with these)"


def _some(words: Sequence[str]) -> str:
    more = len(words) - _SHOWN
    return ", ".join(words[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def use_of(role: Role, roles: Roles, column: str) -> str:
    """What a column is taken for, in a few words."""
    if role.ends is not None and column in role.ends:
        side = "src" if column == role.ends[0] else "dst"
        return f"{side}, {roles.kind(role, column)}"
    if column in {role.entity, *role.via, role.node}:
        return f"id of {roles.kind(role, column)}"
    served = {role.weight: "weight", role.time: "time", role.label: "label"}
    served |= dict.fromkeys(role.features, "feature")
    return served.get(column, "not used")


def script(graph: str, roles: Roles, program: str, paths: Mapping[Path, str] | None = None) -> str:
    """A shell script of the commands; it reads whole tables into the home of who runs it."""
    lines = [
        "#!/bin/sh",
        "# What was guessed of these tables; change what is wrong.",
        f"# A second run wants another name than {graph}, or `peewit graph delete {graph} --yes`.",
    ]
    lines += [] if program == "peewit" else [f'peewit() {{ {program} "$@"; }}']
    for role in roles.of_tables:
        lines += [f"# {plain(role.table.path.name)}: {each}" for each in in_words(role, roles)]
    lines += ["set -e", *(join(["peewit", *each]) for each in commands(graph, roles, paths))]
    return "\n".join(lines) + "\n"


def _path(role: Role, paths: Mapping[Path, str]) -> str:
    return paths.get(role.table.path, str(role.table.path.absolute()))


def _named(roles: Roles, role: Role, column: str) -> str:
    return f"{roles.kind(role, column)}:{column}" if roles.is_typed else column


def _thing(roles: Roles, role: Role, column: str) -> str:
    return f"{roles.kind(role, column)} ({column})"


def _edges(role: Role, roles: Roles, *, is_alone: bool) -> dict[str, str | None]:
    made: dict[str, str | None] = {}
    if role.n_without_end:
        made["skip-bad-rows"] = str(role.n_without_end)
    beside = {"weight": role.weight, "time": role.time}
    said = {name: column for name, column in beside.items() if column is not None}
    if role.table.names_kinds:
        return made | said
    if role.ends is None:
        via = ",".join(_named(roles, role, each) for each in role.via)
        return made | {"entity": _named(roles, role, role.entity or ""), "via": via} | said
    if role.is_directed or role.relation or not is_alone:
        made["relation"] = role.relation or role.table.stem
    if role.is_directed:
        made["directed"] = None
    made["src"], made["dst"] = (_named(roles, role, each) for each in role.ends)
    return made | said


def _features(described: Sequence[Role], roles: Roles) -> dict[str, str | None]:
    others = [[name for name in role.table.columns if name != role.node] for role in described]
    files = [role.table.path.name for role in described]
    is_joined = len(described) > 1
    called = joined_names(list(zip(files, others, strict=True))) if is_joined else [{}]
    unwanted = [
        own.get(name, name)
        for role, names, own in zip(described, others, called, strict=True)
        for name in names
        if name not in role.features and "," not in name
    ]
    nodes = [_named(roles, role, role.node or "") for role in described]
    made: dict[str, str | None] = {"join": None} if is_joined else {}
    made["node"] = ",".join(nodes)
    made |= {"without": ",".join(unwanted)} if unwanted else {}
    return made | _nodeless(*described)


def _nodeless(*roles: Role) -> dict[str, str]:
    return {"missing-ids": "leave-out"} if any(role.n_nodeless for role in roles) else {}
