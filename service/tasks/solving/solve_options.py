"""Options of a solve job beside its model's hyperparameters.

Context: people give one flat set of parameters, on the command line, over HTTP and in
``auto_solve``. Decision: options stand among the hyperparameters and are split from them here.
Consequence: an option is one field of `SolveOptions`, with a stage in `solve`, and no model has a
hyperparameter of its name.
"""

from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, field, fields, replace
from typing import Any, Final

from peewit.service.tables.uploads.label_columns import COLUMN_NAME_RULE, is_column_name
from peewit.solvers.arguments import BadArgument
from peewit.solvers.hyperparameters import Rule, fields_schema, rule_of
from peewit.solvers.laplacian.unsparsified_system import LEAST_PASSES
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.models.contract.model import Model, RegressionModel
from peewit.solvers.models.contract.provable_model import Provable
from peewit.solvers.models.contract.refinable_model import Refinable
from peewit.solvers.models.harmonic.label_shares import LinearModel
from peewit.solvers.models.harmonic.posterior_variance import GaussianField
from peewit.solvers.relations.weight_texts import named_weights

DEFAULT_FOLDS: Final = 5
"""Folds of options that leave labels out, unless cross_validate is set."""

_OF_CLASSES: Final = ("sets", "probabilities", "without_doubtful")

_RULE: Final = "rule"
_NEEDS: Final = "needs"
_VERB: Final = "verb"


def option(default: Any, rule: Rule, *, needs: type = Model, verb: str = "") -> Any:
    """A field of `SolveOptions` whose ``default`` turns it off.

    Models that take the option derive from ``needs``; ``verb`` is what others cannot do, for the
    error.
    """
    return field(default=default, metadata={_RULE: rule, _NEEDS: needs, _VERB: verb})


MAX_REPLICAS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveOptions:
    """Options of a solve job, whatever its model; see the rule of each field."""

    label_column: str = option(
        "",
        Rule(
            doc="Predict the labels of this column, instead of those without a column's name.",
            kind=str,
        ),
    )
    relations: str = option(
        "",
        Rule(
            doc=(
                "Weights of the relations, as card=3,message=0; those not named have 1. "
                "Labels choose the weights where this is empty."
            ),
            kind=str,
        ),
    )
    counts: bool = option(
        True,
        Rule(
            doc="Count what nodes send and receive in each relation among the features of auto and "
            "filtered-ridge: beside a table where there are several relations, and of relations "
            "that are directed. Reads all edges once.",
            kind=bool,
        ),
    )
    refine: bool = option(
        False,
        Rule(
            doc="Solve on the full graph: passes over the raw edges of the snapshot, which the "
            "solve on the snapshot preconditions.",
            kind=bool,
        ),
        needs=Refinable,
        verb="be refined on the full graph",
    )
    prove: float = option(
        0.0,
        Rule(
            doc="Prove labels to be those that all edges would give: passes over the raw edges "
            "until at most this share of the labels is unproven, as .01; 0 proves none. Adds a "
            "column proven.",
            minimum=0.0,
            below=1.0,
        ),
        needs=Provable,
        verb="prove labels",
    )
    max_passes: int = option(
        100,
        Rule(
            doc=(
                "Most passes over the raw edges, with refine or prove, or where an answer "
                "corrects itself because dropped edges decide much of it. That takes "
                "three; 0 leaves it as it is."
            ),
            kind=int,
            minimum=0,
        ),
        needs=Refinable,
        verb="be refined on the full graph",
    )
    target: str = option(
        "class",
        Rule(
            doc="What labels are: classes, or real numbers, which are then predicted.",
            kind=str,
            words=("class", "real"),
        ),
        needs=RegressionModel,
        verb="predict real numbers",
    )
    variance: bool = option(
        False,
        Rule(
            doc=(
                "Add a column variance: how unsure the Gaussian field is at each node, in "
                "units of 1 / weight. Its standard deviation is an eighth."
            ),
            kind=bool,
        ),
        needs=GaussianField,
        verb="tell a variance",
    )
    cross_validate: int = option(
        0,
        Rule(
            doc="Folds of a cross-validation over the given labels, at least 2; 0 for none.",
            kind=int,
            minimum=0,
        ),
    )
    probabilities: bool = option(
        False,
        Rule(
            doc=(
                "Make scores the probabilities of classes, calibrated on labels left out "
                "in five folds, or in as many as cross_validate says."
            ),
            kind=bool,
        ),
    )
    sets: str = option(
        "off",
        Rule(
            doc=(
                "Keep sets of classes of any coverage, as p-values by labels left out in "
                "five folds, or in as many as cross_validate says. marginal: they hold for "
                "all nodes together. by-class: they hold for the nodes of each class. "
                "auto: marginal. But where a class is rare, each class of 20 labels or "
                "more by itself and the others together; and by class where labels are no "
                "random sample."
            ),
            kind=str,
            words=("off", "auto", "by-class", "marginal"),
        ),
    )
    without_doubtful: int = option(
        0,
        Rule(
            doc="Most labels to drop: those that the others contradict most, by labels left out in "
            "five folds or as many as cross_validate says; then solve again without them. A class "
            "keeps its last label. 0 drops none.",
            kind=int,
            minimum=0,
        ),
    )

    label_shares: bool = option(
        False,
        Rule(
            doc=(
                "Keep exactly what each label adds to the score of each node, to show as "
                "reasons. It takes four bytes for each node and label, and a linear solve "
                "for each label."
            ),
            kind=bool,
        ),
        needs=LinearModel,
        verb="tell what each label adds",
    )
    replicas: int = option(
        0,
        Rule(
            doc=(
                "Solve again on so many replicas of the sparsifier, drawn by other coins. "
                "A column stability then has the share of them that predict the same "
                "class. 2 or 3 show which nodes to doubt; 0 makes none."
            ),
            kind=int,
            minimum=0,
        ),
    )

    def __post_init__(self) -> None:
        for each in fields(self):
            rule_of(each).check(each.name, getattr(self, each.name))
        if self.label_column and not is_column_name(self.label_column):
            raise BadArgument("label_column", f"{COLUMN_NAME_RULE}, got {self.label_column!r}")
        if self.relations:
            named_weights(self.relations)
        if self.target == "real" and self.of_classes:
            name = self.of_classes[0]
            raise BadArgument(
                name,
                "must be left out where numbers are predicted, target='real', "
                f"got {getattr(self, name)!r}",
            )
        for beside, others in (
            ("refine", ("replicas", "label_shares")),
            ("prove", ("replicas", "label_shares", "refine", "probabilities")),
            ("target='real'", ("replicas", "label_shares", "prove")),
        ):
            is_set = self.target == "real" if "=" in beside else getattr(self, beside)
            for name in others:
                if is_set and getattr(self, name):
                    raise BadArgument(
                        name, f"must be left out beside {beside}, got {getattr(self, name)!r}"
                    )
        if self.max_passes < LEAST_PASSES and not self.prove and (self.refine or self.max_passes):
            least = f"at least {LEAST_PASSES}" if self.refine else f"0 or at least {LEAST_PASSES}"
            raise BadArgument("max_passes", f"must be {least}, got {self.max_passes}")
        if self.replicas > MAX_REPLICAS:
            raise BadArgument("replicas", f"must be at most {MAX_REPLICAS}, got {self.replicas}")
        if self.cross_validate == 1:
            raise BadArgument("cross_validate", "must be 0 or at least 2 folds, got 1")

    @property
    def of_classes(self) -> tuple[str, ...]:
        """The chosen options that leave labels of classes out, by name."""
        return tuple(each for each in _OF_CLASSES if each in self.chosen())

    def with_folds(self) -> "SolveOptions":
        """The options, with default folds where one of them leaves labels out."""
        return (
            replace(self, cross_validate=DEFAULT_FOLDS)
            if self.of_classes and not self.cross_validate
            else self
        )

    def chosen(self) -> dict[str, Any]:
        """The options that differ from their defaults, by name."""
        values = asdict(self)
        return {
            each.name: values[each.name]
            for each in fields(self)
            if values[each.name] != each.default
        }


