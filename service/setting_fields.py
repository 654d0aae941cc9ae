"""Settings as dataclass fields that carry what is said of them and the rule of their values."""

from dataclasses import MISSING, field, fields
from typing import Any

from peewit.solvers.hyperparameters import Rule


def setting(
    doc: str, default: Any = MISSING, *, factory: Any = MISSING, is_fixed: bool = False, **rule: Any
) -> Any:
    """A setting; all that is said of it anywhere follows from here.

    ``rule`` is as of `Rule`; without one, the type of the setting has a rule of its own. None is
    allowed where it is the default.
    """
    if is_fixed:
        doc = f"{doc} Fixed once the graph exists."
    field_rule = Rule(doc=doc, **rule) if rule else None
    said = {"doc": doc, "rule": field_rule, "is_fixed": is_fixed}
    return field(default=default, default_factory=factory, metadata=said)


def check_rules(settings: Any, place: str = "") -> None:
    """Raise `BadArgument`, with its name, for a setting that breaks its rule."""
    for each in fields(settings):
        rule: Rule | None = each.metadata["rule"]
        value = getattr(settings, each.name)
        if rule is not None and (value is not None or each.default is not None):
            rule.check(f"{place}{each.name}", value)
