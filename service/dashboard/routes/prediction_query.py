"""Query of a page of predictions, which forms and links of the page keep."""

from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, Literal

from fastapi import Depends, Query
from pydantic import BeforeValidator, Field, FiniteFloat, NonNegativeFloat

from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.served_home import ServedHome
from peewit.service.catalog import GraphRecord
from peewit.service.jobs.job import Job
from peewit.service.predictions.filtered_rows import (
    RowFilter,
    class_named,
    require_labeled,
    require_proof,
)
from peewit.service.predictions.label_sets import LabelSets
from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.predictions.store import PredictionsNotFound

_COVERAGE: Final = 0.9

# browsers send empty fields, too
EMPTY: Final = BeforeValidator(lambda text: None if text == "" else text)

JobId = Annotated[str | None, Query(alias="job", max_length=64)]
_Chance = Annotated[float, Field(gt=0.0, lt=1.0)]
Chance = Annotated[_Chance | None, EMPTY, Query()]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionQuery:
    """Which predictions are shown, in which order, and how far they can be trusted.

    ``job`` defaults to the freshest. ``coverage`` is that of label sets; ``max_error`` and
    ``confidence`` bound errors where only some predictions count as answers.
    """

    job: Annotated[str | None, Query(max_length=64)] = None
    label: Annotated[str, Query(max_length=1000)] = ""
    margin_below: Annotated[NonNegativeFloat | None, EMPTY, Query()] = None
    score_from: Annotated[FiniteFloat | None, EMPTY, Query()] = None
    certainty: Annotated[Literal["certain", "uncertain"] | None, EMPTY, Query()] = None
    unlabeled: Literal["", "1"] = ""  # only nodes that carry no label
    unproven: Literal["", "1"] = ""  # only labels that are not proven to be those of all edges
    sort: Annotated[str, Query(max_length=1000)] = ""  # a column; ``score:CLASS`` of a class
    reverse: Annotated[Literal["", "1"], Query()] = ""
    coverage: Chance = None
    max_error: Chance = None
    confidence: Chance = None

    @property
    def given(self) -> dict[str, Any]:
        """What is asked for, as query parameters."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value not in {None, ""}}

    @property
    def scored_class(self) -> str:
        """The class whose score the rows are sorted by; empty where it is none."""
        name, _, of_class = self.sort.partition(":")
        return of_class if name == "score" else ""

    @property
    def is_filtered(self) -> bool:
        """Whether some rows are left out."""
        return not self.given.keys().isdisjoint(
            {"label", "margin_below", "score_from", "certainty", "unlabeled", "unproven"}
        )

    def sets(self, file: PredictionFile) -> LabelSets | None:
        """The sets of the coverage; None where the job kept none."""
        return None if file.meta.sets is None else self._sets(file)

    def wanted(self, file: PredictionFile) -> RowFilter:
        """The rows to show; raises `SetsNotKept` where a filter needs sets that were not kept.

        Margin and score do not filter predicted numbers.
        """
        is_value = file.meta.score == "value"
        if self.unlabeled:
            with refusing():
                require_labeled(file)
        if self.unproven:
            with refusing():
                require_proof(file)
        return RowFilter(
            label=_label_in(file, self.label),
            margin_below=None if is_value else self.margin_below,
            score_from=None if is_value else self.score_from,
            sets=None if self.certainty is None else self._sets(file),
            is_certain=self.certainty == "certain",
            is_unlabeled=bool(self.unlabeled),
            is_unproven=bool(self.unproven),
        )

    def _sets(self, file: PredictionFile) -> LabelSets:
        with refusing():
            return LabelSets.of(file, self.coverage or _COVERAGE)


Asked = Annotated[PredictionQuery, Depends()]


def predicting_job(
    graph: GraphRecord, home: ServedHome, job_id: str | None, column: str | None = None
) -> Job:
    """The job of that id, or that predicted a label column, else the freshest.

    The freshest is of the unnamed column, or of any where that has none. Raises `UnknownJob` or
    `PredictionsNotFound`.
    """
    try:
        return home.predictions.find(graph, job_id=job_id, column=column)
    except PredictionsNotFound:
        is_any = job_id is None and column is None
        with_predictions = home.predictions.store.kept(graph.id) if is_any else []
        if not with_predictions:
            raise
        return with_predictions[0]


def _label_in(file: PredictionFile, text: str) -> str | int | None:
    """The class with this text; without one the text, which no row has."""
    if not text:
        return None
    label = class_named(file, text)
    return text if label is None else label
