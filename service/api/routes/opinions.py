"""What each person has said of nodes that several people have labeled, as a table."""

from typing import Annotated

from fastapi import Query
from fastapi.responses import StreamingResponse

from peewit.service.api.auth import requires
from peewit.service.api.errors import problems
from peewit.service.api.routes.query_parameters import ONE_GRAPH, NamedColumn, resource
from peewit.service.api.served_home import GraphHere, HomeHere
from peewit.service.api.tables import ChosenFormat, FormatNotOffered, table_answer, table_response
from peewit.service.catalog import GraphNotFound
from peewit.service.labels.opinion_table import encode_opinions

router = resource("labels", ONE_GRAPH)


@router.get(
    "/opinions",
    dependencies=[requires("read", streams=True)],
    response_class=StreamingResponse,
    responses=table_answer(
        "Columns `node`, `annotator`, `label` (as JSON), `at` and `withdrawn_at`, of nodes that "
        "several people have labeled."
    )
    | problems(GraphNotFound, FormatNotOffered),
)
def get_opinions(
    graph: GraphHere,
    home: HomeHere,
    table_format: ChosenFormat,
    withdrawn: Annotated[bool, Query(description="Also those that count no longer.")] = False,
    label_column: NamedColumn = None,
) -> StreamingResponse:
    """What each person has said of nodes that several people have labeled."""
    found = home.opinions.all(graph.id, column=label_column or "", withdrawn=withdrawn)
    return table_response(
        encode_opinions(found, graph.settings.node_ids, table_format),
        table_format,
        name=f"{graph.settings.name}-opinions",
        headers={},
    )
