"""Names of options in errors, which come from parts that commands share with HTTP and Python."""

import re
from typing import Final

_ARGUMENT: Final = re.compile(r"\b(src|dst|weight|node|label|unknown|node_ids)=(?=[\w'\"])")
"""As errors write what to give: ``src='from'`` is a keyword of Python and a parameter of HTTP."""


def as_options(text: str) -> str:
    """An error with the arguments that it tells to give as the options that they are here."""
    text = _ARGUMENT.sub(lambda found: f"--{found[1].replace('_', '-')} ", text)
    return text.replace("max_bad_rows", "--skip-bad-rows")
