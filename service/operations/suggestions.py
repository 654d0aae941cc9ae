"""Suggestions of nodes to label next."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from peewit.service.catalog import GraphRecord
from peewit.service.jobs.job import Job
from peewit.service.operations.answers import answer_of
from peewit.service.operations.declaration import Query, operation
from peewit.service.operations.here import Here
from peewit.service.operations.which import OF_PREDICTIONS, Which
from peewit.service.predictions.suggestions import (
    LOCATING,
    MAX_SAMPLE,
    EmbeddingFailed,
    NoEmbedding,
    NoMargins,
    Strategy,
)
from peewit.service.predictions.suggestions import Suggestions as FoundSuggestions
from peewit.service.wire.predictions import Suggestions
from peewit.solvers.arguments import BadArgument


def _locate(here: Here, graph: GraphRecord, arguments: Mapping[str, Any]) -> Job | None:
    """The job that finds where the nodes lie, where that is to be known first."""
    if arguments["strategy"] not in LOCATING:
        return None
    return here.home.suggester.request_embedding(graph, owner=here.owner)


@operation(
    "GET /suggestions",
    "label",
    raises=(*OF_PREDICTIONS, NoEmbedding, EmbeddingFailed, NoMargins),
    client="suggestions",
    after=_locate,
    gate="suggestions",
)
def get_suggestions(
    here: Here,
    graph: GraphRecord,
    which: Which,
    strategy: Annotated[
        Strategy,
        Query(
            "How nodes are chosen: by the least margins, by what takes most variance from "
            "all nodes, by how much they differ, or at random."
        ),
    ] = "margin",
    k: Annotated[int, Query("Most nodes; 200 but by random.", ge=1, le=MAX_SAMPLE, flag="-k")] = 20,
    reserve: Annotated[
        bool,
        Query(
            "Suggest them to no other caller for PEEWIT_RESERVE_SECONDS; what the caller has "
            "reserved comes again, first. At most 200.",
            flag="--reserve",
        ),
    ] = False,
    annotator: Annotated[
        str | None,
        Query("For whom they are reserved, where a tool asks several people.", metavar="NAME"),
    ] = None,
) -> Suggestions:
    """Nodes whose label would help most.

    Never one that has a label. By margin: where the two best classes are closest; needs
    predictions. By variance: what tells most of all others. By coverage: unsure nodes that differ.
    These two first locate the nodes, by a job of kind embed, and do without predictions, and so
    tell where to begin. By random: the first nodes of a random order that never changes: labels of
    all of them are a random sample, by which to judge. Put the labels with the `origin` of the
    answer: answers are not judged by suggested ones. With `reserve` no two callers are given the
    same node; it is free again when it has a label, is given back, or after a while.
    """
    if here.is_local and annotator is not None and not reserve:
        raise BadArgument("annotator", "must stand beside reserve; give both, or neither")
    suggester, until = here.home.suggester, None
    job_id = None if which.job is None else here.job_id(which.job)
    chosen = {"model": which.model, "job_id": job_id, "column": which.label_column}
    if reserve:
        suggestions, reserved = here.home.questions.suggest(
            suggester, graph, strategy, k, holder=here.holder_for(annotator), **chosen
        )
        until = reserved.until
    else:
        suggestions = suggester.suggest(graph, strategy, k, **chosen)
    return _suggestions(suggestions, until)


def _suggestions(suggestions: FoundSuggestions, reserved_until: datetime | None) -> Suggestions:
    """What was found, and what the predictions were made from."""
    meta = None if suggestions.file is None else suggestions.file.meta
    return answer_of(
        Suggestions,
        suggestions,
        reserved_until=reserved_until,
        job=None if meta is None else meta.job_id,
        model=None if meta is None else meta.model,
        snapshot=None if meta is None else meta.snapshot,
        predicted_labels_seq=None if meta is None else meta.labels_seq,
        suggestions=[
            {"node": node, "prediction": prediction}
            for node, prediction in zip(suggestions.nodes, suggestions.predictions, strict=True)
        ],
    )
