"""Sending forms as a browser would."""

import re
from html import unescape
from typing import Any

import httpx

from tests.service.api.conftest import Api


def send(api: Api, path: str, expected: int = 303, **fields: str) -> httpx.Response:
    """The answer to a form that a page of this server has shown."""
    origin = str(api.client.base_url).rstrip("/")
    answer = api.client.post(path, data=fields, headers={"Origin": origin})
    assert answer.status_code == expected, answer.text
    return answer


def look(api: Api, path: str, expected: int = 200, **options: Any) -> str:
    """The text of a page, with entities as the characters they stand for."""
    answer = api.client.get(path, **options)
    assert answer.status_code == expected, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return unescape(answer.text)


def seen_in(text: str) -> str:
    """What the page would send back when it asks again."""
    found = re.search(r'name="seen" value="([0-9a-f]*)"', text)
    assert found is not None
    return found[1]


PIECE = {"HX-Request": "true"}
