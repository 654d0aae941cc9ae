"""Names of options in errors, which come from parts that commands share with HTTP and Python."""

import re
from typing import Final

_ARGUMENT: Final = re.compile(
    r"(?P<and>, )?\b(?P<name>src|dst|weight|node|label|unknown|node_ids)=(?P<value>'[^']+'|\w+)"
)
"""As errors write what to give: ``src='from'`` is a keyword of Python and a parameter of HTTP."""

_PLAIN: Final = {"max_bad_rows": "--skip-bad-rows", "positive_share": "--positive-share"}
"""Arguments that errors and warnings name without a value."""


def as_options(text: str) -> str:
    """An error with the arguments that it tells to give as the options that they are here."""
    for argument, option in _PLAIN.items():
        text = text.replace(argument, option)
    return _ARGUMENT.sub(_option, text)


def _option(found: re.Match[str]) -> str:
    value = found["value"]
    plain = value.strip("'")
    if re.fullmatch(r"[\w.-]+", plain):  # which no shell reads in another way
        value = plain
    return f"{' ' if found['and'] else ''}--{found['name'].replace('_', '-')} {value}"
