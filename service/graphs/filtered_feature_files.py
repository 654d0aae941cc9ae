"""Files of smoothed features, one for each job: finding, opening, and retention.

A file is named after its job and attempt, and counts once the job's row names it. As it can be made
again at any time, only the last of each graph stays, and backups have none.
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Final

import numpy as np

from peewit.service.catalog import GraphRecord
from peewit.service.graphs.filtered_features import FilteredNodes
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.jobs.job import Job, JobStatus, UnknownJob
from peewit.service.jobs.queue import JobQueue
from peewit.streaming.features.store import FeaturesNotFound
from peewit.streaming.graph_paths import GraphPaths

KIND: Final = "filter"
"""Kind of the jobs that make such files."""

GRACE_SECONDS: Final = 600.0

_FILE_NAME: Final = re.compile(r"\.?([0-9a-f]+)-(\d+)\.npy.*")  # with a dot, not finished


def file_name(job_id: str, attempt: int) -> str:
    """Name of the file that an attempt leaves."""
    return f"{job_id}-{attempt}.npy"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredFeatureFiles:
    """The files of smoothed features of all graphs of a home directory."""

    jobs: JobQueue
    graphs_directory: Path

    def directory(self, graph_id: str) -> Path:
        """Directory of the files of one graph."""
        return GraphPaths(root=self.graphs_directory / graph_id).filtered_features

    def find(self, graph: GraphRecord, job_id: str | None = None) -> Job:
        """The named job, else the last that succeeded.

        Raises `UnknownJob`, or `FeaturesNotFound` where the job makes no smoothed features or has
        not succeeded, or none has.
        """
        name = graph.settings.name
        if job_id is None:
            if (latest := self._latest(graph.id)) is None:
                raise FeaturesNotFound(
                    f"graph {name} has no smoothed features yet; submit a job of kind {KIND} and "
                    "wait for it"
                )
            return latest
        job = self.jobs.get(job_id)
        if job.graph_id != graph.id:
            raise UnknownJob(f"no job {job_id!r} of graph {name}")
        if job.kind != KIND or job.status is not JobStatus.SUCCEEDED:
            raise FeaturesNotFound(
                f"job must be one of kind {KIND} that has succeeded, got job {job_id} of kind "
                f"{job.kind}, which is {job.status}"
            )
        return job

    def read(self, graph: GraphRecord, job: Job, nodes: KnownNodes) -> FilteredNodes:
        """The smoothed features of a job; raises `FeaturesNotFound` where they were removed."""
        result = job.result or {}
        path = self.directory(graph.id) / result["file"]
        try:
            values = np.asanyarray(np.load(path, mmap_mode="r"))
        except FileNotFoundError:
            raise FeaturesNotFound(
                f"the smoothed features of job {job.id} were removed, since the last of each graph "
                f"are kept; submit another job of kind {KIND}"
            ) from None
        return FilteredNodes(
            snapshot=result["snapshot"],
            features_version=result["features_version"],
            values=values,
            _names=nodes.external_ids(graph, len(values)),
        )

    def unneeded(self, graph_id: str) -> list[Path]:
        """Files older than `GRACE_SECONDS` of neither the last job nor a running one.

        Unfinished files of a killed process are among them.
        """
        directory = self.directory(graph_id)
        old = []
        for path in directory.glob("*.npy*") if directory.exists() else ():
            with suppress(FileNotFoundError):  # another process cleans as well
                if time() - path.stat().st_mtime >= GRACE_SECONDS:
                    old.append(path)
        if not old:
            return []
        latest = self._latest(graph_id)
        return [path for path in old if not self._is_needed(path, latest)]

    def clean(self, graph_id: str) -> list[Path]:
        """Remove what is not needed; the removed files."""
        removed = self.unneeded(graph_id)
        for path in removed:
            path.unlink(missing_ok=True)
        return removed

    def _latest(self, graph_id: str) -> Job | None:
        page = self.jobs.list(graph_id=graph_id, kind=KIND, status=JobStatus.SUCCEEDED, limit=1)
        return page.jobs[0] if page.jobs else None

    def _is_needed(self, path: Path, latest: Job | None) -> bool:
        named = _FILE_NAME.fullmatch(path.name)
        if named is None:  # not ours
            return True
        if latest is not None and latest.result is not None and path.name == latest.result["file"]:
            return True
        try:
            job = self.jobs.get(named[1])
        except UnknownJob:
            return False
        return job.status is JobStatus.RUNNING and job.attempt == int(named[2])
