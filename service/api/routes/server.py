"""Health and metrics."""

from fastapi import APIRouter, Request, Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from peewit.service.api.auth import IsReader, requires
from peewit.service.api.draining import stopping_of
from peewit.service.api.errors import any_problem, problems
from peewit.service.api.readiness import NotReady, ingest_faults, require_ready
from peewit.service.api.served_home import HomeHere
from peewit.service.jobs.ingest_steps import IngestFault
from peewit.service.wire.server import Degraded, Health, IngestTrouble

router = APIRouter(tags=["operations"], responses=any_problem())


@router.get("/healthz")
def healthz() -> Health:
    """The process is up."""
    return Health()


@router.get("/readyz", responses=problems(NotReady))
def readyz(request: Request, home: HomeHere, is_reader: IsReader) -> Health | Degraded:
    """Requests can be served: database, home and disk are in order and no stop was asked for.

    Where ingest stands still, or a source or graph fails, the status is ``degraded``, and still
    200: reads are answered as before. Names are told to those alone who may read.
    """
    require_ready(home.settings, home.database, stopping_of(request))
    faults = ingest_faults(home.settings, home.database)
    if not faults:
        return Health()
    return Degraded(ingest=[_trouble(each, is_reader=is_reader) for each in faults])


def _trouble(fault: IngestFault, *, is_reader: bool) -> IngestTrouble:
    seconds = None if fault.seconds is None else round(fault.seconds, 1)
    if not is_reader:
        nothing = dict.fromkeys(("graph", "source_id", "source", "doing", "error"))
        return IngestTrouble(**nothing, seconds=seconds)
    return IngestTrouble(
        graph=fault.graph,
        source_id=fault.source_id,
        source=fault.url,
        doing=fault.doing,
        seconds=seconds,
        error=fault.error,
    )


@router.get(
    "/metrics",
    dependencies=[requires("read")],
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def metrics(home: HomeHere) -> Response:
    """Numbers of the stores and of requests for Prometheus; of all processes of this server.

    The ingest daemon and the worker show theirs on ports of their own.
    """
    return Response(generate_latest(home.metrics), media_type=CONTENT_TYPE_PLAIN_0_0_4)
