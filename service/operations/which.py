"""Which predictions: of a job, or the latest; made from what; which rows, in what order."""

from collections.abc import Iterator
from dataclasses import dataclass
from shlex import quote
from typing import Annotated, Any, Final

import pyarrow as pa

from peewit.service.catalog import GraphRecord
from peewit.service.jobs.job import Job, UnknownJob
from peewit.service.operations.declaration import Group, Query
from peewit.service.operations.here import Here
from peewit.service.predictions.filtered_rows import RowFilter, ordered_rows
from peewit.service.predictions.prediction_files import PROVEN, PredictionFile
from peewit.service.predictions.store import PredictionsNotFound
from peewit.solvers.arguments import BadArgument
from peewit.solvers.late_modules import LateModule

OF_PREDICTIONS: Final = (UnknownJob, PredictionsNotFound)
"""Errors of whoever opens predictions."""

_DECIDED: Final = ("label", "score", "probability", "margin", PROVEN)
"""Columns that a threshold changes."""

solve_options: Final = LateModule("peewit.service.tasks.solving.solve_options")

LabelColumn = Annotated[
    str | None,
    Query(
        "A named column of labels; the one without a name otherwise.", min_length=1, metavar="NAME"
    ),
]

Positive = Annotated[str | None, Query("The class that the threshold decides.", metavar="CLASS")]
ThresholdValue = Annotated[
    float | None, Query("A node is of the class where its score is at least that.")
]
Coverage = Annotated[
    float | None,
    Query(
        "Add `labels`, a set of labels that holds the true one with that chance, and `certain`, "
        "whether it holds one alone; in (0, 1). The job must have solved with `sets`."
    ),
]
SafeCsv = Annotated[
    bool,
    Query(
        "Put an apostrophe before CSV text that begins with =, +, -, @, a tab or a "
        "carriage return, so that spreadsheets do not run it."
    ),
]


@dataclass(frozen=True, kw_only=True)
class Which(Group):
    """The solve whose predictions are meant."""

    TOGETHER = "Predictions of this model, job, column of labels; the latest, unnamed ones else."

    model: Annotated[str | None, Query("Its latest predictions, else those of any model.")] = None
    job: Annotated[str | None, Query("Those of this job; the latest otherwise.", metavar="JOB")] = (
        None
    )
    label_column: LabelColumn = None

    def find(self, here: Here, graph: GraphRecord) -> Job:
        """The job that made them; at the command line its id may be shortened."""
        reader = here.home.predictions
        job = None if self.job is None else here.job_id(self.job)
        try:
            return reader.find(graph, model=self.model, job_id=job, column=self.label_column)
        except PredictionsNotFound as error:
            if not here.is_local or job is not None:
                raise
            raise PredictionsNotFound(self._how_to_solve(here, graph)) from error

    def open(self, here: Here, graph: GraphRecord) -> PredictionFile:
        """The predictions; tells a person where labels or edges came since."""
        file = here.home.predictions.open(self.find(here, graph))
        name, newest = graph.settings.name, graph.progress.snapshot
        if self.job is None and newest is not None and file.meta.snapshot < newest:
            here.note(
                f"these are of snapshot {file.meta.snapshot}, and {name} has snapshot {newest} by "
                f"now: `{self._solve(graph)}` predicts with what came since"
            )
        return file

    def open_to_evaluate(self, here: Here, graph: GraphRecord) -> PredictionFile:
        """The same, to be judged by its labels."""
        file = self.open(here, graph)
        if graph.labels_seq > file.meta.labels_seq:
            here.note("labels have changed since this was solved; `peewit solve` takes them in")
        return file

    def _solve(self, graph: GraphRecord) -> str:
        column = f" --label-column {quote(self.label_column)}" if self.label_column else ""
        return f"peewit solve {graph.settings.name}{column}"

    def _how_to_solve(self, here: Here, graph: GraphRecord) -> str:
        command, of_what = f"peewit solve {graph.settings.name}", ""
        if self.label_column is not None:
            here.home.labels.require_column(graph.id, self.label_column)
        if self.model is not None:
            solve_options.model_class(self.model)  # loads all models: a second
            of_what += f" of {self.model}"
            command += f" --model {self.model}"
        if self.label_column is not None:
            of_what += f" of label column {self.label_column!r}"
            command += f" --label-column {quote(self.label_column)}"
        name = graph.settings.name
        return f"{name} has no predictions{of_what} yet; make some with `{command}`"


@dataclass(frozen=True, kw_only=True)
class Order(Group):
    """Order of rows of predictions, and which of them."""

    TOGETHER = "Order of the rows, the first of them alone, or those that carry no label."

    sort: Annotated[
        str | None,
        Query(
            "Order of the rows, by a column. By margin, stability and proven the least certain "
            "come first, by node and label the least; by score, score:CLASS and variance the "
            "largest. Nodes that no label reaches come last.",
            metavar="COLUMN",
        ),
    ] = None
    reverse: Annotated[bool, Query("The opposite of `sort`.")] = False
    top: Annotated[int | None, Query("Only so many rows.", ge=1)] = None
    unlabeled: Annotated[bool, Query("Only nodes that carry no label.")] = False
    unproven: Annotated[
        bool,
        Query("Only labels that are not proven to be those of all edges, of a solve with prove."),
    ] = False

    def rows(self, file: PredictionFile, *, threshold: float | None) -> Iterator[pa.RecordBatch]:
        """The rows of a file; raises BadArgument where they cannot be had so."""
        if threshold is not None and self.sort in _DECIDED:
            raise BadArgument(
                "sort", f"must be node, reachable or score:CLASS beside threshold, got {self.sort}"
            )
        if threshold is not None and self.unproven:
            raise BadArgument(
                "unproven", "must be left out beside threshold, which decides other labels"
            )
        if self.reverse and self.sort is None:
            raise BadArgument("reverse", "needs sort")
        wanted = RowFilter(is_unlabeled=self.unlabeled, is_unproven=self.unproven)
        return ordered_rows(file, wanted, sort=self.sort, is_reversed=self.reverse, top=self.top)


def provenance(file: PredictionFile) -> dict[str, Any]:
    """The fields of `Provenance`."""
    meta = file.meta
    return {
        "job": meta.job_id,
        "model": meta.model,
        "snapshot": meta.snapshot,
        "labels_seq": meta.labels_seq,
        "features_version": meta.features_version,
        "solver_status": meta.solver_status,
        "refined": bool(meta.stats.get("refined")),
        "score": meta.score,
        "objective": meta.objective,
        "label_column": meta.label_column or None,
    }
