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
    """What a child is to do; each kind of job adds what it works on.

    Attributes
    ----------
    kind : str
        Name of the kind of job, which runs it.
    job_id : str
    attempt : int
        Name the files that the task leaves.
    graph_id : str
    graph_directory : Path
        Where the graph keeps its files.
    """

    kind: ClassVar[str]

    job_id: str
    attempt: int
    graph_id: str
    graph_directory: Path


@dataclass(frozen=True, slots=True)
class Stop:
    """From the worker: end the present task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced:
    """From the child: how far the task is.

    Attributes
    ----------
    phase : str
        What it is doing.
    fraction : float, optional
        Part of the phase that is done, in [0, 1].
    stage : str, optional
        Which stage of the job the phase belongs to; its result times these.
    """

    phase: str
    fraction: float | None = None
    stage: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The files of the task lie on the disk; ``result`` is what the job will say."""

    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The task cannot be done.

    Attributes
    ----------
    error : str
        For the user.
    retry : bool
        Whether another attempt may do better.
    trace : str
        For the log; empty where the error says it all.
    is_disk_full : bool
        Whether it could be done if the disk had room.
    """

    error: str
    retry: bool = False
    is_disk_full: bool = False
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The task ended because it was told to."""


Answer = Done | Failed | Stopped
