"""Networks and servers that fail: what is tried again, what is not, and what callers are told."""

import json
import pickle
import ssl
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from peewit.service.client import (
    Client,
    GraphExists,
    InvalidArgument,
    Job,
    PeewitError,
    PredictionsNotFound,
    RateLimited,
    Retries,
    ServerFault,
    ServerUnavailable,
    ServerUnreachable,
    errors,
)
from peewit.service.client.calls.common import parsed
from peewit.service.problems import type_of
from tests.service.api.conftest import as_arrow
from tests.service.api.test_errors import server_problems
from tests.service.client.conftest import (
    FailingServer,
    answer,
    edge_table,
    half,
    hang_up,
    until_closed,
)

VERSION = b'{"name": "peewit", "version": "9", "api": "v1", "of_a_newer_server": true}'
PUSH = json.dumps(
    {
        "id": "p",
        "n_rows": 1,
        "n_bytes": 9,
        "idempotency_key": "k",
        "status": "pending",
        "file": None,
    }
).encode()
JOB: dict[str, Any] = {
    "id": "j", "graph_id": "g", "kind": "solve", "model": "hfs", "parameters": {},
    "lane": "fast", "priority": 0, "status": "running", "phase": None, "progress": None,
    "expected_end_at": None, "cancel_requested": False, "attempt": 1,
    "idempotency_key": None, "snapshot": None, "labels_seq": None, "features_version": None,
    "result": None, "error": None, "created_at": "2026-01-01T00:00:00Z", "started_at": None,
    "finished_at": None,
}  # fmt: skip
RUNNING = json.dumps(JOB).encode()
SUCCEEDED = json.dumps(JOB | {"status": "succeeded"}).encode()
TABLE = pa.table({"node": ["a", "b"], "label": ["x", "y"]})
SOURCE = {
    "Peewit_Job": "j", "Peewit_Model": "hfs", "Peewit_Snapshot": "1", "Peewit_Labels_Seq": "2",
    "Peewit_Features_Version": "0", "Peewit_Solver_Status": "converged",
}  # fmt: skip


def problem(status: int, title: str = "Trouble", kind: str = "trouble", **headers: str) -> Any:
    body = {"type": f"urn:peewit:problem:{kind}", "title": title, "status": status, "detail": "no"}
    return answer(status, json.dumps(body).encode(), **headers)


def event(seq: int, kind: str) -> bytes:
    return f'id: {seq}\nevent: {kind}\ndata: {{"at": "now"}}\n\n'.encode()


@pytest.mark.parametrize(
    "failure", [hang_up, half(VERSION), problem(503), answer(502, b"<html>"), problem(429)]
)
def test_read_is_repeated_until_it_succeeds(failing: FailingServer, failure: Any) -> None:
    failing.answers = [failure, failure, answer(200, VERSION)]
    with failing.client() as client:
        assert client.version().version == "9"
    assert len(failing.seen) == 3
    assert failing.seen[0].headers["user-agent"].startswith("peewit-python/")


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (hang_up, ServerUnreachable),
        (problem(503), ServerUnavailable),
        (answer(502, b"<html>"), ServerUnavailable),
        (problem(429, Retry_After="0"), RateLimited),
    ],
)
def test_patience_ends_with_the_last_failure(
    failing: FailingServer, failure: Any, expected: type[PeewitError]
) -> None:
    failing.answers = [failure] * 4
    with failing.client() as client, pytest.raises(expected) as error:
        client.version()
    assert type(error.value) is expected
    assert len(failing.seen) == 4


