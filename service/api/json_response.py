"""JSON responses without validation, for calls that come thousands of times a second."""

from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import Response

from peewit.service.api.bodies import JSON


def json_response(content: Mapping[str, Any], *, status: int = 200) -> Response:
    """An unchecked answer; its route names its schema, and tests compare them.

    ``content`` is anything that orjson can write, numpy's numbers included.
    """
    text = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(text, status_code=status, media_type=JSON)
