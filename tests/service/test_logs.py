"""Log lines as programs read them: one JSON object each, without secrets, whatever is logged."""

import json
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("processes")

LOGGING = """
import logging, threading, warnings
import structlog
from peewit.service.logs import configure_logging
configure_logging("info", {log_format!r})
log = structlog.get_logger("ours")
{body}
"""


def logged(body: str, log_format: str = "json") -> str:
    """What a process writes to stderr, which is no terminal."""
    program = LOGGING.format(body=body, log_format=log_format)
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert finished.stdout == ""
    return finished.stderr


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("log_format", ["json", "auto"])
def test_each_line_is_an_object_that_says_when_who_and_what(log_format: str) -> None:
    body = "log.info('ours', graph='g', n=3); logging.getLogger('theirs').warning('%s', 'theirs')"
    ours, theirs = objects(logged(body, log_format))
    assert (ours["event"], ours["graph"], ours["n"]) == ("ours", "g", 3)
    assert (ours["level"], ours["logger"]) == ("info", "ours")
    assert (theirs["event"], theirs["level"], theirs["logger"]) == ("theirs", "warning", "theirs")
    assert ours["timestamp"].endswith("Z")
    assert ours["timestamp"] <= theirs["timestamp"]


def test_what_is_bound_stands_in_the_lines_of_libraries_too() -> None:
    body = (
        "from structlog.contextvars import bound_contextvars\n"
        "with bound_contextvars(job='j'):\n"
        "    logging.getLogger('theirs').warning('x')\n"
        "logging.getLogger('theirs').warning('y')"
    )
    inside, outside = objects(logged(body))
    assert inside["job"] == "j"
    assert "job" not in outside


def test_an_exception_is_part_of_its_line() -> None:
    body = (
        "password = 'hunter2'\n"
        "try:\n"
        "    raise ValueError('bad\\nthing')\n"
        "except ValueError:\n"
        "    log.exception('ours'); logging.getLogger('theirs').exception('theirs')"
    )
    text = logged(body)
    for each in objects(text):
        (error,) = each["exception"]
        assert (error["exc_type"], error["exc_value"]) == ("ValueError", "bad\nthing")
        assert error["frames"]
    assert "hunter2" not in text  # no values of variables


def test_tracebacks_for_people_move_no_cursor() -> None:
    body = (
        "try:\n"
        "    raise ValueError('bad \\x1b[2J\\x9bthing')\n"
        "except ValueError:\n"
        "    log.exception('ours')"
    )
    text = logged(body, "console")
    assert r"ValueError: bad \x1b[2J\x9bthing" in text
    assert "Traceback" in text.splitlines()[1]


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_no_value_begins_a_new_line(log_format: str) -> None:
    body = (
        "log.info('a\\nb', path='c\\nd\\x1b[31m', deep=['e\\nf'])\n"
        "logging.getLogger('t\\nu').warning('g\\r\\nh\\u2028i')"
    )
    text = logged(body, log_format)
    assert len(text.splitlines()) == 2
    assert "\x1b[31m" not in text


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_secrets_are_in_no_line(log_format: str) -> None:
    body = (
        "url = 'postgresql://u:hunter2@host/x?password=hunter3'\n"
        "log.info(url, url=url, deep=[{'x': (url,)}])\n"
        "logging.getLogger('theirs').warning('cannot reach %s', url)\n"
        "try:\n"
        "    raise OSError(f'cannot open {url}')\n"
        "except OSError:\n"
        "    log.exception('failed')"
    )
    text = logged(body, log_format)
    assert "hunter" not in text
    assert text.count("***") >= 4


def test_what_nobody_catches_is_logged() -> None:
    body = (
        "warnings.warn('careful')\n"
        "thread = threading.Thread(target=lambda: 1 / 0, name='t')\n"
        "thread.start(); thread.join()\n"
        "raise LookupError('end')"
    )
    warned, thread, end = objects(logged(body))
    assert "careful" in warned["event"]
    assert thread["thread"] == "t"
    assert thread["exception"][0]["exc_type"] == "ZeroDivisionError"
    assert end["exception"][0]["exc_value"] == "end"
    assert end["level"] == "critical"


def test_people_read_text() -> None:
    text = logged("log.info('ours', graph='g')", "console")
    assert "ours" in text
    assert "graph=g" in text
    assert "{" not in text


def test_a_logger_follows_when_its_process_is_configured_again() -> None:
    body = """
from structlog.testing import capture_logs
for _ in range(2):
    configure_logging("info", "json")
    with capture_logs() as lines:
        log.warning("told")
    logging.warning("captured %d", len(lines))
"""
    assert [line["event"] for line in objects(logged(body))] == ["captured 1", "captured 1"]
