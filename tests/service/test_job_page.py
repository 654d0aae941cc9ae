"""What a notebook shows of a job: how far it is, and what it found."""

from dataclasses import MISSING, fields

import pytest

from peewit.service.wire.jobs import Job


def job(**known: object) -> Job:
    given = {each.name: None for each in fields(Job) if each.default is MISSING}
    given |= {"id": "j1", "parameters": {}, "cancel_requested": False}
    return Job(**given | known)


@pytest.mark.parametrize(
    ("status", "progress", "bar"),
    [
        ("queued", None, '<progress max="1" aria'),
        ("running", 0.25, 'value="0.250"'),
        ("failed", 0.25, 'value="1.000"'),
    ],
)
def test_a_bar_shows_how_far_a_job_is(status: str, progress: float | None, bar: str) -> None:
    page = job(status=status, progress=progress, model="<b>")._repr_html_()
    assert bar in page
    assert "&lt;b&gt;" in page
    assert f"status <b>{status}</b>" in page
