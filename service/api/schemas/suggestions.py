"""Suggestions of nodes to label."""

from peewit.service.api.schemas.base import answer_of
from peewit.service.predictions.suggestions import Suggestions as SuggestionsRecord
from peewit.service.wire.predictions import Suggestions


def suggestions_of(found: SuggestionsRecord) -> Suggestions:
    """What people see of suggestions."""
    meta = None if found.file is None else found.file.meta
    return answer_of(
        Suggestions,
        found,
        job=None if meta is None else meta.job_id,
        model=None if meta is None else meta.model,
        snapshot=None if meta is None else meta.snapshot,
        predicted_labels_seq=None if meta is None else meta.labels_seq,
        suggestions=[
            {"node": node, "prediction": prediction}
            for node, prediction in zip(found.nodes, found.predictions, strict=True)
        ],
    )
