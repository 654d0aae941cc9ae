"""The commands that tables call for, and the script of them."""

from collections.abc import Iterator, Mapping
from shlex import join
from typing import Final

from peewit.service.first_look.roles import Role, Roles

_POSITIVE: Final = ("1", "true", "yes", "t", "y")
_TWO: Final = 2
N_LISTED: Final = 10


def commands(graph: str, roles: Roles, paths: Mapping[str, str] | None = None) -> list[list[str]]:
    """Arguments of `peewit` in order; ``paths`` are those of samples that stand for tables."""
    made = [["graph", "create", graph, "--seed", "0"]]
    joining = [role for role in roles.of_tables if role.joins]
    made += [
        ["ingest", graph, _path(role, paths), *_edges(role, roles, is_alone=len(joining) == 1)]
        for role in joining
    ]
    made += [
        ["features", graph, _path(role, paths), *_features(role, roles)]
        for role in roles.of_tables
        if role.features
    ]
    labeled = next((role for role in roles.of_tables if role.label is not None), None)
    if labeled is None or labeled.node is None or labeled.label is None:
        return made
    node = _named(roles, labeled, labeled.node)
    put = ["labels", "put", graph, _path(labeled, paths), "--node", node, "--label", labeled.label]
    put += ["--unknown", "keep"]  # edges of their nodes may be missing in a sample
    by = f"probability:{positive(roles)}" if len(roles.classes) == _TWO else "score"
    listed = ["predictions", graph, "--sort", by, "--unlabeled"]
    return [*made, put, ["solve", graph], [*listed, "--top", str(N_LISTED)]]


def positive(roles: Roles) -> str:
    """The class of two that people look for: 1 or true, else the rarer."""
    classes = roles.classes
    told = next((each for each in classes if each.lower() in _POSITIVE), None)
    return told or min(classes, key=lambda each: (classes[each], each))


def in_words(role: Role, roles: Roles) -> Iterator[str]:
    """Sentences about a table."""
    if role.table.names_kinds:
        yield "edges, each of which names the kinds of its ends"
    elif role.ends is not None:
        src, dst = role.ends
        ways = ", one way" if role.is_directed else ""
        yield f"edges from {_thing(roles, role, src)} to {_thing(roles, role, dst)}{ways}"
    if role.via:
        others = " and with ".join(_thing(roles, role, each) for each in role.via)
        yield f"events: each row joins {_thing(roles, role, role.entity or '')} with {others}"
    if role.features:
        about = _thing(roles, role, role.node or "")
        yield f"features of {about}: {', '.join(role.features)}"
    if role.label is not None:
        counts = ", ".join(f"{each} {count:,}" for each, count in list(roles.classes.items())[:6])
        yield f"labels of {_thing(roles, role, role.node or '')} ({role.label}): {counts}"
    if role.left_out:
        yield f"not used: {', '.join(role.left_out)}"


def script(graph: str, roles: Roles) -> str:
    """A shell script of the commands; it reads whole tables."""
    lines = ["#!/bin/sh", "# What `peewit try` guessed of these tables; change what it got wrong."]
    for role in roles.of_tables:
        lines += [f"# {role.table.path.name}: {each}" for each in in_words(role, roles)]
    lines += ["set -e", *(join(["peewit", *each]) for each in commands(graph, roles))]
    return "\n".join(lines) + "\n"


def _path(role: Role, paths: Mapping[str, str] | None) -> str:
    path = str(role.table.path.absolute())
    return path if paths is None else paths.get(path, path)


def _named(roles: Roles, role: Role, column: str) -> str:
    return f"{roles.kind(role, column)}:{column}" if roles.is_typed else column


def _thing(roles: Roles, role: Role, column: str) -> str:
    return f"{roles.kind(role, column)} ({column})"


def _edges(role: Role, roles: Roles, *, is_alone: bool) -> list[str]:
    if role.table.names_kinds:
        return []
    if role.ends is None:
        entity = _named(roles, role, role.entity or "")
        return [
            "--entity",
            entity,
            "--via",
            ",".join(_named(roles, role, each) for each in role.via),
        ]
    src, dst = (_named(roles, role, each) for each in role.ends)
    relation = [] if is_alone and not role.is_directed else ["--relation", role.table.stem]
    weight = [] if role.weight is None else ["--weight", role.weight]
    return [*relation, *(["--directed"] * role.is_directed), "--src", src, "--dst", dst, *weight]


def _features(role: Role, roles: Roles) -> list[str]:
    unwanted = [name for name in role.table.columns if name not in {*role.features, role.node}]
    without = ["--without", ",".join(unwanted)] if unwanted else []
    return ["--node", _named(roles, role, role.node or ""), *without]
