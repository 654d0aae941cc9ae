"""The run as a whole: start, load, kill, drain, check, replay; and what there is to say of it."""

import json
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from peewit.service.catalog import Catalog
from peewit.service.database.engine import Database, open_database
from peewit.service.inbox.manifest import Manifest
from peewit.service.jobs.job import JobStatus
from peewit.service.jobs.queue import JobQueue
from peewit.service.settings import Settings
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.snapshots.store import SnapshotStore
from tests.end_to_end.crashing.checks import (
    History,
    JobCounts,
    check_auto_solve,
    check_edges,
    check_jobs,
    check_labels,
    check_tables,
    count_jobs,
)
from tests.end_to_end.crashing.cluster import Cluster
from tests.end_to_end.crashing.forgetting import Forgetter
from tests.end_to_end.crashing.forgotten import check_forgotten
from tests.end_to_end.crashing.live_edges import check_live_edges
from tests.end_to_end.crashing.load import (
    ANCHORS,
    AUTO_MODEL,
    EXPORTED,
    GRAPH,
    Asker,
    Client,
    Deleter,
    Dropper,
    Exporter,
    Labeler,
    Pusher,
    Reader,
    first_edges,
)
from tests.end_to_end.crashing.progress import Standing, Watch, missing
from tests.end_to_end.crashing.record import CLASSES, Record
from tests.end_to_end.crashing.replay import check_replay
from tests.end_to_end.crashing.retracting import Replacer, Retractor
from tests.end_to_end.crashing.system import System, tail
from tests.end_to_end.processes import eventually

_Client = TypeVar("_Client", bound=Client)

PROGRESS_SECONDS = 600.0
"""Whoever has not got on by then is stuck, which is a violation."""

DRAIN_SECONDS = 600.0
_AFTER_OUTAGE_SECONDS = 3.0
"""Answers of 503 are allowed so long after the database answers again."""

