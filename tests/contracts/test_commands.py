"""One suite over all commands: what is typed arrives, and what breaks a rule is told alike."""

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import TypeAdapter

from peewit.service.catalog import Catalog
from peewit.service.cli.edges import features
from peewit.service.cli.solving import submission
from peewit.service.database.engine import open_database
from peewit.service.graph_settings import AutoSolve, GraphSettings, SnapshotEvery
from peewit.service.inbox.source_store import SourceStore
from peewit.service.operations.declaration import Header, Operation, Table
from peewit.service.operations.which import Which
from peewit.service.tasks.job_kind import Kind
from peewit.service.tasks.solving.estimate import Estimator
from peewit.streaming.edges.windows import Window
from peewit.streaming.features.encoding import ColumnWishes
from tests.contracts.test_doors import COMMANDS, OPERATIONS, chosen, typed, values_of
from tests.fresh_databases import fresh
from tests.goldens.command_words import commands
from tests.service.cli.conftest import Peewit, home, peewit

__all__ = ["home", "peewit"]

SHOWN: Final = {"details", "json", "output", "safe_csv", "wait", "yes", "dry_run", "config"}
"""Options that say how an answer is shown, or whether it is meant; sessions print them."""

SURROUNDINGS: Final = {"host", "port", "workers", "threads", "memory_limit", "metrics_port"}
"""Options in place of settings of the environment."""

ELSEWHERE: Final[Mapping[str, set[str]]] = {
    "try": {"label", "name", "directory"}
    | {"use", "kind", "relation", "directed", "undirected", "window"},
    "demo": {"directory", "serve"},
    "graph export": {"snapshot"},
    "graph set": {"clock_right"},
    "features": {"add", "join"},
    "ingest": {"dask", "follow", "scheduler", "directed", "dry"},
    "labels list": {"label", "annotator", "label_column", "n_labels"},
    "labels export": {"label_column"},
    "labels put": {"as_opinions"},
    "source add": {"directed"},
    "delete": {"edges", "src", "dst", "quote", "relation"},
    "labelstudio tasks": {"strategy", "n_nodes", "classes", "label_column"},
    "labelstudio labels": {"classes", "control", "label_column"},
    "retract": {"inserts_only"},
    "predictions": {"sort", "reverse", "top", "unlabeled", "unproven"}
    | {"positive", "threshold", "coverage"},
    "predict": {"job", "label_column", "from_libsvm", "zero_based"},
    "watch": {"every"},
    "mcp": {"url"},
    "key create": {"scope"},
    "restore": {"erasures"},
    "doctor": {"repair"},
}
"""Those of commands that do the work themselves: their own tests see what becomes of it."""

