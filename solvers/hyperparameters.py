"""Hyperparameters: dataclass fields with a meaning and a rule for their values.

Checks, the request schema and the documentation of estimators derive from them.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field
from typing import Any

from peewit.solvers.arguments import BadArgument, BadArgumentType

_RULE = "rule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Meaning and allowed values of a hyperparameter.

    A whole number counts as a float. A ``kind`` of str takes the words alone, or any text without
    words.
    """

    doc: str  # one sentence for users
    kind: type[float] | type[int] | type[bool] | type[str] = float
    minimum: float | None = None  # value >= minimum
    maximum: float | None = None  # value <= maximum
    above: float | None = None  # value > above
    below: float | None = None  # value < below
    words: tuple[str, ...] = ()  # such as `auto`; besides a number unless `kind` is str
    takes_shares: bool = False  # also finite numbers > 0 by class: a mapping, or `a=.2,b=.3`

    def read(self, name: str, value: Any) -> Any:
        """``value``, or the mapping that a text of shares stands for.

        Raises `BadArgument` for a text that has an equals sign and is no such.
        """
        is_text = self.takes_shares and isinstance(value, str) and "=" in value
        return shares_of_text(name, value) if is_text else value

    def check(self, name: str, value: object) -> None:
        """Accept ``value`` for the hyperparameter ``name``.

        TypeError for another kind (a boolean is no number, and a number no boolean); ValueError for
        a number out of bounds or a string that is not one of the words.
        """
        if self.kind is bool:
            if not isinstance(value, bool):
                raise BadArgumentType(name, f"must be true or false, got {value!r}")
            return
        if self.takes_shares and isinstance(value, Mapping):
            _check_shares(name, value)
            return
        if self.kind is str and not isinstance(value, str):
            raise BadArgumentType(name, f"must be {self._allowed()}, got {value!r}")
        if self.kind is str and not self.words:
            return
        if isinstance(value, str) and self.words:
            if value not in self.words:
                raise BadArgument(name, f"must be {self._allowed()}, got {value!r}")
            return
        number = int if self.kind is int else (int, float)
        if self.kind is str or isinstance(value, bool) or not isinstance(value, number):
            raise BadArgumentType(name, f"must be {self._allowed()}, got {value!r}")
        inside = (
            _is_finite(value)
            and (self.minimum is None or value >= self.minimum)
            and (self.maximum is None or value <= self.maximum)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )
        if not inside:
            raise BadArgument(name, f"must be {self._allowed()}, got {value}")

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of the values."""
        if self.kind is bool:
            return {"description": self.doc, "type": "boolean"}
        words: dict[str, Any] = {"type": "string"}
        if self.words:
            words["enum"] = list(self.words)
        if self.takes_shares:
            shares = {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": {"type": "number", "exclusiveMinimum": 0},
            }
            text = {"type": "string", "pattern": "="}
            return {"description": self.doc, "anyOf": [words, text, shares]}
        if self.kind is str:
            return {"description": self.doc, **words}
        number: dict[str, Any] = {"type": "integer" if self.kind is int else "number"}
        number |= self.bounds()
        if not self.words:
            return {"description": self.doc, **number}
        return {"description": self.doc, "anyOf": [number, words]}

    def bounds(self) -> dict[str, Any]:
        """Bounds of numbers, as JSON Schema names them."""
        bounds = {
            "minimum": self.minimum,
            "maximum": self.maximum,
            "exclusiveMinimum": self.above,
            "exclusiveMaximum": self.below,
        }
        return {key: bound for key, bound in bounds.items() if bound is not None}

    def _allowed(self) -> str:
        """The rule in words."""
        if self.kind is str:
            words = [repr(word) for word in self.words] or ["text"]
            return " or ".join([*words, *(["shares by class"] if self.takes_shares else [])])
        limits = {">=": self.minimum, ">": self.above, "<": self.below, "<=": self.maximum}
        shown = ".0f" if self.kind is int else "g"
        bounds = " and ".join(
            f"{sign} {bound:{shown}}" for sign, bound in limits.items() if bound is not None
        )
        number = "an integer" if self.kind is int else "a finite number"
        return " or ".join([f"{number} {bounds}".rstrip(), *(repr(word) for word in self.words)])


def shares_of_text(name: str, text: str) -> dict[str, float]:
    """Shares by class of a text such as ``fraud=.02,spam=.1``; the last equals sign counts.

    Raises `BadArgument` for a part without a class or a number, and for a class that stands twice.
    """
    shares: dict[str, float] = {}
    for part in text.split(","):
        class_name, _, number = (each.strip() for each in part.rpartition("="))
        if not class_name or class_name in shares:
            raise BadArgument(name, f"must read CLASS=SHARE,..., each class once, got {text!r}")
        try:
            shares[class_name] = float(number)
        except ValueError:
            raise BadArgument(
                name,
                f"must read CLASS=SHARE,... with numbers such as .02, got {part!r}; classes with a "
                "comma need a JSON object",
            ) from None
    return shares


def _check_shares(name: str, shares: Mapping[Any, Any]) -> None:
    """Raise unless ``shares`` maps some classes to finite numbers > 0."""
    if not shares:
        raise BadArgument(name, f"must name at least one class, got {shares!r}")
    for class_name, share in shares.items():
        if isinstance(share, bool) or not isinstance(share, (int, float)):
            raise BadArgumentType(
                name, f"must hold numbers, got {share!r} for class {class_name!r}"
            )
        if not (_is_finite(share) and share > 0):
            raise BadArgument(
                name, f"must hold finite numbers > 0, got {share} for class {class_name!r}"
            )


def _is_finite(value: float) -> bool:
    """Whether the number is finite as a float; integers may be too large for one."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def hyperparameter(default: Any, rule: Rule) -> Any:
    """A dataclass field with a default and a rule."""
    return field(default=default, metadata={_RULE: rule})


def rule_of(parameter: Field[Any]) -> Rule:
    """The rule of a dataclass field."""
    rule: Rule = parameter.metadata[_RULE]
    return rule


def fields_schema(parameters: Iterable[Field[Any]]) -> dict[str, Any]:
    """JSON Schema of dataclass fields with a rule, an object without further properties."""
    properties = {}
    for parameter in parameters:
        properties[parameter.name] = rule_of(parameter).json_schema()
        if parameter.default is not MISSING:
            properties[parameter.name]["default"] = parameter.default
    return {"type": "object", "additionalProperties": False, "properties": properties}
