"""The commands of the README and of docs/ run as they stand, and print what the pages say."""

import ast
import doctest
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.end_to_end.processes import REPOSITORY, Home, Server
from tests.service.live_sources.topics import mock_cluster

PAGES = (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md")))
SECTION = re.compile(r"<!-- run: (\w+) -->\n(.*?)<!-- end -->", re.DOTALL)
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MARK = "@@ next @@"

IN_BASH = {
    *(
        "accounts",
        "agents",
        "agreement",
        "commands",
        "decisions",
        "delta",
        "erase",
        "forgetting",
        "http",
        "iceberg",
        "kafka",
        "knn",
        "labelstudio",
        "map",
    ),
    *("papers", "points", "retract", "scans", "spam", "verdicts", "window", "words"),
}
IN_PYTHON = {
    *("bridges", "estimators", "filtered", "networkx"),
    *("nodes", "notebook", "python"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Some lines of bash and what they print; … stands for anything on a line or lines."""

    commands: str
    printed: str


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def sections() -> list[tuple[str, str]]:
    """What stands between ``<!-- run: NAME -->`` and ``<!-- end -->`` on all pages, by name."""
    return [found for page in PAGES for found in SECTION.findall(read(page))]


def fences(name: str) -> list[tuple[str, str]]:
    """Kind and text of each block of a section."""
    return FENCE.findall(dict(sections())[name])


def steps(section: str) -> list[Step]:
    """The commands of a section, each with its output."""
    found = fences(section)
    kinds = [kind for kind, _ in found]
    assert kinds == ["bash", "text"] * (len(kinds) // 2)
    bodies = [body for _, body in found]
    return [
        Step(commands=commands, printed=printed)
        for commands, printed in zip(bodies[::2], bodies[1::2], strict=True)
    ]


def dense(text: str) -> str:
    """The text with all JSON in it written without spaces between its tokens."""
    return text.strip().replace('": ', '":').replace(', "', ',"')


def run(section: str, home: Home, directory: Path, **environment: str) -> None:
    """Run a section in one shell and compare what each step prints."""
    asked = steps(section)
    script = f"echo '{MARK}'\n".join(step.commands for step in asked)
    programs = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-e", "-u", "-o", "pipefail", "-c", script],
        env=home.environment | {"PATH": f"{programs}:{home.environment['PATH']}"} | environment,
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    for step, printed in zip(asked, done.stdout.split(f"{MARK}\n"), strict=True):
        pattern = ".*?".join(re.escape(part) for part in dense(step.printed).split("…"))
        assert re.fullmatch(pattern, dense(printed), re.DOTALL), (
            f"{step.commands}\nprinted\n{printed}\nand the page says\n{step.printed}"
        )


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
        "forgetting",
        "labelstudio",
        "map",
        "papers",
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
    session = "\n".join(body for _, body in fences(section))
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(doctest.DocTestParser().get_doctest(session, {}, section, None, 0))
    assert runner.tries > 5
    assert runner.failures == 0


def test_client_session(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PEEWIT_URL", server.url)
    run_python("python")


@pytest.mark.parametrize("section", sorted(IN_PYTHON - {"python"}))
def test_notebook_session(section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_python(section)


def test_demo_serves_and_leaves_files_for_the_five_commands(home: Home, tmp_path: Path) -> None:
    directory = tmp_path / "peewit-data" / "demo"
    demo = Server(home, "demo", "--dir", directory, "--serve")
    assert demo.client.prediction("digits", "digit-0042").prediction.label == 1
    demo.process.send_signal(signal.SIGTERM)
    assert demo.process.wait(timeout=60) == 0
    assert not (home.directory / "peewit.db").exists()
    run("commands", home, tmp_path)
