"""JSON responses without validation, for calls that come thousands of times a second."""

from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import Response

from peewit.service.api.bodies import JSON


def json_response(content: Mapping[str, Any]) -> Response:
    """An answer that nothing checks on its way; its route names its schema, and tests compare.

    Parameters
    ----------
    content : mapping
        What orjson can write; numpy's numbers too.
    """
    return Response(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), media_type=JSON)
