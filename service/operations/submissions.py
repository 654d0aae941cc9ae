"""Jobs asked for, and what a solve would take."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import structlog

from peewit.service.catalog import GraphRecord
from peewit.service.jobs.job import MAX_KEY_LENGTH, MAX_PRIORITY, IdempotencyConflict
from peewit.service.jobs.job import Job as JobRecord
from peewit.service.labels.store import LabelColumnNotFound
from peewit.service.operations.answers import answer_of
from peewit.service.operations.declaration import Body, Header, Whole, operation
from peewit.service.operations.here import Here
from peewit.service.operations.job_bodies import JobIn, SolveIn
from peewit.service.operations.jobs import get_job
from peewit.service.tables.uploads.label_columns import MAX_LABEL_COLUMNS
from peewit.service.tasks.kind_list import KINDS
from peewit.service.tasks.knn import ConnectedBefore, NoFeatures
from peewit.service.tasks.newest_snapshot import NoSnapshot
from peewit.service.tasks.solving.estimate import DoesNotFit, Estimator
from peewit.service.tasks.solving.solve_columns import submit_columns
from peewit.service.wire.jobs import Estimate, Job, JobList
from peewit.solvers.models.catalogue import DEFAULT_MODEL
from peewit.streaming.features.store import FeaturesNotFound
from peewit.streaming.passes.raw_edge_passes import RawEdgesMovedOn
from peewit.streaming.snapshots.store import SnapshotNotFound

IdempotencyKey = Annotated[
    str | None,
    Header(
        "A repeated call with this key is the first one.", min_length=1, max_length=MAX_KEY_LENGTH
    ),
]

_OF_SOLVES: Final = (LabelColumnNotFound, SnapshotNotFound, FeaturesNotFound)

_log = structlog.get_logger(__name__)


@operation(
    "POST /jobs",
    "label",
    raises=(
        *_OF_SOLVES,
        IdempotencyConflict,
        DoesNotFit,
        NoFeatures,
        ConnectedBefore,
        RawEdgesMovedOn,
    ),
    location="/jobs/{answer.id}",
    follow=get_job,
    status=202,
)
def submit_job(
    here: Here,
    graph: GraphRecord,
    body: Annotated[JobIn, Whole()],
    idempotency_key: IdempotencyKey = None,
) -> Job:
    """Submit a job; it is durable before the answer, and a worker will run it.

    A solve that cannot fit the memory is refused, and a search with it: `jobs:estimate` says what
    would.
    """
    spec = body.to_spec(graph.id, idempotency_key, owner=here.owner)
    KINDS[spec.kind].admit(spec, graph, here.home)
    return _submitted(here, graph, here.home.jobs.submit(spec))


@operation(
    "POST /jobs:solve",
    "label",
    raises=(*_OF_SOLVES, IdempotencyConflict, DoesNotFit),
    client="submit_solve_columns",
    items="jobs",
    status=202,
)
def solve_columns(
    here: Here,
    graph: GraphRecord,
    label_columns: Annotated[
        list[str],
        Body(
            "Their names, each once; empty for the labels without a column's name.",
            min_length=1,
            max_length=MAX_LABEL_COLUMNS,
            examples=[["topic", "language"]],
            given_as=Sequence[str],
        ),
    ],
    model: Annotated[str, Body("Its public name.", examples=["stable-hfs"])] = DEFAULT_MODEL,
    parameters: Annotated[
        dict[str, Any] | None,
        Body(
            "Hyperparameters of the model and options of the jobs; those left out take their "
            "defaults.",
            given_as=Mapping[str, Any] | None,
        ),
    ] = None,
    priority: Annotated[
        int, Body("Higher runs earlier, then older.", ge=-MAX_PRIORITY, le=MAX_PRIORITY)
    ] = 0,
    idempotency_key: IdempotencyKey = None,
) -> JobList:
    """Submit a solve for each of several label columns, all of them or none.

    All work on the snapshot that is newest now, and share what is prepared on it.
    """
    jobs = submit_columns(
        here.home,
        graph,
        label_columns,
        model=model,
        parameters=parameters or {},
        priority=priority,
        idempotency_key=idempotency_key,
        owner=here.owner,
    )
    return JobList(jobs=[_submitted(here, graph, each) for each in jobs], next_page=None)


@operation("POST /jobs:estimate", "read", raises=(*_OF_SOLVES, NoSnapshot))
def estimate_job(here: Here, graph: GraphRecord, body: Annotated[SolveIn, Whole()]) -> Estimate:
    """Memory and time of a solve, and whether it fits; nothing runs."""
    return Estimator.of(here.home).estimate(graph, body.model, body.parameters)


def _submitted(here: Here, graph: GraphRecord, job: JobRecord) -> Job:
    here.require_own(job.owner)
    _log.info("job submitted", job=job.id, graph=graph.settings.name, kind=job.kind)
    return answer_of(Job, job)