COLUMNS: Final = (
    "--src u --dst v --weight w --op o --time t --relation r --time-unit ms --time-format %Y "
    "--quote none --missing-ids keep --skip-bad-rows 3 --replace --again"
)
EVENTS: Final = "--entity account:who --via device:device,ip"
KINDS_OF_ROWS: Final = "--src u --dst v --src-kind-column k --dst-kind-column l --relation-column r"
NAMED: Final = {
    "columns": {"src": "u", "dst": "v", "weight": "w", "op": "o", "time": "t", "relation": "r"}
    | {"time_unit": "ms", "time_format": "%Y", "quote": "none", "missing_ids": "keep"},
    "max_bad_rows": 3,
    "replaces": True,
    "again": True,
}
OF_EVENTS: Final = {"columns": {"entity": "account:who", "via": "device:device,ip"}}
OF_ROWS: Final = {
    "columns": {"src": "u", "dst": "v", "src_kind_column": "k", "dst_kind_column": "l"}
    | {"relation_column": "r"}
}
SOLVE: Final = "--model stable-hfs --set graph_penalty=2 --label-column hue"
SOLVED: Final[dict[str, Any]] = {
    "model": "stable-hfs",
    "parameters": {"graph_penalty": 2, "label_column": "hue"},
}
CHANGED: Final = (
    "--epsilon .5 --max-edges 700 --no-keep-raw --parallel replace --window 5d --allowed-ahead 2h "
    "--relation-windows card=none --snapshot-edges 9 --snapshot-seconds 8 --auto-solve stable-hfs "
    "--set graph_penalty=2 --column src=from --answers account,card --directed pay"
)
SETTINGS: Final[dict[str, Any]] = {
    "epsilon": 0.5,
    "max_edges": 700,
    "keep_raw": False,
    "parallel": "replace",
    "deletions": "exact",
    "snapshot_every": {"edges": 9, "seconds": 8},
    "auto_solve": {"model": "stable-hfs", "parameters": {"graph_penalty": 2}},
    "columns": {"src": "from"},
    "answers": ("account", "card"),
    "directed": ("pay",),
}
LINES: Final[tuple[tuple[str, Mapping[str, Any]], ...]] = (
    (f"solve g {SOLVE} --priority 3", SOLVED | {"priority": 3}),
    ("solve g --label-column hue --label-column size", {"columns": ["hue", "size"]}),
    (f"estimate g {SOLVE}", SOLVED),
    (
        f"tune g {SOLVE} --folds 3 --grid norm_penalty=1,2".replace("stable-hfs", "lapsvm").replace(
            "graph_penalty=2", "width=2"
        ),
        {
            "model": "lapsvm",
            "parameters": {"width": 2, "label_column": "hue", "folds": 3}
            | {"grid": {"norm_penalty": [1, 2]}},
        },
    ),
    (
        "certify g --snapshot 4 --passes 9 --set gap=.2",
        {"parameters": {"snapshot": 4, "passes": 9, "gap": 0.2}},
    ),
    ("graph filter-features g -o out.csv --teleport .3", {"parameters": {"teleport": 0.3}}),
    (
        (
            "graph knn g --k 3 --weights heat --symmetrize max --metric cosine --width 2 "
            "--method approximate --n-probes 2"
        ),
        {
            "parameters": {"k": 3, "weights": "heat", "symmetrize": "max"}
            | {"metric": "cosine", "width": 2.0, "method": "approximate", "n_probes": 2}
        },
    ),
    (
        (
            f"graph create new {CHANGED} --node-ids typed --expected-nodes 40 --max-nodes 50 "
            "--seed 6 --deletions exact --window-by time --buckets 5 --time-unit ms"
        ),
        SETTINGS
        | {"name": "new", "node_ids": "typed", "expected_nodes": 40, "max_nodes": 50, "seed": 6}
        | {
            "window": {"length": 432_000.0, "by": "time", "width": 86_400.0, "time_unit": "ms"}
            | {"allowed_ahead": 7_200.0, "relations": {"card": None}}
        },
    ),
    (f"graph set typed {CHANGED} --rename other", SETTINGS | {"name": "other"}),
    (
        (
            "graph set full --epsilon 0 --snapshot-edges 0 --snapshot-seconds 0 --auto-solve none "
            "--column src= --answers '' --directed ''"
        ),
        {"epsilon": None, "snapshot_every": None, "auto_solve": None, "columns": {}}
        | {"answers": (), "directed": ()},
    ),
    (f"source add g DIR {COLUMNS} --follow", NAMED | {"follow": True}),
    (f"source add g DIR {EVENTS}", OF_EVENTS),
    (f"source add g DIR {KINDS_OF_ROWS}", OF_ROWS),
    (
        (
            "source add g DIR --kind delta --holds labels --from 4 --node n --label l "
            "--label-column hue --no-replace --once"
        ),
        {"kind": "delta", "holds": "labels", "start": "4", "label_column": "hue"}
        | {"columns": {"node": "n", "label": "l"}, "replaces": False, "again": False},
    ),
    (f"ingest g EDGES {COLUMNS}", NAMED),
    (f"ingest g EDGES {EVENTS}", OF_EVENTS),
    (f"ingest g EDGES {KINDS_OF_ROWS}", OF_ROWS),
    (
        (
            "labels put g EDGES --unknown keep --node n --label l --no-label none --keep-word NA "
            "--contradictions last --quote none --origin random --annotator ann --time-column t "
            "--origin-column o --annotator-column a --missing-ids leave-out"
        ),
        {"unknown": "keep", "node": "n", "label": "l", "no_label": ["none"], "keep_word": ["NA"]}
        | {"contradictions": "last", "quote": "none", "origin": "random", "annotator": "ann"}
        | {"time_column": "t", "origin_column": "o", "annotator_column": "a"}
        | {"missing_ids": "leave-out"},
    ),
    (
        "labels put g EDGES --label-column hue --label-column size",
        {"label_columns": ["hue", "size"]},
    ),
    (
        "features g EDGES --node who --text a,b --without c --missing-ids leave-out",
        {"node": "who", "texts": ("a", "b"), "without": ("c",), "missing_ids": "leave-out"},
    ),
    ("features g EDGES --from-libsvm --zero-based", {"is_libsvm": True, "zero_based": True}),
    ("predictions g --model hfs --label-column hue", {"model": "hfs", "label_column": "hue"}),
    ("predictions g --job abcdef", {"job": "abcdef"}),
)
"""What is typed, and what must arrive."""

