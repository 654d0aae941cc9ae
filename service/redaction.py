"""Redaction of URLs and messages: without passwords, keys and signatures."""

import re
from typing import Final

HIDDEN: Final = "***"

_USER: Final = re.compile(r"(?P<user>[a-z][a-z0-9+.-]*://[^/@:\s'\"]*:)[^/@\s'\"]+@", re.IGNORECASE)
_SECRET: Final = re.compile(
    r"(?P<name>(?:sig|signature|token|secret|password|passwd|credential|account_key|api_?key"
    r"|access_?key(?:_?id)?)\b['\"]?\s*(?:=|:(?!//))\s*['\"]?)(?P<value>[^&\s'\",;)]+)",
    re.IGNORECASE,
)


def shown_url(url: str) -> str:
    """A URL without its password and without any value of its query.

    A presigned URL carries its key in the query, under a name that the store chooses.
    """
    without_user = _USER.sub(rf"\g<user>{HIDDEN}@", url)
    is_web = re.search(r"(?:^|::)https?://", url) is not None
    place, mark, query = without_user.partition("?") if is_web else (without_user, "", "")
    names = [part.partition("=")[0] for part in query.split("&")] if query else []
    shown = place + mark + "&".join(f"{name}={HIDDEN}" for name in names)
    return redacted(shown)


def redacted(text: str) -> str:
    """A message without what looks like a secret: passwords in URLs, values named so."""
    if "=" not in text and ":" not in text:
        return text  # both patterns need one, and every string of a log line comes here
    without_user = _USER.sub(rf"\g<user>{HIDDEN}@", text)
    return _SECRET.sub(rf"\g<name>{HIDDEN}", without_user)
