"""Words that stand for nothing in tables, in small letters; needs the standard library alone."""

from typing import Final

MISSING_WORDS: Final = frozenset(
    {"na", "n/a", "nan", "-nan", "none", "null", "\\n", "\\\\n", "<na>", "nat", "<nan>", "<none>"}
    | {"(null)", "<null>", "[null]", "{null}", "'null'", "1.#qnan", "1.#ind", "-1.#ind", "-1.#qnan"}
    | {"#n/a", "#na", "#ref!", "#value!", "#name?", "#div/0!", "#num!", "#null!"}
    | {"__hive_default_partition__", "[object object]"}
)
"""Names of nothing: what databases, R, pandas, Spark, JavaScript and spreadsheets write. As the id
of a node one of them would join everything that lacks a value."""

DOUBTFUL_WORDS: Final = frozenset(
    {"-1", "?", "unknown", "unlabeled", "unlabelled", "no label", "unk", "undefined", "n.a."}
    | {"none given", "not available"}
)
"""May be meant: as ids they are taken and told, as labels they mean nothing."""

SELDOM_NAMES: Final = frozenset({"-", ".", "nil", "missing"})
"""May be meant: as ids and as labels they are taken and told."""

ANSWERS_OF_NOTHING: Final = frozenset(
    {"unsure", "not sure", "abstain", "skip", "skipped", "don't know", "dont know", "cannot tell"}
    | {"can't tell", "cant tell", "undecided", "unclear", "no answer", "tbd", "todo", "pending"}
)
"""What people who label say of nothing; may be meant: as labels they are taken and told."""
