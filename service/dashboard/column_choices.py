"""Column choices: the role of each column of a file, as the address of its page has it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, Query
from fastapi.exceptions import RequestValidationError
from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from peewit.service.catalog import GraphRecord
from peewit.service.dashboard.proposed_names import proposed_kinds
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.inbox.feature_log import SetMode
from peewit.service.inbox.source_store import MAX_BAD_ROWS
from peewit.service.labels.label_entry import UnknownNodesRule
from peewit.service.tables.table_heads import TableHead
from peewit.service.tables.uploads.givers import ANNOTATOR, LABEL_TIME, ORIGIN, TIME, USUAL_NAMES
from peewit.service.tables.uploads.label_columns import MAX_COLUMN_BYTES
from peewit.service.tables.uploads.label_words import LabelWords
from peewit.service.wire.labels import origin_named
from peewit.streaming.edges.column_mapping import COLUMN_NAMES, EdgeColumns, obvious_ends
from peewit.streaming.edges.node_kinds import KIND, named_column, split_column
from peewit.streaming.edges.reading_options import Contradictions, NodelessRows, Quote
from peewit.streaming.edges.relations import KIND_COLUMNS

Name = Annotated[str, Query(max_length=1000)]
Quoting = Annotated[
    Quote | None,
    BeforeValidator(lambda quote: quote or None),  # browsers send empty fields, too
    Query(),
]
Words = Annotated[
    tuple[Annotated[str, Field(max_length=1000)], ...],
    BeforeValidator(lambda words: tuple(filter(None, words))),  # browsers send empty fields, too
    Query(max_length=100),
]

Kind = Annotated[str, Query(max_length=63, pattern=rf"^({KIND.pattern})?$")]

_NODE_NAMES = ("node", "id", "node_id", "name", "user", "account")
_LABEL_NAMES = ("label", "class", "target", "y", "category")


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeChoice:
    """Columns of a file of edges, each empty where there is none, and how it is read."""

    src: Name = ""
    dst: Name = ""
    src_kind: Kind = ""  # of the nodes
    dst_kind: Kind = ""
    src_kind_column: Name = ""  # of the kind of each row's node, which goes before one of all
    dst_kind_column: Name = ""
    weight: Name = ""
    op: Name = ""
    time: Name = ""
    relation: Name = ""  # of all rows
    directed: bool = False  # whether its edges go from src to dst
    relation_column: Name = ""
    via: Name = ""  # columns of events, with commas between, which src is joined with
    max_bad_rows: Annotated[int, Query(ge=0, le=MAX_BAD_ROWS)] = 0  # may be left out
    quote: Quoting = None
    is_data: Annotated[bool, Query(alias="first_line_is_data")] = False

    @property
    def named(self) -> dict[str, str]:
        """The chosen columns by argument, as sources and calls take them."""
        names = *COLUMN_NAMES, "relation_column", *KIND_COLUMNS
        return {name: value for name in names if (value := getattr(self, name))}

    @property
    def reading(self) -> dict[str, str]:
        """The chosen columns, and how text is read, as sources and calls take both."""
        ends = {
            "src": "" if self.src_kind_column else self.src_kind,
            "dst": "" if self.dst_kind_column else self.dst_kind,
        }
        said = {
            name: named_column(ends[name], each) if name in ends else each
            for name, each in self.named.items()
        }
        if self.via:
            entity = {"entity": said.pop("src")} if self.src else {}
            said = {**entity, "via": self.via, **said}
        more = {"relation": self.one_relation or None, "quote": self.quote}
        return said | {name: each for name, each in more.items() if each is not None}

    @property
    def one_relation(self) -> str:
        """The relation of all rows, which was proposed, unless columns say those of each."""
        return "" if self.relation_column or self.via else self.relation

    @property
    def is_complete(self) -> bool:
        """Whether both ends are chosen, or the entity of events and their columns."""
        return bool(self.src and (self.dst or self.via))

    @property
    def given(self) -> dict[str, Any]:
        """The choice as query parameters."""
        return _in_address(self)

    @classmethod
    def typed(cls, form: Mapping[str, str], graph: GraphRecord) -> "EdgeChoice":
        """The choice in a form, where columns may be left out that are called as in the graph."""
        names = {each.name for each in fields(cls)}
        try:
            choice = _EDGE_CHOICE.validate_python(
                {name: value.strip() for name, value in form.items() if name in names and value}
            )
        except ValidationError as error:
            raise RequestValidationError(error.errors()) from error
        usual: dict[str, Any] = {
            end: split_column(graph.settings.columns.get(end, end))[1]
            for end in ("src", "dst")
            if getattr(choice, f"{end}_kind") and not getattr(choice, end) and not choice.via
        }
        return replace(choice, **usual)

    @classmethod
    def proposed(
        cls,
        head: TableHead,
        graph: GraphRecord,
        nodes: KnownNodes,
        *,
        is_data: bool,
        quote: Quote | None,
        last: Mapping[str, Any],
        relation: str = "",
    ) -> "EdgeChoice":
        """The last choice if it fits, else a guess by column names, for people to check.

        A ``relation`` is proposed unless a column is called so.
        """
        columns = cls._columns(head, graph, last)
        if relation and not columns.get("relation_column"):
            columns |= {"relation_column": _among(head.names, "relation")}
            columns |= {"relation": "" if columns["relation_column"] else relation}
        src_kind, dst_kind = proposed_kinds(head, graph, nodes, columns["src"], columns["dst"])
        return cls(**columns, src_kind=src_kind, dst_kind=dst_kind, is_data=is_data, quote=quote)

    @classmethod
    def _columns(
        cls, head: TableHead, graph: GraphRecord, last: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The last columns if they are there, else those that seem to be meant."""
        names = head.names
        if last and set(last.values()) <= set(names):
            return {"src": "", "dst": "", **last}
        columns = graph.settings.columns_of_edges
        usual = EdgeColumns(src=columns.get("src", "src"), dst=columns.get("dst", "dst"))
        ends = usual.nodes if set(usual.nodes) <= set(names) else obvious_ends(names)
        if ends is None and len(names) == 2:
            ends = names[0], names[1]
        src, dst = ends or ("", "")
        op, time = (_among(names, columns.get(each, "")) for each in ("op", "time"))
        weight = _among(names, columns.get("weight", "weight"))
        return {"src": src, "dst": dst, "weight": weight, "op": op, "time": time}


