"""Jobs: what may be asked for, and how they stand."""

from abc import abstractmethod
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from peewit.service.api.schemas.base import Body, answer_of
from peewit.service.certifying import validate_certify
from peewit.service.connecting import validate_knn
from peewit.service.jobs import KINDS, MAX_PRIORITY, JobSpec, Lane, lane_of
from peewit.service.jobs import Job as JobRecord
from peewit.service.solve_options import validate_solve
from peewit.service.tuning import validate_tune
from peewit.service.wire.jobs import Job
from peewit.solvers.neighbors import Metric, Symmetrization, WeightName
from peewit.streaming.certificate import CertifySettings
from peewit.streaming.knn import KnnSettings, Method

_CERTIFY = CertifySettings()
_KNN = KnnSettings()


class _JobBody(Body):
    """A body that asks for a job."""

    kind: str
    priority: int = Field(
        0, ge=-MAX_PRIORITY, le=MAX_PRIORITY, description="Higher runs earlier, then older."
    )

    def to_spec(self, graph_id: str, idempotency_key: str | None) -> JobSpec:
        """The same for the queue."""
        model, parameters, lane = self._asked()
        return JobSpec(
            graph_id=graph_id,
            kind=self.kind,
            model=model,
            parameters=parameters,
            lane=lane,
            priority=self.priority,
            idempotency_key=idempotency_key,
        )

    @abstractmethod
    def _asked(self) -> tuple[str | None, dict[str, Any], Lane]:
        """The model, the parameters and the lane."""


class _ModellessIn(_JobBody):
    """A job of the graph alone, with parameters of its own."""

    parameters: Body

    def _given(self) -> dict[str, Any]:
        """Those that were not left out."""
        return self.parameters.model_dump(exclude_unset=True)

    def _asked(self) -> tuple[None, dict[str, Any], Lane]:
        return None, self._given(), "heavy"


class Solve(Body):
    """A model with its hyperparameters and the options of the job; see `/v1/models`.

    Those left out take their defaults.
    """

    model: str = Field(examples=["stable-hfs"])
    parameters: dict[str, Any] = Field({})

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        validate_solve(self.model, self.parameters)
        return self


class SolveIn(_JobBody, Solve):
    """A job that predicts labels."""

    kind: Literal["solve"] = "solve"

    def _asked(self) -> tuple[str, dict[str, Any], Lane]:
        return self.model, self.parameters, lane_of(self.model, self.parameters)


class TuneIn(_JobBody):
    """A job that chooses hyperparameters by cross-validation over the labels."""

    kind: Literal["tune"]
    model: str = Field(examples=["lapsvm"])
    parameters: dict[str, Any] = Field(
        {},
        description="grid: lists of values by hyperparameter, the model's own where left out; "
        "folds: at least 2, 5 where left out; and hyperparameters that stay as they are.",
        examples=[{"grid": {"norm_penalty": [0.1, 0.01], "graph_penalty": [1, 0.1]}}],
    )

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        validate_tune(self.model, self.parameters)
        return self

    def _asked(self) -> tuple[str, dict[str, Any], Lane]:
        return self.model, self.parameters, "heavy"


class CertifyParameters(Body):
    """What to certify, and how hard to try; those left out take their defaults."""

    snapshot: int | None = Field(default=None, description="Number; the newest when left out.")
    passes: int = Field(default=_CERTIFY.passes, description="Most passes over the raw edges.")
    n_vectors: int = Field(default=_CERTIFY.n_vectors, description="Vectors of one pass.")
    gap: float = Field(
        default=_CERTIFY.gap,
        description="How far above the least possible epsilon is close enough.",
    )
    probability: float = Field(default=_CERTIFY.probability, description="Of the outer bounds.")
    seed: int = Field(default=_CERTIFY.seed, description="Draws the start.")


class CertifyIn(_ModellessIn):
    """A job that measures the accuracy of a snapshot against its raw edges."""

    kind: Literal["certify"]
    parameters: CertifyParameters = CertifyParameters()

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        validate_certify(self._given())
        return self


class KnnParameters(Body):
    """Which graph of nearest neighbors to make; those left out take their defaults."""

    k: int = Field(default=_KNN.k, description="Neighbors of each node.")
    weights: WeightName = Field(
        default=_KNN.weights,
        description="exp(-4 d^2 / d_k^2), exp(-d^2 / (2 width^2)) or 1, d the distance.",
    )
    symmetrize: Symmetrization = Field(
        default=_KNN.symmetrize,
        description="Weight of an edge by those of both directions, of which one may be 0.",
    )
    metric: Metric = Field(default=_KNN.metric, description="Distance of two nodes.")
    width: float | None = Field(
        default=None, description="Of heat weights; the mean length of the edges when left out."
    )
    method: Method = Field(
        default=_KNN.method, description="How to search; auto is exact where that is quick."
    )
    n_probes: int = Field(
        default=_KNN.n_probes, description="Cells that the approximate method looks at."
    )


class KnnIn(_ModellessIn):
    """A job that makes edges from features."""

    kind: Literal["knn"]
    parameters: KnnParameters = KnnParameters()

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        validate_knn(self._given())
        return self


class EmbedIn(_JobBody):
    """A job that finds where the nodes of the newest snapshot lie, for suggestions."""

    kind: Literal["embed"]

    def _asked(self) -> tuple[None, dict[str, Any], Lane]:
        return None, {}, "heavy"


def _kind_of(body: Any) -> Any:
    """The kind of job that a body asks for; ``solve`` when it does not say."""
    return body.get("kind", "solve") if isinstance(body, dict) else "solve"


JobIn = Annotated[
    Annotated[SolveIn, Tag("solve")]
    | Annotated[TuneIn, Tag("tune")]
    | Annotated[CertifyIn, Tag("certify")]
    | Annotated[KnnIn, Tag("knn")]
    | Annotated[EmbedIn, Tag("embed")],
    Discriminator(
        _kind_of,
        custom_error_type="kind",
        custom_error_message=f"kind must be one of {', '.join(KINDS)}",
    ),
]
"""A job to run."""


def job_of(job: JobRecord) -> Job:
    """What people see of a job."""
    return answer_of(Job, job)
