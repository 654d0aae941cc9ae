"""One event, one line, whatever the names in it are."""

import logging

import pytest
import structlog

from service.logs import configure_logging


@pytest.fixture
def quiet_again() -> None:
    """Put back what other tests log through."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure_logging("info")
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_names_cannot_forge_a_line_or_speak_to_the_terminal(
    quiet_again: None, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging("info")
    forged = "a.parquet\n2026-01-01 [info] all is well\r\x1b[2J\x85\u2028x"
    structlog.get_logger("ours").warning("file quarantined", path=forged)
    logging.getLogger("library").warning("cannot read %s", forged)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert not any("\x1b[2J" in line for line in lines)
    assert all(line.count("all is well") == 1 for line in lines)


def test_a_traceback_keeps_its_lines(quiet_again: None, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info")
    try:
        raise ValueError("gone wrong")
    except ValueError:
        logging.getLogger("library").exception("failed")
    assert len(capsys.readouterr().err.splitlines()) > 3
