"""The commands of the README and of docs/ run as they stand, and print what the pages say."""

import ast
import doctest
import re
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.end_to_end.pages import FENCE, PAGES, SECTION, read, run_in_bash, sections, session
from tests.end_to_end.processes import REPOSITORY, Home, Server
from tests.service.live_sources.topics import mock_cluster

IN_BASH = {
    *(
        "accounts",
        "agents",
        "agreement",
        "commands",
        "decisions",
        "delta",
        "erase",
        "http",
        "iceberg",
        "kafka",
        "knn",
        "labelstudio",
        "map",
    ),
    *(
        "papers",
        "points",
        "relation_windows",
        "retract",
        "scans",
        "spam",
        "tables",
        "verdicts",
        "window",
        "words",
    ),
}
IN_PYTHON = {
    *("anndata", "bridges", "estimators", "features_by_name", "filtered", "networkx"),
    *("nodes", "notebook", "on_graph", "python", "tables_of_relations"),
}


def run(section: str, home: Home, directory: Path, **environment: str) -> None:
    """Run a section in one shell, with the program of the home."""
    programs = f"{Path(home.program[0]).parent}:{Path(sys.executable).parent}"
    path = f"{programs}:{home.environment['PATH']}"
    run_in_bash(section, directory, home.environment | {"PATH": path} | environment)


def test_every_section_has_a_name_of_its_own_and_is_run() -> None:
    assert sorted(name for name, _ in sections()) == sorted(IN_BASH | IN_PYTHON)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_blocks_to_run_stand_in_sections(page: Path) -> None:
    outside = [kind for kind, _ in FENCE.findall(SECTION.sub("", read(page)))]
    assert not {"bash", "pycon"} & set(outside)


@pytest.fixture
def curl() -> None:
    try:
        subprocess.run(["curl", "--version"], check=True, stdout=subprocess.DEVNULL)
    except FileNotFoundError:
        pytest.skip("needs curl 7.82 or newer; install it with the system's package manager")


def test_features_become_a_graph(home: Home, tmp_path: Path) -> None:
    run("knn", home, tmp_path)
    run("points", home, tmp_path)


def test_sparse_features_need_no_edges(home: Home, tmp_path: Path) -> None:
    run("words", home, tmp_path)


def test_suggested_scans_are_labeled(home: Home, tmp_path: Path) -> None:
    run("scans", home, tmp_path)


def test_tables_become_a_ranked_list(home: Home, tmp_path: Path) -> None:
    run("tables", home, tmp_path)


def test_an_agent_is_given_tools(home: Home, tmp_path: Path) -> None:
    run("agents", home, tmp_path)


def test_a_node_is_forgotten(home: Home, tmp_path: Path) -> None:
    run("erase", home, tmp_path)


@pytest.mark.parametrize(
    "section",
    [
        "accounts",
        "agreement",
        "delta",
        "labelstudio",
        "map",
        "papers",
        "relation_windows",
        "retract",
        "spam",
        "verdicts",
        "window",
    ],
)
def test_walks_need_nothing_but_what_they_make(home: Home, tmp_path: Path, section: str) -> None:
    run(section, home, tmp_path)


@pytest.mark.skipif(find_spec("pyiceberg") is None, reason="needs the extra iceberg")
def test_a_table_of_a_catalog_is_followed(home: Home, tmp_path: Path) -> None:
    run("iceberg", home, tmp_path)


@pytest.mark.parametrize(("section", "topic"), [("kafka", "friends"), ("decisions", "decisions")])
def test_a_topic_is_followed(home: Home, tmp_path: Path, section: str, topic: str) -> None:
    with mock_cluster() as cluster:
        cluster.create(topic)
        run(section, home, tmp_path, BROKERS=cluster.servers)


def text(node: ast.AST) -> str:
    """The text of a string, with … for what differs each time; empty for all else."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text(part) or "…" for part in node.values)
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return node.value if is_text else ""


def messages() -> list[str]:
    """All texts of the program; an error may come in two, its argument and the rule."""
    found = []
    for package in ("service", "streaming", "solvers"):
        for path in (REPOSITORY / package).rglob("*.py"):
            for node in ast.walk(ast.parse(read(path))):
                arguments = node.args if isinstance(node, ast.Call) else []
                found += [text(node), " ".join(filter(None, map(text, arguments)))]
    return found


def test_what_troubleshooting_explains_is_what_the_program_says() -> None:
    page = read(REPOSITORY / "docs" / "how-to" / "troubleshoot.md")
    quoted = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert len(quoted) > 8
    said = messages()
    for message in quoted:
        parts = [part for part in message.split("…") if part.strip()]
        assert any(all(part in each for part in parts) for each in said), message


def test_http_session(curl: None, server: Server, tmp_path: Path) -> None:
    run("http", server.home, tmp_path, PEEWIT_URL=server.url)


def run_python(section: str) -> None:
    """Run the sessions of a section, which go on from each other, as doctest does."""
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(doctest.DocTestParser().get_doctest(session(section), {}, section, None, 0))
    assert runner.tries > 5
    assert runner.failures == 0


@pytest.mark.filterwarnings("ignore:job .* each class has one label")
def test_client_session(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PEEWIT_URL", server.url)
    run_python("python")


@pytest.mark.parametrize("section", sorted(IN_PYTHON - {"anndata", "python"}))
def test_notebook_session(section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_python(section)


@pytest.mark.skipif(find_spec("anndata") is None, reason="needs anndata")
def test_cells_session(processes: None) -> None:  # anndata's h5py starts one where it is imported
    run_python("anndata")


def test_demo_serves_and_leaves_files_for_the_five_commands(
    real_home: Home, tmp_path: Path
) -> None:
    directory = tmp_path / "peewit-data" / "demo"
    demo = Server(real_home, "demo", "--dir", directory, "--serve")
    assert demo.client.prediction("digits", "digit-0042").prediction.label == 1
    demo.process.send_signal(signal.SIGTERM)
    assert demo.process.wait(timeout=60) == 0
    assert not (real_home.directory / "peewit.db").exists()
    run("commands", real_home, tmp_path)
