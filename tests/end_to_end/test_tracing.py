"""One trace from a caller through request, queue and worker, at a collector over HTTP."""

import gzip
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from peewit.service.client import Client, Unauthorized
from tests.end_to_end.processes import REPOSITORY, Home, Server, eventually
from tests.service.client.conftest import edge_table

CALLER = trace.SpanContext(
    trace_id=0x1234567890ABCDEF1234567890ABCDEF,
    span_id=0x1234567890ABCDEF,
    is_remote=False,
    trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED),
)
GRAPH = "nobody-may-know"


@dataclass
class Collector:
    """Spans that came, in the order in which they came."""

    url: str
    spans: list[Any] = field(default_factory=list)
    resources: list[dict[str, str]] = field(default_factory=list)

    def named(self, name: str) -> list[Any]:
        """Spans of a name, each once: what was not seen to arrive is sent again."""
        return list({each.span_id: each for each in self.spans if each.name == name}.values())

    def only(self, name: str) -> Any:
        named = self.named(name)
        assert len(named) == 1, [attributes(each) for each in named]
        return named[0]

    def below(self, span: Any) -> dict[str, Any]:
        """Spans below another, by their names."""
        return {each.name: each for each in self.spans if each.parent_span_id == span.span_id}


def attributes(span: Any) -> dict[str, Any]:
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes
    }


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector that takes OTLP over HTTP, in protobuf."""
    found = Collector(url="")

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            for each in ExportTraceServiceRequest.FromString(body).resource_spans:
                found.resources.append(attributes(each.resource))
                found.spans += [span for scope in each.scope_spans for span in scope.spans]
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_request_and_job_are_one_trace_and_ingest_makes_no_spans(
    compiled: None, collector: Collector, tmp_path: Path
) -> None:
    home = Home(
        tmp_path / "home",
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        OTEL_BSP_SCHEDULE_DELAY="100",
        OTEL_SERVICE_NAME="labels",
    )
    log = tmp_path / "log"
    try:
        with log.open("w") as stderr:
            peewit = Server(home, stderr=stderr).client
            peewit.create_graph(GRAPH, seed=1)
            with trace.use_span(trace.NonRecordingSpan(CALLER)):
                peewit.push_edges(GRAPH, edge_table(), wait=60)
                peewit.put_labels(GRAPH, {"n3": "left", "n33": "right"})
                job = peewit.submit_solve(GRAPH, "stable-hfs")
            assert peewit.wait(job, timeout=120).status == "succeeded"
            with pytest.raises(Unauthorized), Client(peewit.url, api_key="a.b") as stranger:
                stranger.graphs()
            eventually(lambda: collector.named("job solve"))
    finally:
        home.end()

    caller = CALLER.span_id.to_bytes(8)
    pushed = collector.only("POST /v1/graphs/{graph}/edges")
    labeled = collector.only("PUT /v1/graphs/{graph}/labels")
    submitted = collector.only("POST /v1/graphs/{graph}/jobs")
    assert {each.parent_span_id for each in (pushed, labeled, submitted)} == {caller}
    solved = collector.only("job solve")
    assert solved.parent_span_id == submitted.span_id
    assert collector.below(pushed) == {}
    stages = collector.below(solved)
    names = ["queued", "capturing", "loading", "preparing", "solving", "judging", "writing"]
    names.append("publishing")
    assert sorted(stages, key=lambda name: stages[name].start_time_unix_nano) == names
    trace_id = CALLER.trace_id.to_bytes(16)
    assert {each.trace_id for each in (*stages.values(), solved, pushed, submitted)} == {trace_id}
    for each in stages.values():
        assert solved.start_time_unix_nano <= each.start_time_unix_nano
        assert each.end_time_unix_nano <= solved.end_time_unix_nano
    told = attributes(solved)
    assert told["peewit.job.id"] == job.id
    assert (told["peewit.model"], told["peewit.job.outcome"]) == ("stable-hfs", "succeeded")
    assert attributes(submitted)["http.response.status_code"] == 202
    assert {each["service.name"] for each in collector.resources} == {"labels"}
    assert {each["peewit.role"] for each in collector.resources} == {"api", "worker"}
    everything = "".join(map(str, collector.spans))
    for secret in (GRAPH, "left", "n33", "a.b", str(home.directory)):
        assert secret not in everything, secret
    assert collector.named("GET /readyz") == []

    lines = [json.loads(each) for each in log.read_text().splitlines()]
    ours = [each["event"] for each in lines if each.get("trace_id") == f"{CALLER.trace_id:032x}"]
    assert {"request", "job submitted", "attempt started", "attempt ended"} <= set(ours)


def test_without_a_collector_nothing_is_loaded_or_kept(home: Home) -> None:
    script = (
        "import sys\n"
        "from peewit.service.tracing.spans import span, start_tracing, traceparent\n"
        "import peewit.service.api.app, peewit.service.client, peewit.service.worker.worker\n"
        "start_tracing('api')\n"
        "with span('anything', kind='x') as opened:\n"
        "    assert (opened, traceparent()) == (None, None)\n"
        "heavy = ('opentelemetry.sdk', 'opentelemetry.exporter')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=REPOSITORY,
        env=home.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "must be http/protobuf, got 'grpc'"),
        ("OTEL_BSP_SCHEDULE_DELAY", "soon", ""),
    ],
)
def test_settings_that_cannot_be_followed_stop_no_command(
    home: Home, variable: str, value: str, said: str
) -> None:
    home.environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", variable: value}
    process = home.start("graph", "list", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert said in err