REFUSED: Final = (
    ("graph create new --set graph_penalty=1", 2, "--set needs --auto-solve"),
    ("graph create new --auto-solve stable-hfs --set nonsense", 2, "must read NAME=VALUE"),
    ("graph create new --auto-solve nobody", 2, "model must be"),
    ("graph create new --window soon", 2, "must be seconds"),
    ("graph create new --window-by arrival", 2, "--window-by needs --window"),
    ("graph create new --relation-windows card=none", 2, "--relation-windows needs --window"),
    ("expire g --before tomorrow", 2, "must be ISO 8601"),
    ("tune g --folds 1", 2, "folds must be"),
    ("tune g --grid norm_penalty", 2, "must read NAME=V1,V2,..."),
    ("tune g --model poisson", 2, "grid must name settings"),
    ("graph knn g --k 0", 2, "k must be"),
    ("graph knn g --weights gauss", 2, "'gauss' is not one of"),
    ("certify g --set speed=3", 2, "has no parameter 'speed'"),
    ("estimate g --model lapsvm --set width=-1", 2, "width must be"),
    ("graph filter-features g -o f.csv --teleport 0", 2, "teleport must lie in"),
    ("ingest", 2, "give the NAME"),
    ("ingest g --follow", 2, "takes no NAME"),
    ("ingest g EDGES --threads 0", 2, "--threads"),
    ("ingest g EDGES --via device", 1, "entity must name the column that is joined with via"),
    ("ingest g EDGES --entity who", 1, "via must name the columns joined with entity 'who'"),
    ("source add g DIR --kind stream", 1, "kind must be one of files, delta, iceberg, kafka"),
    ("source add g DIR --kind delta --from soon", 1, "must be the number of a version"),
    ("source add g DIR --holds labels", 1, "put them by `peewit labels put`"),
    ("labels put g none.csv", 2, "does not exist"),
    ("labels put g edges/table.xls", 2, "must end in one of"),
    ("features g edges/table.xls", 2, "must end in one of"),
)
"""What is typed, the exit code, and what people are told."""


class Arrived(Exception):
    """Ends a command where its work would begin, and tells by what values."""

    def __init__(self, **values: Any) -> None:
        super().__init__(repr(values))
        self.values = values


