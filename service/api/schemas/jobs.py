"""Jobs: what may be asked for, and how they stand."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, TypeAlias, Union

from pydantic import Discriminator, Field, Tag, create_model, model_validator

from peewit.service.api.schemas.base import Answer, Body
from peewit.service.jobs.job import MAX_PRIORITY, Job, JobSpec, JobStatus, Lane
from peewit.service.tasks.contract import GraphKind, Kind, ModelKind
from peewit.service.tasks.kinds import KINDS
from peewit.service.tasks.solve_options import validate_solve


class JobBody(Body):
    """A body that asks for a job; those of the kinds derive from it."""

    kind: str
    priority: int = Field(
        0, ge=-MAX_PRIORITY, le=MAX_PRIORITY, description="Higher runs earlier, then older."
    )

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        KINDS[self.kind].check(*self._asked())
        return self

    def to_spec(self, graph_id: str, idempotency_key: str | None) -> JobSpec:
        """The same for the queue."""
        model, parameters = self._asked()
        return KINDS[self.kind].spec(
            graph_id,
            model=model,
            parameters=parameters,
            priority=self.priority,
            idempotency_key=idempotency_key,
        )

    def _asked(self) -> tuple[str | None, dict[str, Any]]:
        """The model and the parameters that were not left out."""
        given = self.model_dump(exclude_unset=True)
        return given.get("model"), given.get("parameters", {})


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


class SolveIn(JobBody, Solve):
    """A job that predicts labels."""

    kind: Literal["solve"] = "solve"


class EstimateOut(Answer):
    """What a solve on the newest snapshot and the present features would take."""

    model: str
    input: str = Field(description="graph, features, or what serves in their place.")
    snapshot: int
    features_version: int = Field(description="0 where no features are used.")
    n_nodes: int
    n_edges: int
    n_points: int | None = Field(description="Nodes that take part, for models of points.")
    n_features: int | None = Field(description="Numbers of each.")
    gram: str | None = Field(description="Form of the Gram matrix; null where none fits.")
    precision: str | None
    gram_bytes: int | None = Field(description="Memory of it and of what is factored.")
    n_bytes: int | None = Field(description="Memory of the process, about; null as gram is.")
    limit_bytes: int = Field(description="What it may take.")
    fits: bool = Field(description="Whether the job would be taken.")
    message: str | None = Field(description="Why not, and what would do.")
    seconds: float | None = Field(
        description="What the last equal job took; null where there was none."
    )
    seconds_job: str | None = Field(description="That job.")
    seconds_snapshot: int | None = Field(description="What it solved.")


def _body_of(kind: Kind[Any]) -> type[JobBody]:
    """The body that asks for a job of a kind."""
    fields: dict[str, Any] = {"kind": (Literal[kind.name], ...)}
    if isinstance(kind, ModelKind):
        examples = None if kind.example_parameters is None else [kind.example_parameters]
        fields["model"] = (str, Field(examples=[kind.example_model]))
        fields["parameters"] = (
            dict[str, Any],
            Field({}, description=kind.parameters_doc, examples=examples),
        )
    elif isinstance(kind, GraphKind) and kind.options.docs:
        parameters = _parameters_of(kind)
        fields["parameters"] = (parameters, parameters())
    name = f"{kind.name.capitalize()}In"
    return create_model(name, __base__=JobBody, __doc__=kind.__doc__, **fields)


def _parameters_of(kind: GraphKind[Any, Any]) -> type[Body]:
    """The parameters of a kind that needs no model."""
    fields: dict[str, Any] = {
        name: (option.type, Field(default=option.default, description=option.doc))
        for name, option in kind.options.described().items()
    }
    return create_model(
        f"{kind.name.capitalize()}Parameters",
        __base__=Body,
        __doc__=f"{kind.options.doc}; those left out take their defaults.",
        **fields,
    )


def _kind_of(body: Any) -> Any:
    """The kind of job that a body asks for; ``solve`` when it does not say."""
    return body.get("kind", "solve") if isinstance(body, dict) else "solve"


_BODIES: Final = {
    name: SolveIn if name == "solve" else _body_of(kind) for name, kind in KINDS.items()
}
"""By kind; the one of ``solve`` stands above, since it is the default and estimates take it."""

if TYPE_CHECKING:
    JobIn: TypeAlias = JobBody
else:
    JobIn = Annotated[
        Union[tuple(Annotated[body, Tag(name)] for name, body in _BODIES.items())],  # noqa: UP007 - made from the table
        Discriminator(
            _kind_of,
            custom_error_type="kind",
            custom_error_message=f"kind must be one of {', '.join(KINDS)}",
        ),
    ]
"""A job to run."""


class JobOut(Answer):
    """A job at this moment."""

    id: str
    graph_id: str
    kind: str
    model: str | None
    parameters: dict[str, Any]
    lane: Lane = Field(description="Quick solves do not wait behind long work.")
    priority: int
    status: JobStatus
    phase: str | None = Field(description="What it is doing.")
    progress: float | None = Field(description="Part of the phase that is done, in [0, 1].")
    expected_end_at: datetime | None = Field(
        description="By its pace and the last equal job; null where neither tells."
    )
    cancel_requested: bool
    attempt: int
    idempotency_key: str | None
    snapshot: int | None = Field(description="What it works on, as the two that follow.")
    labels_seq: int | None
    features_version: int | None
    result: dict[str, Any] | None
    error: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @classmethod
    def of(cls, job: Job) -> Self:
        """What people see of a job."""
        return cls.model_validate(job)


class JobList(Answer):
    """Some jobs, newest first."""

    jobs: list[JobOut]
    next_page: str | None = Field(description="For ?page=; null on the last one.")
