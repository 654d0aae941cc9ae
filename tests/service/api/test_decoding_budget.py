"""Bytes of tables that are decoded together: a promise to each, and memory that comes back."""

from pathlib import Path

import anyio
import httpx
import psutil
import pytest

from peewit.service.api.decoding_budget import DecodingBudget
from peewit.service.api.throttling import TooBusy
from tests.end_to_end.processes import Home, Server
from tests.service.api.conftest import CSV

MIB = 1 << 20


def test_no_more_is_held_than_there_is_and_all_have_their_turn_in_order() -> None:
    held = most = 0
    order: list[int] = []

    async def hold(budget: DecodingBudget, n_bytes: int) -> None:
        nonlocal held, most
        async with budget.held(n_bytes):
            order.append(n_bytes)
            held += min(n_bytes, 10)
            most = max(most, held)
            await anyio.sleep(0.001)
            held -= min(n_bytes, 10)

    async def all_of_them() -> None:
        budget = DecodingBudget(10)
        async with anyio.create_task_group() as tasks:
            for n_bytes in wanted:
                tasks.start_soon(hold, budget, n_bytes)

    wanted = [6, 6, 3, 10, 1, 500, 2, 4, 4, 4, 0]
    anyio.run(all_of_them)
    assert order == wanted  # a small one does not pass a large one, which would never have its turn
    assert most == 10


def test_who_waits_too_long_is_sent_away_and_takes_nothing_along() -> None:
    async def wait() -> None:
        budget = DecodingBudget(10, patience_seconds=0.01)
        async with budget.held(6):
            with pytest.raises(TooBusy, match="PEEWIT_MAX_DECODING_BYTES must be kept"):
                async with budget.held(5):
                    pass
            with anyio.move_on_after(0.001):
                async with budget.held(5):
                    pytest.fail("there were 4")
            async with budget.held(4):
                pass
        async with budget.held(10):
            pass

    anyio.run(wait)


def wide(n_columns: int) -> bytes:
    header = ",".join(["node", *(f"c{number}" for number in range(n_columns))])
    return f"{header}\na{',1' * n_columns}\n".encode()


def long(n_rows: int) -> bytes:
    return b"node,x,y,z\n" + b"".join(b"n%d,1,2,3\n" % number for number in range(n_rows))


@pytest.mark.slow
@pytest.mark.usefixtures("processes")
def test_memory_comes_back_after_many_large_uploads(tmp_path: Path) -> None:
    home = Home(tmp_path, PEEWIT_MAX_DECODING_BYTES=str(256 * MIB))
    try:
        server = Server(home, "api")
        server.client.create_graph("g")
        process = psutil.Process(server.process.pid)
        anyio.run(_upload, server, [wide(9_000), long(1_000)], {202})
        before = process.memory_info().rss
        bodies = [wide(100_000), wide(9_999), long(700_000), wide(100_000)] * 4
        anyio.run(_upload, server, bodies[:1], {413})
        codes = anyio.run(_upload, server, bodies, {202, 413, 503})  # 503: no turn while it is busy
        assert 202 not in [*codes[::4], *codes[3::4]]
        kept = process.memory_info().rss - before
        assert kept < 100 * MIB, f"{kept / MIB:.0f} MiB kept"
        anyio.run(_upload, server, [long(1_000)], {202})
    finally:
        home.end()


async def _upload(server: Server, bodies: list[bytes], expected: set[int]) -> list[int]:
    codes = [0] * len(bodies)

    async def send(client: httpx.AsyncClient, place: int, body: bytes) -> None:
        answer = await client.post(
            "/v1/graphs/g/features", content=body, headers={"Content-Type": CSV}
        )
        assert answer.status_code in expected, answer.text
        codes[place] = answer.status_code

    async with (
        httpx.AsyncClient(base_url=server.url, timeout=60) as client,
        anyio.create_task_group() as tasks,
    ):
        for place, body in enumerate(bodies):
            tasks.start_soon(send, client, place, body)
    return codes