_EDGE_CHOICE: Final = TypeAdapter(EdgeChoice)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelChoice:
    """Columns of a file of labels, and how it is read."""

    node: Name = ""
    node_kind: Kind = ""
    label: Name = ""
    origin_column: Name = ""
    annotator_column: Name = ""
    time_column: Name = ""  # heeded where the last of several labels holds
    into: Annotated[str, Query(max_length=MAX_COLUMN_BYTES)] = ""  # the graph's column of labels
    unknown: Annotated[UnknownNodesRule, Query()] = "refuse"
    no_label: Words = ()  # which mean none
    keep_word: Words = ()  # which are labels, though they usually mean none
    missing_ids: Annotated[NodelessRows, Query()] = "refuse"
    contradictions: Annotated[Contradictions, Query()] = "refuse"
    quote: Quoting = None
    is_data: Annotated[bool, Query(alias="first_line_is_data")] = False

    @property
    def words(self) -> LabelWords:
        """Which words mean no label."""
        return LabelWords(no_label=self.no_label, keep_word=self.keep_word)

    def leaving_out(self, word: str) -> dict[str, Any]:
        """Query parameters of the same choice where a word means no label."""
        labels = tuple(each for each in self.keep_word if each.lower() != word.lower())
        return replace(self, no_label=(*self.no_label, word), keep_word=labels).given

    def keeping(self, word: str) -> dict[str, Any]:
        """Query parameters of the same choice where a word is a label."""
        left_out = tuple(each for each in self.no_label if each.lower() != word.lower())
        if not replace(self, no_label=left_out).words.mean_nothing(word):
            return replace(self, no_label=left_out).given
        return replace(self, no_label=left_out, keep_word=(*self.keep_word, word)).given

    @property
    def named(self) -> dict[str, str]:
        """The chosen columns by argument."""
        beside = "origin_column", "annotator_column", "time_column"
        more = {name: value for name in beside if (value := getattr(self, name))}
        return {"node": self.node, "label": self.label, **more}

    @property
    def is_complete(self) -> bool:
        """Whether both columns are chosen."""
        return bool(self.node and self.label)

    @property
    def given(self) -> dict[str, Any]:
        """The choice as query parameters."""
        return _in_address(self)

    @classmethod
    def proposed(
        cls,
        head: TableHead,
        graph: GraphRecord,
        nodes: KnownNodes,
        *,
        into: str,
        is_data: bool,
        quote: Quote | None,
        last: Mapping[str, Any],
    ) -> "LabelChoice":
        """The last choice if it fits, else a guess by column names, for people to check."""
        names, columns = head.names, graph.settings.columns
        if last and {last["node"], last["label"]} <= set(names):
            node, label = last["node"], last["label"]
        else:
            node = _first(names, (columns.get("node", "node"), *_NODE_NAMES))
            label = _first(names, (into, columns.get("label", "label"), *_LABEL_NAMES))
            last = {}
        if len(names) == 2:
            node = node or next((each for each in names if each != label), "")
            label = label or next((each for each in names if each != node), "")
        (node_kind,) = proposed_kinds(head, graph, nodes, node)
        others = [name for name in names if name not in {node, label}]

        def beside(role: str, setting: str, *usual: str) -> str:
            """The last column of a role if it is there, else the graph's, else a usual one."""
            if last.get(role) in others:
                return str(last[role])
            return _first(others, (columns.get(setting, usual[0]), *usual))

        return cls(
            node=node,
            node_kind=node_kind,
            label=label,
            origin_column=_of_origins(head, beside("origin_column", ORIGIN, *USUAL_NAMES[ORIGIN])),
            annotator_column=beside("annotator_column", ANNOTATOR, *USUAL_NAMES[ANNOTATOR]),
            time_column=beside("time_column", LABEL_TIME, *USUAL_NAMES[TIME]),
            into=into,
            is_data=is_data,
            quote=quote,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureChoice:
    """Column of the nodes of a table of features, and what becomes of the features there are."""

    node: Name = ""
    node_kind: Kind = ""
    text: Name = ""  # columns of texts, with commas between
    without: Name = ""  # columns that become no features, with commas between
    missing_ids: Annotated[NodelessRows, Query()] = "refuse"
    mode: Annotated[SetMode, Query()] = "replace"

    @property
    def named(self) -> dict[str, str]:
        """The chosen columns by argument."""
        return {"node": self.node}

    @property
    def given(self) -> dict[str, Any]:
        """The choice as query parameters."""
        return _in_address(self)

    @classmethod
    def proposed(
        cls, head: TableHead, graph: GraphRecord, nodes: KnownNodes, *, last: Mapping[str, Any]
    ) -> "FeatureChoice":
        """The last choice if it fits, else a guess by column names, for people to check."""
        if last and set(last.values()) <= set(head.names):
            node: str = last["node"]
        else:
            columns = graph.settings.columns
            node = _first(head.names, (columns.get("node", "node"), *_NODE_NAMES))
        (node_kind,) = proposed_kinds(head, graph, nodes, node)
        return cls(node=node, node_kind=node_kind)


EdgesChosen = Annotated[EdgeChoice, Depends()]
LabelsChosen = Annotated[LabelChoice, Depends()]
FeaturesChosen = Annotated[FeatureChoice, Depends()]
Choice = TypeVar("Choice", EdgeChoice, LabelChoice)


def at_their_places(choice: Choice, head: TableHead, other: TableHead) -> Choice:
    """A choice whose columns are called as ``head`` calls them, if ``other`` does so now.

    The two heads are of one table, with its first line as names and as data.
    """
    written = dict(zip(other.names, head.names, strict=False))
    moved: dict[str, Any] = {role: written.get(name, name) for role, name in choice.named.items()}
    return replace(choice, **moved)


def _in_address(choice: EdgeChoice | LabelChoice | FeatureChoice) -> dict[str, Any]:
    values = {each.name: getattr(choice, each.name) for each in fields(choice)}
    if values.pop("is_data", False):
        values["first_line_is_data"] = 1
    return {name: value for name, value in values.items() if value not in ("", 0, (), None)}


def _of_origins(head: TableHead, name: str) -> str:
    """A column of a usual name, unless its first rows say other things than origins."""
    place = head.names.index(name) if name else 0
    cells = [row[place] for row in head.rows if row[place]]
    return name if not cells or any(map(origin_named, cells)) else ""


def _among(names: Sequence[str], name: str) -> str:
    return name if name in names else ""


def _first(names: Sequence[str], wanted: Sequence[str]) -> str:
    """The first of the wanted names that a table has, in any case of letters."""
    written: Mapping[str, str] = {name.casefold(): name for name in reversed(names)}
    return next((written[each.casefold()] for each in wanted if each.casefold() in written), "")
