"""Exceptions as problems: each class answers with what it carries, and none as a failing disk."""

from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.requests import Request

from peewit.service.api import errors
from peewit.service.dashboard import api_with_dashboard
from peewit.service.problems import type_of
from peewit.streaming.problems import Problem

assert api_with_dashboard.create_app  # whose modules define all that a server raises


def server_problems(base: type[Problem] = Problem) -> Iterator[type[Problem]]:
    """Those that have a status and a title."""
    for kind in base.__subclasses__():
        if kind.__module__.startswith("peewit."):
            if kind.title != Problem.title:
                yield kind
            yield from server_problems(kind)


def bare(kind: type[Problem]) -> Problem:
    """One without what its constructor asks for; of a subclass, which answers likewise."""
    body = {
        "__init__": lambda _: None,
        "__str__": lambda _: "all of it",
        "problem_members": {"row": 3},
        "retry_seconds": 1.2,
    }
    return type("Bare", (kind,), body)()


@pytest.mark.parametrize("kind", dict.fromkeys(server_problems()), ids=lambda kind: kind.__name__)
def test_a_problem_answers_with_what_its_class_carries(kind: type[Problem]) -> None:
    app = FastAPI()
    errors.install(app)
    raised = bare(kind)

    @app.get("/")
    def refuse(request: Request) -> None:
        request.state.request_id = "r"
        raise raised

    answer = TestClient(app).get("/")
    assert answer.status_code == kind.status
    problem = answer.json()
    assert problem["type"] == type_of(kind.title)
    assert (problem["title"], problem["status"]) == (kind.title, kind.status)
    assert (problem["detail"], problem["row"]) == ("all of it", 3)
    told = {name: answer.headers[name] for name in raised.problem_headers}
    assert told == raised.problem_headers
    assert answer.headers["Retry-After"] == "2"
