"""The commands that tables call for, and the script of them."""

from collections.abc import Iterator, Mapping, Sequence
from shlex import join
from typing import Final

from peewit.service.first_look.roles import SIGNS, Role, Roles

_POSITIVE: Final = ("1", "true", "yes", "t", "y", "fraud", "spam", "bot", "scam", "bad")
_TWO: Final = 2
N_LISTED: Final = 10
_SHOWN: Final = 8


def commands(graph: str, roles: Roles, paths: Mapping[str, str] | None = None) -> list[list[str]]:
    """Arguments of `peewit` in order; ``paths`` are those of samples that stand for tables."""
    made = [["graph", "create", graph, "--seed", "0", *_node_ids(roles)]]
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
    column = labeled.table.columns[labeled.label]
    put += ["--no-label", ""] if column.n_filled < labeled.table.n_rows else []
    put += ["--keep-word", "-1"] if set(column.counts) == SIGNS else []
    by = f"probability:{positive(roles)}" if len(roles.classes) == _TWO else "score"
    some = [] if are_all_labeled(roles) else ["--unlabeled"]
    listed = ["predictions", graph, "--sort", by, *some, "--top", str(N_LISTED)]
    return [*made, put, ["solve", graph], listed]


def are_all_labeled(roles: Roles) -> bool:
    """Whether every node that may be labeled has a label."""
    labeled = next((role for role in roles.of_tables if role.label is not None), None)
    if labeled is None or labeled.node is None:
        return False
    own = roles.kind(labeled, labeled.node)
    n_nodes = max(len(each.distinct) for each, kind in roles.kinds.items() if kind == own)
    return sum(roles.classes.values()) >= n_nodes


def _node_ids(roles: Roles) -> list[str]:
    """Whole numbers where all ids are some; nodes of several kinds are told apart by these."""
    if roles.is_typed or any(role.table.names_kinds for role in roles.of_tables):
        return []
    return ["--node-ids", "int64"] if all(each.is_whole for each in roles.used) else []


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
    if role.table.names_kinds:
        yield "edges, each of which names the kinds of its ends"
    elif role.ends is not None:
        src, dst = role.ends
        ways = ", one way" if role.is_directed else ""
        yield f"edges from {_thing(roles, role, src)} to {_thing(roles, role, dst)}{ways}"
    if role.via:
        others = " and with ".join(_thing(roles, role, each) for each in role.via)
        yield f"events: each row joins {_thing(roles, role, role.entity or '')} with {others}"
    if role.label is not None:
        counts = _some([f"{each} {count:,}" for each, count in roles.classes.items()])
        yield f"labels of {_thing(roles, role, role.node or '')} ({role.label}): {counts}"
    if role.features:
        about = _thing(roles, role, role.node or "")
        yield f"features of {about}: {_some(role.features)}"
    if role.left_out:
        why = " (features of one table alone are taken)" if role.is_second else ""
        yield f"not used: {_some(role.left_out)}{why}"


def _some(words: Sequence[str]) -> str:
    more = len(words) - _SHOWN
    return ", ".join(words[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def script(graph: str, roles: Roles, program: str) -> str:
    """A shell script of the commands; it reads whole tables into the home of who runs it."""
    lines = [
        "#!/bin/sh",
        "# What `peewit try` guessed of these tables; change what it got wrong.",
        f"# A second run wants another name than {graph}, or `peewit graph delete {graph} --yes`.",
        f'peewit() {{ {program} "$@"; }}',
    ]
    for role in roles.of_tables:
        lines += [f"# {plain(role.table.path.name)}: {each}" for each in in_words(role, roles)]
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
    unwanted = [
        name
        for name in role.table.columns
        if name not in {*role.features, role.node} and "," not in name
    ]
    without = ["--without", ",".join(unwanted)] if unwanted else []
    return ["--node", _named(roles, role, role.node or ""), *without]
