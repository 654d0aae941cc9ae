"""Start intake: tables that somebody drops on the page, understood together, as steps to take."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, cast

from fastapi import Depends, Query, Request

from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.served_home import ServedHome
from peewit.service.catalog import GraphRecord
from peewit.service.dashboard.column_choices import EdgeChoice, FeatureChoice, LabelChoice, Words
from peewit.service.dashboard.uploads import Holds, Upload, Uploads
from peewit.service.first_look.changed_tables import as_changed
from peewit.service.first_look.changes import NO_CHANGE, USES, TableChange, Use
from peewit.service.first_look.columns import ColumnLook, TableLook
from peewit.service.first_look.commands import Step, in_words, use_of
from peewit.service.first_look.roles import Role, Roles, roles_of
from peewit.service.inbox.source_store import MAX_BAD_ROWS
from peewit.service.inbox.typed_graphs import kinds_named, typed_graph
from peewit.service.problems import InvalidArgument
from peewit.service.tables.column_names import column_list
from peewit.service.tables.uploads.joined_features import NodeTable, join_tables, joined_file
from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.node_kinds import split_column
from peewit.streaming.edges.reading_options import NodelessRows
from peewit.streaming.features.checked_tables import NODE

MOST_FILES: Final = 20
NO_LABELS: Final = "none"
ONE_WAY: Final = "one"
COLUMNS_SHOWN: Final = 40

USE_WORDS: Final[Mapping[Use, str]] = {
    "src": "src: source of edges, or what rows are about",
    "dst": "dst: target of edges",
    "id": "id",
    "weight": "weight of edges",
    "time": "time of edges, where these expire",
    "feature": "feature",
    "out": "not used",
}
_FIELD: Final = re.compile(r"(use|kind)\d+:|(relation|way)\d+$")

_HOLDS: Final[Mapping[str, Holds]] = {"ingest": "edges", "features": "features", "labels": "labels"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StartChoice:
    """Which files to start with, and what somebody has changed of what was guessed."""

    file: Sequence[str] = ()  # ids of uploads
    skip: Sequence[str] = ()  # those of them to leave out
    label: str = ""  # upload and column, or NO_LABELS
    window: str = ""  # how long edges live
    said: Mapping[str, str] = field(default_factory=dict)  # of tables, by the names of fields

    @property
    def given(self) -> dict[str, Any]:
        """The choice as query parameters."""
        given = {"file": self.file, "skip": self.skip, "label": self.label, "window": self.window}
        return {name: value for name, value in given.items() if value} | dict(self.said)

    def change(self, place: int) -> TableChange:
        """What is said of a table, by its place among the files."""
        uses: dict[str, Use] = {}
        kinds: dict[str, str] = {}
        for name, value in self.said.items():
            what, of, column = name.partition(":")
            if of and what == f"use{place}":
                uses[column] = cast("Use", value)
            elif of and what == f"kind{place}":
                kinds[column] = value
        way = self.said.get(f"way{place}")
        return TableChange(
            uses=uses,
            kinds=kinds,
            relation=self.said.get(f"relation{place}", ""),
            is_directed=None if way is None else way == ONE_WAY,
        )


def start_choice(
    request: Request,
    file: Words = (),
    skip: Words = (),
    label: Annotated[str, Query(max_length=1100)] = "",
    window: Annotated[str, Query(max_length=100)] = "",
) -> StartChoice:
    """The choice in an address."""
    said = {
        name: value.strip()
        for name, value in request.query_params.multi_items()
        if _FIELD.match(name) and value.strip()
    }
    for name, value in said.items():
        if name.startswith("use") and value not in USES:
            raise InvalidArgument(f"use must be one of {', '.join(USES)}, got {value!r}")
    return StartChoice(file=file, skip=skip, label=label, window=window.strip(), said=said)


StartChosen = Annotated[StartChoice, Depends(start_choice)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SentTable:
    """A file to start with, and what it seems to hold."""

    upload: Upload
    look: TableLook | None  # None where it is left out, or cannot be read
    fault: str = ""  # why it cannot


@dataclass(frozen=True, slots=True, kw_only=True)
class Understood:
    """What the tables are for, together."""

    tables: Sequence[SentTable]
    roles: Roles
    choice: StartChoice
    fault: str = ""  # what is wrong with what was chosen

    @property
    def joins(self) -> bool:
        """Whether one of them joins nodes, without which there is no graph."""
        return any(role.joins for role in self.roles.of_tables)

    def role(self, table: SentTable) -> Role | None:
        """What a table is for; None where it is left out."""
        own = (role for role in self.roles.of_tables if role.table.path == table.upload.path)
        return next(own, None)

    def words(self, role: Role) -> list[str]:
        """Sentences about a table."""
        return list(in_words(role, self.roles))

    def columns(self, role: Role) -> list[tuple[str, str, str]]:
        """The first columns of a table, what each is taken for, and the kind of its ids or ''."""
        shown = list(role.table.columns.values())[:COLUMNS_SHOWN]
        return [
            (each.name, use_of(role, self.roles, each.name), self.roles.kinds.get(each, ""))
            for each in shown
        ]

    def is_changed(self, place: int) -> bool:
        """Whether something is said of a table, by its place among the files."""
        return self.choice.change(place) != NO_CHANGE

    @property
    def has_times(self) -> bool:
        """Whether a table of edges has times, so that these may expire."""
        joining = [role.table for role in self.roles.of_tables if role.joins]
        return any(each.holds == "times" for table in joining for each in table.columns.values())

    @property
    def uploads(self) -> dict[Path, Upload]:
        """The file of each table."""
        return {each.upload.path: each.upload for each in self.tables}

    @property
    def paths(self) -> dict[Path, str]:
        """What each file is called by who sent it."""
        return {path: upload.sent_name for path, upload in self.uploads.items()}

    @property
    def label_columns(self) -> list[tuple[str, str]]:
        """Columns that labels may be in, as the form sends and shows them."""
        return [
            (f"{self.uploads[table.path].id}:{column.name}", f"{column.name} in {table.path.name}")
            for table, column in self._label_columns
        ]

    @property
    def _label_columns(self) -> list[tuple[TableLook, ColumnLook]]:
        chosen = [
            (role.table, role.table.columns[role.label])
            for role in self.roles.of_tables
            if role.label
        ]
        known = {(table.path, column.name) for table, column in chosen}
        others = self.roles.candidates
        return chosen + [each for each in others if (each[0].path, each[1].name) not in known]


def understood(tables: Sequence[SentTable], choice: StartChoice) -> Understood:
    """What they are for, with what somebody has chosen."""
    looks = {place: each.look for place, each in enumerate(tables) if each.look is not None}
    label: str | None = None
    within = None
    if choice.label == NO_LABELS:
        label = ""
    elif choice.label:
        upload_id, _, label = choice.label.partition(":")
        within = next((each.upload.path for each in tables if each.upload.id == upload_id), None)
    try:
        changed = [as_changed(look, choice.change(place)) for place, look in looks.items()]
        roles = roles_of(changed, label, within=within, window=choice.window)
    except BadArgument as error:
        guessed = roles_of(list(looks.values()))
        return Understood(tables=tables, roles=guessed, choice=choice, fault=str(error))
    return Understood(tables=tables, roles=roles, choice=choice)


def holds_of(step: Step) -> Holds:
    """What the file of a step is taken as."""
    return _HOLDS[step.words[0]]


def edge_choice(step: Step) -> EdgeChoice:
    """Columns of a file of edges."""
    said = step.options
    n_bad_rows = min(int(said.get("skip-bad-rows") or 0), MAX_BAD_ROWS)
    if not said.keys() & {"src", "via"}:  # each row names the kinds of its ends
        has_relations = "relation" in step.role.table.columns
        return EdgeChoice(
            src="src",
            dst="dst",
            src_kind_column="src_kind",
            dst_kind_column="dst_kind",
            relation_column="relation" if has_relations else "",
            weight=step.role.weight or "",
            time=said.get("time") or "",
            max_bad_rows=n_bad_rows,
        )
    if "via" in said:
        kind, entity = split_column(said["entity"] or "")
        return EdgeChoice(
            src=entity,
            src_kind=kind,
            via=said["via"] or "",
            weight=said.get("weight") or "",
            time=said.get("time") or "",
            is_data=_is_data(step),
            max_bad_rows=n_bad_rows,
        )
    src_kind, src = split_column(said["src"] or "")
    dst_kind, dst = split_column(said["dst"] or "")
    return EdgeChoice(
        src=src,
        dst=dst,
        src_kind=src_kind,
        dst_kind=dst_kind,
        relation=said.get("relation") or "",
        directed="directed" in said,
        weight=said.get("weight") or "",
        time=said.get("time") or "",
        is_data=_is_data(step),
        max_bad_rows=n_bad_rows,
    )


def feature_choice(step: Step) -> FeatureChoice:
    """Columns of a table of features, which may be a join of several."""
    said = step.options
    kind, node = ("", NODE) if len(step.roles) > 1 else split_column(said["node"] or "")
    return FeatureChoice(
        node=node, node_kind=kind, without=said.get("without") or "", missing_ids=_missing_ids(step)
    )


def joined(
    uploads: Uploads, graph: GraphRecord, home: ServedHome, step: Step, *, owner: str | None
) -> tuple[Upload, GraphRecord]:
    """The join of a step's tables, and the graph as it is once it is for their kinds of nodes.

    Raises BadFeatures and InvalidArgument as taking the tables does.
    """
    nodes = column_list(step.options["node"], "node")
    for node in nodes:
        with refusing():
            graph = typed_graph(home.database, graph, kinds_named({NODE: node}))
    paths = [role.table.path for role in step.roles]
    name = joined_file([path.name for path in paths])
    upload = uploads.made(name, "features", graph.id, owner=owner)
    try:
        join_tables(
            [NodeTable(path=path, node=node) for path, node in zip(paths, nodes, strict=True)],
            upload.path,
            node_kind=graph.settings.node_ids,
            max_nodes=graph.settings.max_nodes,
            missing_ids=_missing_ids(step),
            limits=home.upload_limits,
        )
    except BaseException:
        upload.remove()
        raise
    return upload, graph


def label_choice(step: Step) -> LabelChoice:
    """Columns of a file of labels."""
    said = step.options
    kind, node = split_column(said["node"] or "")
    no_label, keep_word = said.get("no-label"), said.get("keep-word")
    return LabelChoice(
        node=node,
        node_kind=kind,
        label=said["label"] or "",
        unknown="keep",
        missing_ids=_missing_ids(step),
        no_label=() if no_label is None else (no_label,),
        keep_word=() if keep_word is None else (keep_word,),
        is_data=_is_data(step),
    )


def _missing_ids(step: Step) -> NodelessRows:
    return "leave-out" if "missing-ids" in step.options else "refuse"


def _is_data(step: Step) -> bool:
    return not step.role.table.has_names
