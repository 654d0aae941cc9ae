"""Wording of pydantic's errors in our own style: ``must be an integer``."""

from collections.abc import Mapping
from typing import Any, Final

_RULES: Final = {
    "missing": "is missing",
    "missing_argument": "is missing",
    "extra_forbidden": "is not known",
    "string_type": "must be a string",
    "string_too_short": "must have {min_length} characters or more",
    "string_too_long": "must have {max_length} characters or fewer",
    "string_pattern_mismatch": "must match {pattern}",
    "int_type": "must be an integer",
    "int_parsing": "must be an integer",
    "int_parsing_size": "must be an integer of fewer digits",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "byte_size": "must be a number of bytes, such as 2.5GiB",
    "byte_size_unit": "must be a number of bytes, such as 2.5GiB",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "too_short": "must have {min_length} entries or more",
    "too_long": "must have {max_length} entries or fewer",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "mapping_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dataclass_type": "must be an object",
    "dataclass_exact_type": "must be an object",
    "datetime_type": "must be a time in ISO 8601",
    "datetime_parsing": "must be a time in ISO 8601",
    "path_type": "must be a path",
}
"""By pydantic's error type; the context of an error fills the braces."""


def rule_of(error: Mapping[str, Any]) -> str:
    """The broken rule in our words; ``error`` is an entry of ``ValidationError.errors()``."""
    rule = _RULES.get(error["type"])
    if rule is not None:
        return rule.format(**error.get("ctx", {}))
    return str(error["msg"]).removeprefix("Value error, ")


def with_argument(argument: str, rule: str) -> str:
    """A rule with the name of its argument, unless it names that already."""
    if rule.startswith(("must ", "is ")):
        return f"{argument} {rule}".lstrip()
    return rule if not argument or argument in rule else f"{argument}: {rule}"
