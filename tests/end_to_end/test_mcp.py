"""A real `peewit mcp`, asked by the SDK's client, beside a server and on a home of its own."""

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client as Agent
from mcp import StdioServerParameters
from mcp.types import CallToolResult

from tests.end_to_end.processes import REPOSITORY, Home, Server
from tests.service.client.conftest import edge_table

READS = {
    "list_graphs",
    "show_graph",
    "explain_node",
    "list_predictions",
    "show_job",
    "get_sets",
    "get_abstention",
    "get_doubtful_labels",
    "get_threshold",
}
WRITES = {"suggest_nodes", "put_label", "start_solve"}


@pytest.fixture(scope="module")
def served(compiled: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a graph of two labeled halves, and keys by their scopes."""
    home = Home(tmp_path_factory.mktemp("mcp") / "home")
    try:
        server = Server(home)
        server.client.create_graph("g", seed=1)
        server.client.push_edges("g", edge_table(), wait=None)
        server.client.put_labels("g", {"n3": "left", "n33": "right"})
        yield server
    finally:
        home.end()


def configured() -> Any:
    """The server that the page configures."""
    page = (REPOSITORY / "docs/how-to/agents.md").read_text()
    (block,) = re.findall(r"^```json\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return json.loads(block)["mcpServers"]["peewit"]


@asynccontextmanager
async def agent(home: Home, **environment: str) -> AsyncIterator[Agent]:
    """A client that has started `peewit mcp` as the page says."""
    server = configured()
    assert environment.keys() <= server["env"].keys()
    command = StdioServerParameters(
        command=str(Path(sys.executable).parent / server["command"]),
        args=server["args"],
        env={**home.environment, **environment},
        cwd=REPOSITORY,
    )
    async with Agent(command) as client:
        yield client


async def answer(client: Agent, tool: str, **arguments: Any) -> Any:
    """The fields of an answer, which are also its second text, behind a sentence."""
    found = await client.call_tool(tool, arguments)
    assert not found.is_error, found.content
    sentence, fields = (each.text for each in found.content)
    assert json.loads(fields) == found.structured_content
    assert len(sentence) < 60
    assert not any(name in sentence for name in ("n3", "left", "right"))
    return found.structured_content


async def refusal(client: Agent, tool: str, **arguments: Any) -> str:
    """What a call is refused with."""
    found: CallToolResult = await client.call_tool(tool, arguments)
    assert found.is_error
    (said,) = found.content
    return str(said.text)


def run(session: Callable[[], Awaitable[None]]) -> None:
    anyio.run(session)


def test_an_agent_improves_a_graph_of_a_server(served: Server) -> None:
    async def session() -> None:
        async with agent(served.home, PEEWIT_URL=served.url) as client:
            tools = {each.name: each for each in (await client.list_tools()).tools}
            assert tools.keys() == READS | WRITES
            for name, tool in tools.items():
                assert tool.annotations is not None
                assert tool.annotations.read_only_hint == (name in READS), name
                assert tool.annotations.destructive_hint == (name == "put_label")
                assert len(tool.description or "") < 350
                described = tool.input_schema["properties"].items()
                assert all("description" in schema for _, schema in described), name
                assert tool.output_schema is not None
            graphs = await answer(client, "list_graphs")
            assert [each["name"] for each in graphs["graphs"]] == ["g"]
            before = await answer(client, "show_graph", graph="g")
            assert (before["n_nodes"], before["last_solve"]) == (60, None)
            solve = await answer(client, "start_solve", graph="g", wait_seconds=60)
            assert (solve["status"], solve["n_nodes"]) == ("succeeded", 60)
            assert await answer(client, "show_job", job=solve["job"]) == solve

            found = await answer(client, "suggest_nodes", graph="g", k=4)
            assert (found["origin"], len(found["nodes"])) == ("suggested", 4)
            node = found["nodes"][0]
            put = await answer(client, "put_label", graph="g", node=node, label="left")
            assert put["origin"] == "suggested"
            other = await answer(client, "put_label", graph="g", node="n20", label="left")
            assert (other["origin"], other["labels_seq"]) == ("given", 4)
            stored = served.client.labels("g").to_pylist()
            assert {each["node"]: each["origin"] for each in stored}[node] == "suggested"

            aimed = {"objective": "macro-f1", "class_shares": {"left": 0.25}}
            solve = await answer(
                client, "start_solve", graph="g", parameters=aimed, wait_seconds=60
            )
            assert served.client.job(solve["job"]).parameters.items() >= aimed.items()
            wrong = {"objective": "recall"}
            said = await refusal(client, "start_solve", graph="g", parameters=wrong)
            assert "objective must be 'accuracy' or 'macro-f1', got 'recall'" in said

            assert "409" in await refusal(client, "get_sets", graph="g", coverage=0.9)

            why = await answer(client, "explain_node", graph="g", node="n7")
            assert why["prediction"]["label"] == "left"
            assert why["for_it"][0]["node"] == "n3"
            assert [each["label"] for each in why["best"]] == ["left", "right"]
            seen: list[str] = []
            first = 0
            while first is not None:
                page = await answer(
                    client, "list_predictions", graph="g", label="right", first=first, limit=16
                )
                seen += [each["node"] for each in page["predictions"]]
                first = page["next_first"]
            assert sorted(seen) == sorted(f"n{each}" for each in range(30, 60))
            margin = page["predictions"][0]["margin"]
            doubtful = await answer(client, "list_predictions", graph="g", margin_below=margin)
            assert all(each["margin"] < margin for each in doubtful["predictions"])

            assert "no graph 'nobody'" in await refusal(client, "show_graph", graph="nobody")
            assert "no node 'n999'" in await refusal(client, "explain_node", graph="g", node="n999")
            wrong = await refusal(client, "put_label", graph="g", node="n1", label="middle")
            assert "label must be one of the 2 classes" in wrong
            wrong = await refusal(
                client, "put_label", graph="g", node="n1", label=7, new_class=True
            )
            assert "422" in wrong
            unknown = {"graph": "g", "node": "n999", "label": "left"}
            wrong = await refusal(client, "put_label", **unknown)
            assert "must be known to the graph" in wrong
            assert "unknown=keep" in wrong
            await answer(client, "put_label", **unknown, unknown="keep")
            too_many = await refusal(client, "list_predictions", graph="g", limit=101)
            assert "less than or equal to 100" in too_many
            assert len(served.client.labels("g")) == 5

    run(session)


def test_a_key_does_what_its_scopes_allow(served: Server) -> None:
    keys = {
        scope: served.home.run("key", "create", f"only {scope}", "--scope", scope).split()[-1]
        for scope in ("read", "label")
    }

    async def session() -> None:
        async with agent(served.home, PEEWIT_URL=served.url, PEEWIT_API_KEY=keys["read"]) as client:
            assert (await answer(client, "list_graphs"))["n_graphs"] == 1
            for tool, further in (
                ("suggest_nodes", {}),
                ("put_label", {"node": "n1", "label": "left"}),
                ("start_solve", {}),
            ):
                said = await refusal(client, tool, graph="g", **further)
                assert "must have the scope label" in said
        async with agent(
            served.home, PEEWIT_URL=served.url, PEEWIT_API_KEY=keys["label"]
        ) as client:
            assert "must have the scope read" in await refusal(client, "list_graphs")
            put = await answer(client, "put_label", graph="g", node="n40", label="right")
            assert put["node"] == "n40"
            solve = await answer(client, "start_solve", graph="g", wait_seconds=60)
            assert solve["status"] == "succeeded"
        async with agent(served.home, PEEWIT_URL=served.url) as client:
            assert "Authorization" in await refusal(client, "list_graphs")

    run(session)


def test_an_agent_works_on_a_home_without_a_server(
    compiled: None, home: Home, tmp_path: Path
) -> None:
    edges = tmp_path / "edges.csv"
    edges.write_text("src,dst\na,b\nb,c\nc,a\nc,x\nx,y\ny,z\nz,x\n")
    home.run("graph", "create", "g", "--seed", 1)
    home.run("ingest", "g", edges)

    async def session() -> None:
        async with agent(home) as client:
            # the nodes are located by a job that runs here
            found = await answer(client, "suggest_nodes", graph="g", k=2, strategy="variance")
            assert len(found["nodes"]) == 2
            for node, label in (("a", "abc"), ("y", "xyz")):
                await answer(client, "put_label", graph="g", node=node, label=label)
            solve = await answer(
                client, "start_solve", graph="g", model="stable-hfs", wait_seconds=60
            )
            assert solve["status"] == "succeeded"
            why = await answer(client, "explain_node", graph="g", node="z")
            assert why["prediction"]["label"] == "xyz"

    run(session)


def test_without_the_extra_it_says_what_to_install(home: Home, tmp_path: Path) -> None:
    hidden = tmp_path / "mcp"
    hidden.mkdir()
    (hidden / "__init__.py").write_text("raise ModuleNotFoundError('no mcp', name='mcp')\n")
    home.environment["PYTHONPATH"] = str(tmp_path)
    process = home.start("mcp", stderr=-1)
    assert (
        "install it with `pip install 'peewit[mcp]'`, or in a checkout" in process.communicate()[1]
    )
    assert process.returncode == 1


@pytest.mark.parametrize(
    ("shell", "told"),
    [
        ('exec "$@" <&-', "peewit: peewit mcp must have standard input and output, "),
        ('"$@" < {greeting} | true', ""),
    ],
)
@pytest.mark.usefixtures("processes")
def test_it_ends_in_a_line_where_nobody_speaks_or_reads(
    shell: str, told: str, tmp_path: Path
) -> None:
    greeting = tmp_path / "greeting"
    asked = {"protocolVersion": "2025-06-18", "capabilities": {}}
    asked["clientInfo"] = {"name": "x", "version": "1"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked}
    greeting.write_text(json.dumps(message) + "\n")
    home = Home(tmp_path / "home")
    command = ["sh", "-c", shell.format(greeting=greeting), "sh", *home.program, "mcp"]
    ended = subprocess.run(
        command, env=home.environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stderr.startswith(told)
    assert "Traceback" not in ended.stderr
