"""Names of options in errors, which come from code that commands share with HTTP and Python."""

import re
from typing import Final

_ARGUMENT: Final = re.compile(
    r"(?P<and>, )?\b(?P<name>src|dst|weight|op|entity|via|node|label|unknown|node_ids|deletions|"
    r"quote|missing_ids|time_unit|time_format|keep_word|no_label|contradictions|origin_column|"
    r"annotator_column|time_column)=(?P<value>'[^']*'|[^\s,;:)]+)"
)
"""Arguments in errors: ``src='from'`` is a keyword of Python and a parameter of HTTP."""

_PLAIN: Final = {
    "max_bad_rows": "--skip-bad-rows",
    "positive_share": "--positive-share",
    "again=True": "--again",
}
"""Arguments that errors and warnings name without a value."""


def as_options(text: str) -> str:
    """An error with its arguments written as options."""
    for argument, option in _PLAIN.items():
        text = text.replace(argument, option)
    return _ARGUMENT.sub(_option, text)


def _option(match: re.Match[str]) -> str:
    value = match["value"]
    plain = value.strip("'")
    if re.fullmatch(r"[\w.:-]+", plain):  # which no shell reads in another way
        value = plain
    return f"{' ' if match['and'] else ''}--{match['name'].replace('_', '-')} {value}"