_LOOK_SECONDS = 0.05
_TELL_SECONDS = 10.0
_FIRST_SECONDS = 600.0
_ORPHAN_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run.

    It ends after so many kills, or after so long. PostgreSQL runs in a cluster of its own, which is
    killed as well. ``is_supervised`` kills `peewit serve` itself. ``deletes`` deletes edges,
    retracts and replaces files and erases nodes as well, in a graph whose deletions are exact.
    """

    database: Literal["sqlite", "postgresql"]
    seed: int
    n_kills: int | None = None
    seconds: float | None = None
    is_supervised: bool = False
    deletes: bool = False


@dataclass(slots=True, kw_only=True)
class Report:
    """What happened, and what must not have."""

    plan: Plan
    directory: Path
    kills: Counter[str] = field(default_factory=Counter)
    n_blows: int = 0
    """Moments of death; at some, two processes die."""
    record: Record = field(default_factory=Record)
    jobs: JobCounts | None = None
    seconds: float = 0.0
    checked: list[str] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)

    @property
    def violations(self) -> list[str]:
        """What must never be."""
        return self.record.violations

    def summary(self) -> str:
        """Figures, a line each."""
        record, jobs = self.record, self.jobs
        batches, edges = record.label_batches, record.edge_batches
        acknowledged = [each for each in batches if each.labels_seq is not None]
        fates = Counter(each.fate for each in edges if each.path is not None)
        lines = {
            "database, seed": f"{self.plan.database}, {self.plan.seed}",
            "deletes": f"{sum(each.deletes for each in edges)} batches; "
            f"files: {_counts(record.retractions) or 'none retracted'}",
            "erasures": f"{len(record.erasures)} acknowledged of "
            f"{sum(len(each.nodes) for each in record.erasures)} nodes, of which "
            f"{record.n_reborn} came again; {record.n_seen_hidden} answers and "
            f"{record.n_searched} times the home looked through",
            "kills": f"{self.kills.total()} in {self.n_blows} blows: {_counts(self.kills)}",
            "labels": f"{sum(each.accepted or 0 for each in acknowledged)} events acknowledged in "
            f"{len(acknowledged)} batches, {len(batches) - len(acknowledged)} without answer",
            "pushes": f"{sum(each.push_id is not None for each in edges)} acknowledged, "
            f"{sum(each.path is None and each.fate == 'unknown' for each in edges)} without answer",
            "files": _counts(fates),
            "jobs asked for": f"{len(record.jobs)} acknowledged, "
            f"{sum(each.is_cancelled for each in record.jobs)} cancelled",
            "all jobs": ""
            if jobs is None
            else f"{_counts(jobs.by_status)}; {jobs.n_repeated} attempts repeated, "
            f"{len(jobs.worn_out)} jobs worn out",
            "whole tables read": f"{record.n_reads} of {len(record.tables)} jobs",
            "requests": f"{record.n_answers} answered ({_counts(record.statuses)}), "
            f"{record.n_broken} broken off",
            "checks": ", ".join(self.checked),
            "seconds": f"{self.seconds:.0f}",
            "violations": str(len(self.violations)),
        }
        return "\n".join(f"{name:18}{value}" for name, value in lines.items())

    def evidence(self) -> str:
        """Violations and the ends of all logs."""
        logs = "".join(f"\n---- {path}\n{tail(path)}" for path in self.logs if path.exists())
        return "\n".join([*self.violations, f"everything is in {self.directory}", logs])


def crash(
    plan: Plan, directory: Path, *, say: Callable[[str], None] = lambda _line: None
) -> Report:
    """Run the plan; the directory holds home and logs afterwards."""
    began = time.monotonic()
    report = Report(plan=plan, directory=directory)
    cluster = Cluster() if plan.database == "postgresql" else None
    try:
        system = System(directory, cluster=cluster, is_supervised=plan.is_supervised)
        report.logs = system.logs()
        try:
            _Run(plan, system, report, say).run()
        except (AssertionError, subprocess.TimeoutExpired) as error:
            report.record.violate(f"the run broke off: {error}")
        finally:
            system.end()
            report.logs = system.logs()
            if report.violations and cluster is not None:
                kept = directory / "postgresql.log"
                kept.write_bytes(cluster.log.read_bytes())
                report.logs[-1] = kept
    finally:
        if cluster is not None:
            cluster.remove()
    report.seconds = time.monotonic() - began
    return report


class _Run:
    """One run, step by step."""

    def __init__(
        self, plan: Plan, system: System, report: Report, say: Callable[[str], None]
    ) -> None:
        self.plan = plan
        self.system = system
        self.report = report
        self.record = report.record
        self.say = say
        self.rng = random.Random(plan.seed)
        environment = system.home.environment
        self.settings = Settings(
            home=system.home.directory, database_url=environment.get("PEEWIT_DATABASE_URL")
        )

    def run(self) -> None:
        """From the start to the last check."""
        self.system.start()
        self._prepare()
        database = open_database(self.settings.database)
        try:
            graph_id = Catalog(database).get(GRAPH).id
            clients = self._clients()
            for client in clients:
                client.start()
            try:
                self._kill_at_random(Watch(database, graph_id, self.record))
            finally:
                for client in clients:
                    client.must_stop.set()
                for client in clients:
                    client.join()
            self.say("draining")
            self._drain(database, graph_id)
            eventually(lambda: not self.system.orphans(), _ORPHAN_SECONDS)
            self.system.stop()
            self._check(database)
        finally:
            database.close()

    def _prepare(self) -> None:
        """A graph with edges, a label of each class and a first prediction."""
        with (
            closing(self._client(Pusher, "first")) as pusher,
            closing(self._client(Labeler, "anchors")) as labeler,
        ):
            self._bring(pusher, labeler)

    def _bring(self, pusher: Pusher, labeler: Labeler) -> None:
        eventually(lambda: _is_ready(pusher), _FIRST_SECONDS)
        self.system.home.run(
            "graph",
            "create",
            GRAPH,
            "--epsilon",
            0.9,
            "--seed",
            self.plan.seed,
            "--expected-nodes",
            300,
            *(("--deletions", "exact") if self.plan.deletes else ()),
        )
        settings = b'{"auto_solve": {"model": "%b"}}' % AUTO_MODEL.encode()
        kind = {"Content-Type": "application/json"}
        path = f"/v1/graphs/{GRAPH}"
        versions = [self.system.versions] if self.plan.deletes else []
        for method, where, content in (
            ("PATCH", path, settings),
            ("POST", f"{path}/sources", _followed(self.system.inbox)),
            ("POST", f"{path}/sources", _followed(self.system.exports, columns=EXPORTED)),
            *(("POST", f"{path}/sources", _followed(each, replaces=True)) for each in versions),
        ):
            answer = pusher.until_answered(method, where, content=content, headers=kind)
            assert answer is not None
            assert answer.status < 300, answer
        pusher.push(first_edges(self.record))
        eventually(lambda: _json(pusher, path)["snapshot"] is not None, _FIRST_SECONDS)
        batch = labeler.put(list(zip(ANCHORS, CLASSES, strict=True)))
        assert batch.accepted == len(ANCHORS)
        eventually(lambda: _status(pusher, f"{path}/predictions/node?id=n0") == 200, _FIRST_SECONDS)

    def _client(self, kind: type[_Client], name: str) -> _Client:
        return kind(name, self.system.port, self.record, self.plan.seed)

    def _clients(self) -> list[Client]:
        kinds = [Labeler, Labeler, Pusher, Pusher, Asker, Asker, Reader, Reader]
        given = [
            (f"{kind.__name__.lower()}-{number}", self.system.port, self.record, self.plan.seed)
            for number, kind in enumerate(kinds)
        ]
        clients: list[Client] = [kind(*each) for kind, each in zip(kinds, given, strict=True)]
        others = (self.system.port, self.record, self.plan.seed)
        dropper = Dropper("dropper", *others, inbox=self.system.inbox)
        exporter = Exporter("exporter", *others, inbox=self.system.exports)
        if self.plan.deletes:
            clients += [Deleter("deleter", *others), Retractor("retractor", *others)]
            clients.append(Replacer("replacer", *others, inbox=self.system.versions))
            home = self.system.home.directory
            clients += [
                Forgetter(f"forgetter-{number}", *others, home=home, inbox=self.system.inbox)
                for number in range(2)
            ]
        return [*clients, dropper, exporter]

    def _kill_at_random(self, watch: Watch) -> None:
        began = time.monotonic()
        before = watch.standing()
        assert before is not None
        while not self._is_enough(time.monotonic() - began):
            self._await_progress(watch, before)
            names = self.rng.sample(self.system.names, 2 if self.rng.random() < 0.4 else 1)
            if any(name.startswith(("child", "worker")) for name in names):
                self._await_a_running_job(watch)
            else:
                threading.Event().wait(self.rng.uniform(0.0, 0.5))  # the moment of death
            killed = [self._kill(name) for name in names]
            self.report.n_blows += 1
            self.say(
                f"{time.monotonic() - began:6.1f} s, kill {self.report.kills.total()}: "
                f"{' and '.join(killed)}"
            )
            before = self._standing(watch)
        self._await_progress(watch, before)

    def _kill(self, name: str) -> str:
        if name == "database":
            self.record.database_goes()
        killed = self.system.kill(name, self.rng.random())
        if name == "database":
            self.record.database_is_back(_AFTER_OUTAGE_SECONDS)
        if killed:
            self.report.kills[killed] += 1
        return killed

    def _is_enough(self, seconds: float) -> bool:
        if self.report.violations:
            return True
        if self.plan.n_kills is not None and self.report.kills.total() >= self.plan.n_kills:
            return True
        return self.plan.seconds is not None and seconds >= self.plan.seconds

    def _standing(self, watch: Watch) -> Standing:
        found: list[Standing] = []

        def is_told() -> bool:
            now = watch.standing()
            found.extend([] if now is None else [now])
            return now is not None

        eventually(is_told)
        return found[0]

    def _await_progress(self, watch: Watch, before: Standing) -> None:
        deadline = time.monotonic() + PROGRESS_SECONDS
        told = began = time.monotonic()
        while late := missing(before, watch.standing(), self.system.worker_pids()):
            if time.monotonic() - told > _TELL_SECONDS:
                told = time.monotonic()
                self.say(f"waiting for {', '.join(late)} for {told - began:.0f} s")
            for each in self.system.ended():
                self.say(f"ended by itself: {each}")
                self.report.kills["(by itself) " + each.partition(" ")[0]] += 1
            assert time.monotonic() < deadline, f"no progress of {', '.join(late)}"
            time.sleep(_LOOK_SECONDS)

    def _await_a_running_job(self, watch: Watch) -> None:
        """Until a job runs, or for two seconds."""
        deadline = time.monotonic() + 2.0
        while time.monotonic() < deadline and not watch.is_running():
            time.sleep(0.002)
        threading.Event().wait(self.rng.uniform(0.0, 0.05))

    def _drain(self, database: Database, graph_id: str) -> None:
        manifest, queue = Manifest(database), JobQueue(database)
        paths = GraphPaths(root=self.settings.graphs_directory / graph_id)
        snapshots = SnapshotStore(paths.snapshots)
        n_dropped = sum(
            each.path is not None and not each.is_version for each in self.record.edge_batches
        )

        def is_drained() -> bool:
            self.system.ended()
            counts = manifest.counts(graph_id)
            n_of_sources = sum(
                manifest.counts(graph_id, source_id=source.id)[status]
                for source in manifest.sources.list(graph_id)
                if not source.replaces
                for status in ("committed", "quarantined", "duplicate", "retracted")
            )
            # Before the jobs: the transaction that stores the snapshot asks for the solve.
            graph = Catalog(database).get_by_id(graph_id)
            latest = snapshots.meta(snapshots.numbers()[-1])
            is_published = counts["pending"] == 0 and (latest.number, latest.edges_seen) == (
                graph.progress.snapshot,
                graph.progress.edges_seen,
            )
            waiting = [
                queue.list(status=status, limit=1).jobs
                for status in (JobStatus.QUEUED, JobStatus.RUNNING)
            ]
            return (
                is_published
                and n_of_sources >= n_dropped
                and not any(waiting)
                and "retract" not in manifest.work(graph_id)
                and not manifest.erasures.waiting(graph_id)
                and all(
                    manifest.retractions.of_path(graph_id, file.path)[0].version == file.version
                    for file in EdgeFiles(self.system.versions).list()
                )
                and not any(check_auto_solve(graph, database))
            )

        eventually(is_drained, DRAIN_SECONDS)

    def _check(self, database: Database) -> None:
        history = History.of(database, self.settings)
        self.report.jobs = count_jobs(database)
        found = {
            "labels": check_labels(self.record, history),
            "edges": check_edges(self.record, history, database),
            "jobs": check_jobs(self.record, history, database),
            "predictions": check_tables(self.record, history, database),
            "auto_solve": check_auto_solve(history.graph, database),
            "replay": check_replay(
                self.system.home, self.record, history, self.report.directory / "replay"
            ),
        }
        if self.plan.deletes:
            home = self.system.home.directory
            found["erasures"] = check_forgotten(self.record, history, database, home)
            found["live edges"] = check_live_edges(self.record, history)
        for name, violations in found.items():
            self.say(f"checking {name}")
            for violation in violations:
                self.record.violate(violation)
            self.report.checked.append(name)


def _counts(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(counts.items()))


def _is_ready(client: Client) -> bool:
    return _status(client, "/readyz") == 200


def _status(client: Client, path: str) -> int | None:
    answer = client.call("GET", path)
    return None if answer is None else answer.status


def _followed(directory: Path, **further: object) -> bytes:
    """Body of a request that has a directory followed."""
    return json.dumps({"url": str(directory), "follow": True, **further}).encode()


def _json(client: Client, path: str) -> dict[str, object]:
    answer = client.until_answered("GET", path)
    assert answer is not None
    found: dict[str, object] = answer.json()
    return found
