"""Every request has an id, in the answer's header and in problems."""

import re

import pytest

from peewit.service.api.request_middleware import HEADER
from tests.service.api.conftest import Api


@pytest.mark.parametrize("given", ["a", "deploy-7.x:3_~", "x" * 128])
def test_a_safe_id_of_the_client_is_kept(refusing: Api, given: str) -> None:
    answer = refusing.client.get("/v1/version", headers={HEADER: given})
    assert answer.headers[HEADER] == given
    problem = refusing.client.get("/v1/graphs/none", headers={HEADER: given})
    assert (problem.headers[HEADER], problem.json()["request_id"]) == (given, given)


@pytest.mark.parametrize("given", ["", "x" * 129, "a b", 'a"b', "a,b", "é", "{a}", "a/b"])
def test_another_one_is_replaced(refusing: Api, given: str) -> None:
    answer = refusing.client.get("/v1/version", headers={HEADER: given.encode("latin-1")})
    assert re.fullmatch("[0-9a-f]{32}", answer.headers[HEADER])


def test_two_requests_have_two_ids(refusing: Api) -> None:
    ids = {refusing.client.get("/healthz").headers[HEADER] for _ in range(20)}
    assert len(ids) == 20


def test_errors_before_any_route_have_one_too(refusing: Api) -> None:
    for method, path in (("GET", "/made-up"), ("DELETE", "/v1/models"), ("POST", "/v1/graphs")):
        answer = refusing.client.request(method, path)
        assert answer.status_code >= 400
        assert answer.json()["request_id"] == answer.headers[HEADER]
