"""Bodies that ask for a job, of each kind."""

from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    Self,
    TypeAlias,
    Union,
    get_type_hints,
)

from pydantic import Discriminator, Field, Tag, create_model, model_validator

from peewit.service.jobs.job import MAX_PRIORITY, JobSpec
from peewit.service.operations.bodies import Body
from peewit.service.tasks.job_kind import GraphKind, Kind, ModelKind
from peewit.service.tasks.kind_list import KINDS
from peewit.service.tasks.solving.solve_options import validate_solve
from peewit.solvers.models.catalogue import DEFAULT_MODEL

Priority = Annotated[
    int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY, description="Higher runs earlier, then older.")
]


class JobBody(Body):
    """A body that asks for a job; those of the kinds derive from it."""

    kind: str
    priority: Priority = 0

    @model_validator(mode="after")
    def _is_valid(self) -> Self:
        KINDS[self.kind].check(*self._model_and_parameters())
        return self

    def to_spec(self, graph_id: str, idempotency_key: str | None, *, owner: str | None) -> JobSpec:
        """The job for the queue."""
        model, parameters = self._model_and_parameters()
        return KINDS[self.kind].spec(
            graph_id,
            model=model,
            parameters=parameters,
            priority=self.priority,
            idempotency_key=idempotency_key,
            owner=owner,
        )

    def _model_and_parameters(self) -> tuple[str | None, dict[str, Any]]:
        """The model and the parameters that were given."""
        values = self.model_dump(exclude_unset=True)
        return getattr(self, "model", None), values.get("parameters", {})


class Solve(Body):
    """A model with its hyperparameters and the options of the job; see `/v1/models`.

    Those left out take their defaults.
    """

    model: str = Field(DEFAULT_MODEL, examples=["stable-hfs"])
    parameters: dict[str, Any] = Field({})

    @model_validator(mode="after")
    def _is_solvable(self) -> Self:
        validate_solve(self.model, self.parameters)
        return self


class SolveIn(JobBody, Solve):
    """A job that predicts labels."""

    kind: Literal["solve"] = "solve"


def _body_of(kind: Kind[Any]) -> type[JobBody]:
    """The body of a request for a job of a kind."""
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
    """Schema of the parameters of a kind without a model."""
    types, defaults = get_type_hints(kind.options.settings), kind.options.settings()
    fields: dict[str, Any] = {
        name: (types[name], Field(default=getattr(defaults, name), description=doc))
        for name, doc in kind.options.docs.items()
    }
    return create_model(
        f"{kind.name.capitalize()}Parameters",
        __base__=Body,
        __doc__=f"{kind.options.doc}; those left out take their defaults.",
        **fields,
    )


def _kind_of(body: Any) -> Any:
    """The kind of job of a body; ``solve`` by default."""
    return body.get("kind", "solve") if isinstance(body, dict) else "solve"


_BODIES: Final = {
    name: SolveIn if name == "solve" else _body_of(kind) for name, kind in KINDS.items()
}
"""By kind; that of ``solve`` stands above, since it is the default and estimates take it."""

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
