"""What others have named reaches a terminal as text, whatever its encoding."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from peewit.service.cli.session import printable

ESCAPE = "\x1b]0;title\x07"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\nlines\tstay", "plain\nlines\tstay"),
        (ESCAPE, r"\x1b]0;title\x07"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\x1b[1mbold\x1b[0m", r"\x1b[1mbold\x1b[0m"),
        ("a\rb\x9bc\x7f", r"a\rb\x9bc\x7f"),
        ("Müller 名前", "Müller 名前"),
    ],
)
def test_controls_and_colors_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.usefixtures("processes")
def test_names_of_others_are_shown_escaped_where_no_encoding_has_them(tmp_path: Path) -> None:
    (tmp_path / "e.ndjson").write_text('{"src": "\\u001b[2J名", "dst": "b"}\n')
    (tmp_path / "l.ndjson").write_text('{"node": "\\u001b[2J名", "label": "x"}\n')
    environment = os.environ | {"PEEWIT_HOME": str(tmp_path / "h"), "PYTHONIOENCODING": "latin-1"}
    for words in ("graph create g", "ingest g e.ndjson", "labels put g l.ndjson", "labels list g"):
        done = subprocess.run(
            [sys.executable, "-c", "from peewit.service.cli import main; main()", *words.split()],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            check=False,
            timeout=120,
        )
        assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr
    assert rb"\x1b[2J\u540d" in done.stdout
    assert b"\x1b" not in done.stdout