def test_error_tells_all_that_the_server_says(failing: FailingServer) -> None:
    body = {
        "type": "urn:peewit:problem:invalid-content", "title": "Invalid content", "status": 422,
        "detail": "bad", "argument": "weight", "rule": "weight must be >= 0", "row": 3,
        "value": "-1",
    }  # fmt: skip
    failing.answers = [answer(422, json.dumps(body).encode(), X_Request_ID="r-7")]
    with failing.client() as client, pytest.raises(InvalidArgument) as error:
        client.push_edges("g", edge_table())
    told = error.value
    assert (told.status, told.argument, told.row, told.value) == (422, "weight", 3, "-1")
    assert (told.rule, told.request_id, told.title) == (body["rule"], "r-7", "Invalid content")
    assert str(told) == "Invalid content (422): bad [request r-7]"
    copy = pickle.loads(pickle.dumps(told))  # as pools of processes hand errors on
    assert (str(copy), copy.request_id, copy.row) == (str(told), "r-7", 3)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (answer(500, b"{}"), ServerFault),
        (answer(307, Location="/elsewhere"), ServerFault),
        (answer(200, b"<html>hello</html>"), ServerFault),
        (answer(200, b'{"name": 7}'), ServerFault),
        (answer(404, b"<html>not here</html>"), errors.NotFound),
    ],
)
def test_what_is_no_answer_of_a_peewit_is_told_once(
    failing: FailingServer, reply: Any, expected: type[PeewitError]
) -> None:
    failing.answers = [reply]
    with failing.client() as client, pytest.raises(expected):
        client.version()
    assert len(failing.seen) == 1


def test_retry_after_is_waited_for_and_not_for_ever(failing: FailingServer) -> None:
    failing.answers = [problem(429, Retry_After="1"), answer(202, PUSH)]
    with failing.client() as client:
        assert client.push_edges("g", edge_table()).id == "p"
    failing.answers = [problem(429, Retry_After="3600")]
    with failing.client() as client, pytest.raises(RateLimited) as error:
        client.push_edges("g", edge_table())
    assert error.value.retry_after == 3600
    assert len(failing.seen) == 3


