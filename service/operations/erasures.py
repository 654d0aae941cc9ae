"""Nodes that somebody asked to be forgotten."""

from collections.abc import Sequence
from typing import Annotated, Final

from peewit.service.catalog import GraphRecord
from peewit.service.inbox.leaving.erasures import ErasureNotFound, ErasureRecord
from peewit.service.operations.answers import answer_of
from peewit.service.operations.declaration import Body, Path, operation
from peewit.service.operations.here import Here
from peewit.service.tables.uploads import BadUpload, node_id
from peewit.service.wire.erasures import Erasure, ErasureList, SourcesHolding
from peewit.service.wire.predictions import NodeId

MAX_ERASED: Final = 100_000
"""Nodes in one call; more come in several."""


@operation(
    "GET /erasures/{erasure_id}", "read", "erase", raises=(ErasureNotFound,), client="erasure"
)
def get_erasure(
    here: Here, graph: GraphRecord, erasure_id: Annotated[str, Path("The `id` that erasing gave.")]
) -> Erasure:
    """How far an erasure is; `wait` can wait until the nodes are erased."""
    return _erasure(here.home.manifest.erasures.get(graph.id, erasure_id, owner=here.only))


@operation("GET /erasures", "read", "erase", client="erasures", items="erasures")
def list_erasures(here: Here, graph: GraphRecord) -> ErasureList:
    """Erasures of a graph, newest first; a key that must not read sees its own."""
    records = here.home.manifest.erasures.list(graph.id, owner=here.only)
    return ErasureList(erasures=[_erasure(each) for each in records])


@operation(
    "POST /erasures",
    "erase",
    raises=(BadUpload,),
    client="erase",
    location="/graphs/{graph}/erasures/{answer.id}",
    status=202,
    follow=get_erasure,
)
def erase_nodes(
    here: Here,
    graph: GraphRecord,
    nodes: Annotated[
        list[NodeId],
        Body(
            "Ids of nodes.",
            min_length=1,
            max_length=MAX_ERASED,
            flag="--node",
            metavar="ID",
            of_file="node",
            given_as=Sequence[NodeId],
        ),
    ],
) -> Erasure:
    """Forget nodes: their edges, labels, features and predictions, and their ids.

    From the answer on no call shows them: they are hidden. Whoever ingests the graph then
    overwrites the files that hold them, and the nodes are erased. Nodes that the graph does not
    know are taken, too. An id that comes again later is a new node; where ids are dense the number
    is never used again. Files of sources and backups stay as they are.
    """
    kind = graph.settings.node_ids
    ids = [node_id(node, kind, name="nodes", row=row) for row, node in enumerate(nodes)]
    return _erasure(here.home.forgetting.erase(graph, ids, owner=here.owner))


def _erasure(record: ErasureRecord) -> Erasure:
    sources = None if record.sources is None else SourcesHolding(**record.sources)
    return answer_of(Erasure, record, sources=sources)
