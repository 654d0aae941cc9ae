"""Messages between a worker and its warm child, over their pipe.

A task carries all that the child needs besides the files of the graph, so that the child never
talks to the database. It answers each task once, after any number of progress messages.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Work for a child; each kind of job adds its inputs.

    ``job_id`` and ``attempt`` name the files that the task leaves.
    """

    kind: ClassVar[str]  # kind of job, which runs it

    job_id: str
    attempt: int
    graph_id: str
    graph_directory: Path  # with the graph's files


@dataclass(frozen=True, slots=True)
class Stop:
    """From the worker: end the present task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced:
    """From the child: the progress of the task."""

    phase: str
    fraction: float | None = None  # of the phase, in [0, 1]
    stage: str | None = None  # of the job, timed in its result; holds the phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The files of the task are on the disk; ``result`` becomes the job's result."""

    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The task cannot be done."""

    error: str  # for the user
    retry: bool = False  # whether another attempt may do better
    is_disk_full: bool = False  # whether it could be done if the disk had room
    trace: str = ""  # for the log; empty where the error says it all


@dataclass(frozen=True, slots=True)
class TaskStopped:
    """The task ended because it was told to."""


TaskOutcome = Done | Failed | TaskStopped