def test_push_is_repeated_whole_with_the_same_key(failing: FailingServer, tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("src,dst\na,b\n")
    for edges in (edge_table(), tmp_path / "edges.csv", edge_table().to_batches()):
        failing.seen.clear()
        failing.answers = [hang_up, problem(503), problem(429), answer(202, PUSH)]
        with failing.client() as client:
            client.push_edges("g", edges)
        assert len({each.headers["idempotency-key"] for each in failing.seen}) == 1
        assert len({each.body for each in failing.seen}) == 1
    assert failing.seen[0].body == as_arrow(edge_table())
    with failing.client() as client:
        failing.answers = [answer(202, PUSH)]
        client.push_edges("g", edge_table())
    assert failing.seen[-1].headers["idempotency-key"] != failing.seen[0].headers["idempotency-key"]


def test_what_ingest_refuses_is_refused_to_those_who_wait(failing: FailingServer) -> None:
    file = {
        "id": 1, "source_id": None, "push_id": "p", "path": "p", "size": 9, "row": 7, "value": "9",
        "status": "quarantined", "reason": "max_nodes must hold", "n_rows": None,
        "left_out": None, "created_at": "2026-01-01T00:00:00Z", "finished_at": None,
    }  # fmt: skip
    refused = json.dumps(json.loads(PUSH) | {"status": "quarantined", "file": file}).encode()
    failing.answers = [answer(202, PUSH), answer(200, PUSH), answer(200, refused)]
    with failing.client() as client, pytest.raises(InvalidArgument, match="max_nodes") as error:
        client.push_edges("g", edge_table(), wait=None)
    assert (error.value.row, error.value.value) == (7, "9")
    features = {
        "id": "s", "mode": "add", "status": "refused", "kind": "dense", "n_rows": 1, "n_columns": 1,
        "features_version": None, "n_new_nodes": None, "reason": "max_nodes must hold", "row": 0,
        "value": "a", "created_at": "2026-01-01T00:00:00Z", "finished_at": None,
    }  # fmt: skip
    failing.answers = [answer(200, json.dumps(features).encode())]
    with failing.client() as client, pytest.raises(InvalidArgument, match="max_nodes") as error:
        client.feature_set("g", "s")
    assert (error.value.row, error.value.value) == (0, "a")


def test_pages_come_as_one_list(failing: FailingServer) -> None:
    pages = [{"jobs": [JOB | {"id": str(n)}], "next_page": next_} for n, next_ in enumerate("ab")]
    pages.append({"jobs": [], "next_page": None})
    failing.answers = [answer(200, json.dumps(page).encode()) for page in pages]
    with failing.client() as client:
        assert [job.id for job in client.jobs(graph="g")] == ["0", "1"]
    asked = [each.path.partition("?")[2] for each in failing.seen]
    assert asked == [
        "graph=g&limit=1000", "graph=g&page=a&limit=1000", "graph=g&page=b&limit=1000"
    ]  # fmt: skip


def test_batches_that_are_gone_are_not_sent_again(failing: FailingServer) -> None:
    failing.answers = [hang_up]
    with failing.client() as client, pytest.raises(ServerUnreachable):
        client.push_edges("g", iter(edge_table().to_batches()))
    assert len(failing.seen) == 1


def test_calls_that_may_have_been_taken_are_not_repeated(failing: FailingServer) -> None:
    rows = pa.table({"node": ["a"], "features": [[1.0]]})
    with failing.client() as client:
        for call in (
            lambda: client.create_graph("g"),
            lambda: client.update_graph("g", epsilon=0.5),
            lambda: client.delete_graph("g"),
            lambda: client.add_features("g", rows),
        ):
            for failure in (hang_up, problem(503)):
                failing.seen.clear()
                failing.answers = [failure]
                with pytest.raises(ServerUnavailable):
                    call()
                assert len(failing.seen) == 1
        failing.answers = [problem(429), problem(409, kind="graph-exists")]
        with pytest.raises(GraphExists):  # it is repeated where the server has taken nothing
            client.create_graph("g")


def test_server_that_is_not_there_is_unreachable() -> None:
    plan = Retries(n_retries=1, first_pause_seconds=0.01)
    with Client("http://127.0.0.1:9", retries=plan) as client:
        with pytest.raises(ServerUnreachable) as error:
            client.create_graph("g")
        assert error.value.status is None
        assert not client.is_alive()
        assert not client.is_ready()


def test_table_that_breaks_off_is_read_again_whole(failing: FailingServer, tmp_path: Path) -> None:
    whole = as_arrow(TABLE)
    failing.answers = [
        half(whole[:200], **SOURCE),
        until_closed(whole[:-8], **SOURCE),
        answer(200, whole, **SOURCE),
    ]
    with failing.client() as client:
        assert client.predictions("g").table.equals(TABLE)
        failing.answers = [half(b"node,la"), answer(200, b"node,label\n")]
        target = client.download_predictions("g", tmp_path / "out.csv")
        assert target.read_text() == "node,label\n"
        failing.answers = [half(b"node,la")] * 4
        with pytest.raises(ServerUnreachable):
            client.download_predictions("g", target)
    assert target.read_text() == "node,label\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_batches_that_were_handed_on_are_not_fetched_again(failing: FailingServer) -> None:
    failing.answers = [hang_up, half(as_arrow(TABLE)[:-8], **SOURCE)]
    with failing.client() as client:
        batches = client.stream_predictions("g")
        assert next(batches).to_pydict() == TABLE.to_pydict()
        with pytest.raises(ServerUnreachable):
            next(batches)
    assert len(failing.seen) == 2


def test_missing_predictions_are_no_stream(failing: FailingServer) -> None:
    failing.answers = [problem(404, kind="predictions-not-found")]
    with failing.client() as client, pytest.raises(PredictionsNotFound):
        next(client.stream_predictions("g"))


def test_events_go_on_behind_the_last_that_came(failing: FailingServer) -> None:
    failing.answers = [
        half(b": still waiting\n\n" + event(1, "submitted") + event(2, "started")[:20]),
        answer(200, RUNNING),
        until_closed(event(2, "started")),
        answer(200, RUNNING),
        hang_up,
        answer(200, event(3, "succeeded")),
    ]
    with failing.client() as client:
        events = list(client.events("j"))
    assert [(each.seq, each.kind) for each in events] == [
        (1, "submitted"), (2, "started"), (3, "succeeded")
    ]  # fmt: skip
    asked = [each.headers["last-event-id"] for each in failing.seen if "events" in each.path]
    assert asked == ["0", "1", "2", "2"]


def test_events_end_with_the_job_though_none_says_so(failing: FailingServer) -> None:
    failing.answers = [answer(200, event(1, "submitted")), answer(200, SUCCEEDED), answer(200)]
    failing.answers.append(answer(200, SUCCEEDED))
    with failing.client() as client:
        assert [each.seq for each in client.events("j")] == [1]


def test_events_of_a_server_that_only_breaks_end_with_an_error(failing: FailingServer) -> None:
    failing.answers = [half(b": "), answer(200, RUNNING)] * 4
    with failing.client() as client, pytest.raises(ServerUnreachable):
        list(client.events("j"))


def test_wait_survives_a_server_that_comes_and_goes(failing: FailingServer) -> None:
    failing.answers = [answer(200, RUNNING), hang_up, problem(503), answer(200, SUCCEEDED)]
    with failing.client() as client:
        assert client.wait("j").status == "succeeded"
    assert [each.path for each in failing.seen[:2]] == ["/v1/jobs/j", "/v1/jobs/j?wait=20.0"]


def test_errors_of_jobs_are_handed_on_by_pools_of_processes() -> None:
    job = parsed(Job, json.dumps(JOB | {"status": "failed", "error": "no labels"}).encode())
    for error in (errors.JobFailed(job), errors.StillWaiting("job j", 3.0)):
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is type(error)
        assert str(copy) == str(error)
    assert "no labels" in str(errors.JobFailed(job))


def test_no_proxy_is_asked_for_a_server_of_this_machine(
    failing: FailingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    failing.answers = [answer(200, VERSION)]
    with failing.client() as client:
        assert client.version().api == "v1"
    for url in ("http://localhost:9", "http://[::1]:9", "https://127.0.0.1:9"):
        Client(url).close()


def test_certificates_are_checked_unless_one_says_otherwise(failing: FailingServer) -> None:
    url = failing.url.replace("http:", "https:")
    with Client(url, retries=Retries(n_retries=0)) as client, pytest.raises(ServerUnreachable):
        client.version()
    with Client(failing.url, verify=ssl.create_default_context()) as client:
        failing.answers = [answer(200, VERSION)]
        assert client.version().api == "v1"


def test_plain_http_reads_no_certificates(
    failing: FailingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(**_options: object) -> None:
        raise LookupError

    monkeypatch.setattr(ssl, "create_default_context", read)
    with failing.client() as client:
        failing.answers = [answer(200, VERSION)]
        assert client.version().api == "v1"
    with pytest.raises(LookupError):
        Client("https://h")


def test_wrong_options_are_refused() -> None:
    with pytest.raises(ValueError, match="url must begin with"):
        Client("peewit.example")
    with pytest.raises(ValueError, match="timeout_seconds must be positive, got 0"):
        Client(timeout_seconds=0)


def test_pauses_grow_and_end() -> None:
    plan = Retries(n_retries=5, first_pause_seconds=1.0, longest_pause_seconds=4.0)
    pauses = [plan.pause_seconds(n_failed, None) for n_failed in range(1, 7)]
    assert pauses[5] is None
    longest = [1.0, 2.0, 4.0, 4.0, 4.0]
    for pause, most in zip(pauses, longest, strict=False):
        assert pause is not None
        assert most / 2 <= pause <= most
    assert all(earlier <= later for earlier, later in pairwise(longest))
    assert plan.pause_seconds(1, 3.0) == 3.0
    assert plan.pause_seconds(1, 5.0) is None


def test_every_problem_of_the_server_has_a_class() -> None:
    kinds = {kind.title: kind.status for kind in server_problems()}
    for title, status in kinds.items():
        found = errors.error_class(status, type_of(title))
        assert found is not PeewitError
        assert found is not ServerFault
    known = {type_of(title).rpartition(":")[2] for title in kinds}
    assert errors._OF_TYPE.keys() <= known