def options_schema(model: type[Model]) -> dict[str, Any]:
    """JSON Schema of the options that a model takes."""
    return fields_schema(each for each in fields(SolveOptions) if _is_taken(each, model))


def model_class(model: str) -> type[Model]:
    """The model of a public name; raises ValueError, with all names, if there is none."""
    if model not in CATALOGUE:
        raise BadArgument("model", f"must be one of {', '.join(sorted(CATALOGUE))}, got {model!r}")
    return CATALOGUE[model]


def validate_solve(model: str, parameters: Mapping[str, Any]) -> tuple[Model, SolveOptions]:
    """The model with its hyperparameters, and the options of the job.

    ``parameters`` are JSON values by name: fields of the model's dataclass and of `SolveOptions`.
    Raises ValueError for an unknown model or parameter, a bad value, or an option that the model
    does not take.
    """
    chosen = model_class(model)
    known = {parameter.name for parameter in fields(chosen)}
    offered = {each.name for each in fields(SolveOptions)}
    unknown = sorted(parameters.keys() - known - offered)
    if unknown:
        taken = known | options_schema(chosen)["properties"].keys()
        raise ValueError(
            f"model {model} has no parameter {unknown[0]!r}; it has {', '.join(sorted(taken))}"
        )
    options = SolveOptions(**{name: parameters[name] for name in parameters if name in offered})
    options = options.with_folds()
    built = chosen(**{name: parameters[name] for name in parameters if name in known})
    for name in ("probabilities", "without_doubtful"):
        if name in options.of_classes and built.for_validation.score_kind != built.score_kind:
            raise BadArgument(
                name,
                "must be left out where a model is not judged by its scores, got "
                f"{getattr(options, name)!r}; set scores=decision",
            )
    if options.prove and isinstance(built, Provable):
        _require_provable(built, options)
    chosen_names = options.chosen()
    for each in fields(SolveOptions):
        if each.name in chosen_names and not _is_taken(each, chosen):
            able = sorted(name for name, other in CATALOGUE.items() if _is_taken(each, other))
            raise BadArgument(
                each.name,
                f"must be left out for model {model}, which cannot "
                f"{each.metadata[_VERB]} ({', '.join(able)} can); got {chosen_names[each.name]!r}",
            )
    return built, options


def _require_provable(model: Provable, options: SolveOptions) -> None:
    """Raise BadArgument where labels cannot be proven so."""
    if name := model.why_unproven():
        raise BadArgument(
            name, f"must be left out where labels are proven, got {getattr(model, name)!r}"
        )
    if options.max_passes < model.least_passes:
        raise BadArgument(
            "max_passes",
            f"must be at least {model.least_passes} for a proof, got {options.max_passes}",
        )


def _is_taken(each: Field[Any], model: type[Model]) -> bool:
    return issubclass(model, each.metadata[_NEEDS])