@pytest.fixture
def arriving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands end where their values arrive."""

    def arrive(_self: Any, *_given: Any, **values: Any) -> None:
        raise Arrived(**values)

    def run(_operation: Any, _call: Any, _here: Any, _graph: Any, values: Any) -> None:
        raise Arrived(**values)

    def create(_catalog: Catalog, settings: GraphSettings) -> None:
        raise Arrived(**asdict(settings))

    def update(catalog: Catalog, graph_id: str, change: Any, **_further: Any) -> None:
        create(catalog, change(catalog.get_by_id(graph_id).settings))

    def estimate(_self: Any, _graph: Any, model: str, parameters: Any) -> None:
        raise Arrived(model=model, parameters=parameters)

    def submit_columns(_home: Any, _graph: Any, columns: Any, **values: Any) -> None:
        raise Arrived(columns=columns, **values)

    def opened(which: Which, *_given: Any) -> None:
        raise Arrived(**asdict(which))

    def path_blocks(*_given: Any, wishes: ColumnWishes, **values: Any) -> None:
        raise Arrived(**values, **asdict(wishes))

    monkeypatch.setattr(Operation, "_run", run)
    monkeypatch.setattr(Kind, "spec", arrive)
    monkeypatch.setattr(Catalog, "create", create)
    monkeypatch.setattr(Catalog, "update", update)
    monkeypatch.setattr(SourceStore, "add", arrive)
    monkeypatch.setattr(Estimator, "estimate", estimate)
    monkeypatch.setattr(submission, "submit_columns", submit_columns)
    monkeypatch.setattr(Which, "open", opened)
    monkeypatch.setattr(features, "path_blocks", path_blocks)


@pytest.fixture
def place(
    peewit: Peewit, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: Path
) -> Path:
    """A folder with a file of edges, beside a home of three graphs."""
    shutil.copytree(shared, home, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges").mkdir()
    (tmp_path / "edges" / "edges.csv").write_text("src,dst\na,b\n")
    (tmp_path / "edges" / "table.xls").touch()
    return tmp_path


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of three graphs: one plain, one of kinds of nodes, one with all settings."""
    directory = tmp_path_factory.mktemp("shared")
    database = open_database(fresh(f"sqlite:///{directory / 'peewit.db'}"))
    catalog = Catalog(database)
    window = Window.of(length=432_000.0)
    catalog.create(GraphSettings(name="g", deletions="exact", window=window))
    catalog.create(GraphSettings(name="typed", node_ids="typed"))
    full = SETTINGS | {
        "snapshot_every": SnapshotEvery(edges=9, seconds=8),
        "auto_solve": AutoSolve(model="stable-hfs", parameters={}),
    }
    catalog.create(GraphSettings(name="full", node_ids="typed", **full))
    database.close()
    return directory


def words_of(line: str) -> list[str]:
    """What is typed, with the files that it means."""
    words = {"DIR": "edges", "EDGES": "edges/edges.csv"}
    return [words.get(word, word) for word in shlex.split(line)]


def values_at(peewit: Peewit, words: list[str]) -> Mapping[str, Any]:
    """What arrives of a line."""
    try:
        done = peewit(*words)
    except Arrived as arrived:
        return arrived.values
    pytest.fail(done.err)


@pytest.mark.usefixtures("arriving", "place")
@pytest.mark.parametrize(("line", "expected"), LINES, ids=[line for line, _ in LINES])
def test_what_is_typed_arrives(peewit: Peewit, line: str, expected: Mapping[str, Any]) -> None:
    values = values_at(peewit, words_of(line))
    assert {name: plain(values[name]) for name in expected} == dict(expected)


def plain(value: Any) -> Any:
    """A value as it is typed in the table."""
    return value.value if isinstance(value, Enum) else value


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("line", "exit_code", "told"), REFUSED, ids=[each[0] for each in REFUSED])
def test_what_breaks_a_rule_is_told(peewit: Peewit, line: str, exit_code: int, told: str) -> None:
    refused = peewit(*words_of(line))
    assert (refused.exit_code, refused.out) == (exit_code, "")
    assert told in " ".join(refused.err.split())


@pytest.mark.usefixtures("arriving", "place")
@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_an_operation_arrives(peewit: Peewit, name: str) -> None:
    operation = OPERATIONS[name]
    values = values_of(operation)
    asked = [each for each in operation.parameters if not isinstance(each.mark, Header)]
    values |= {each.name: chosen(each.kind) for each in asked if each.name not in values}
    arrived = values_at(peewit, typed(operation, "g", values))
    for each in asked:
        if not isinstance(each.mark, Table):
            expected = TypeAdapter(each.kind).validate_python(values[each.name])
            assert arrived[each.name] == expected, each.name


def test_every_option_of_a_command_is_in_a_table() -> None:
    typed_ones = [shlex.split(line) for line, _ in LINES]
    left = {}
    for words, command in commands():
        if words in COMMANDS.values():
            continue
        said = {
            word.partition("=")[0]
            for line in typed_ones
            if line[: len(words.split())] == words.split()
            for word in line
        }
        own = {
            each.name
            for each in command.params
            if each.param_type_name == "option" and said.isdisjoint(each.opts + each.secondary_opts)
        }
        own -= SHOWN | SURROUNDINGS | ELSEWHERE.get(words, set()) | {"help", "until_stdin_ends"}
        if own:
            left[words] = own
    assert left == {}, "say in a line what arrives of them"
