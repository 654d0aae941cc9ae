"""Recorded texts beside what is said now, without what differs from run to run."""

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

RECORD: Final = "PEEWIT_RECORD_GOLDENS"
"""Set, what is said now is recorded in place of compared."""

_RECORDED: Final = Path(__file__).parent / "recorded"
_MASKS: Final[Mapping[str, re.Pattern[str]]] = {
    "<time>": re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00| UTC)?"),
    "<id>": re.compile(r"\b[0-9a-f]{32}\b|\b[0-9a-f]{64}\b|^[0-9a-f]{8}(?=  )", re.MULTILINE),
    "<number>": re.compile(r"(?<![\w.])-?\d+\.\d+(e[-+]?\d+)?(?![\w.]*\w)|\b\d+e[-+]\d+\b"),
    "<took>": re.compile(r"(?<=^seconds  )\S+", re.MULTILINE),
    "<phase>": re.compile(r"(?<=\"phase\": \")[^\"]+"),
    "<worker>": re.compile(r"(?<=\"worker_id\": \")[^\"]+"),
    "<seed>": re.compile(r"(?<=seed)(\W+)\d{6,}"),
    "<bytes>": re.compile(r"(?<=bytes\": )\d+|(?<=n_bytes)\s+[\d,]+"),
    "<secret>": re.compile(r"\blw_[0-9a-f]+\.[\w-]+"),
    "<events>": re.compile(r"(?<=job_events=)\d+|\d+(?= rows in job_events)"),
    "<size>": re.compile(r"\b[\d,]+ (bytes|KiB|MiB|GiB|KB|MB|GB)\b"),
    "<seconds>": re.compile(r"\b[\d,]+ (milliseconds|seconds?|minutes?|hours?|ms|s)\b(?! before)"),
}
_GAPS: Final = re.compile(r"(?<=\S) {2,}|^ {40,}")
_MOVES_ON: Final = re.compile(r"job <id> (queued|running)\b.*|.* edges/s .*")


def masked(text: str, names: Mapping[str, str]) -> str:
    """A text with times, ids, sizes and broken numbers as marks, and ``names`` as theirs.

    How far a job is depends on how fast it is, and goes.
    """
    for place, mark in names.items():
        text = text.replace(place, mark)
    for mark, pattern in _MASKS.items():
        text = pattern.sub(mark, text)
    lines = [_GAPS.sub("  ", line.rstrip()) for line in text.splitlines()]
    return "".join(f"{line}\n" for line in lines if not _MOVES_ON.fullmatch(line))


def compare(name: str, said: str) -> None:
    """Fail where what is said is another text than the one recorded."""
    path = _RECORDED / name
    if os.environ.get(RECORD):
        path.write_text(said, encoding="utf-8")
    recorded = path.read_text(encoding="utf-8")
    away = difflib.unified_diff(
        recorded.splitlines(), said.splitlines(), "recorded", "said now", lineterm="", n=2
    )
    told = "\n".join(away)
    assert not told, (
        f"{told}\nis this meant? `{RECORD}=1 make test ARGS=tests/goldens` records it; give the "
        "reason of each line in the commit"
    )
