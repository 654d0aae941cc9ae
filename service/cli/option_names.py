"""Names of options in errors, which come from parts that commands share with HTTP and Python."""

import re
from typing import Final

_ARGUMENT: Final = re.compile(
    r"(?P<and>, )?\b(?P<name>src|dst|weight|node|label|unknown|node_ids)=(?P<value>'[^']+'|\w+)"
)
"""As errors write what to give: ``src='from'`` is a keyword of Python and a parameter of HTTP."""


def as_options(text: str) -> str:
    """An error with the arguments that it tells to give as the options that they are here."""
    return _ARGUMENT.sub(_option, text).replace("max_bad_rows", "--skip-bad-rows")


def _option(found: re.Match[str]) -> str:
    value = found["value"]
    plain = value.strip("'")
    if re.fullmatch(r"[\w.-]+", plain):  # which no shell reads in another way
        value = plain
    return f"{' ' if found['and'] else ''}--{found['name'].replace('_', '-')} {value}"
