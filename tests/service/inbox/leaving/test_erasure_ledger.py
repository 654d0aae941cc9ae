"""The ledger of erasures: nothing that was told is lost, whatever a crash or a disk has done."""

import os
from pathlib import Path

import pytest

from peewit.service.inbox.leaving.erasure_ledger import BadLedger, Ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "erasures.jsonl"


def note(ledger: Ledger, erasure: str) -> None:
    ledger.append(erasure=erasure, graph="g", position=1, at="2026-01-01", nodes=["ann", "bob"])


def test_what_a_crash_has_cut_takes_nothing_else_along(path: Path) -> None:
    ledger = Ledger(path)
    note(ledger, "first")
    note(ledger, "cut")
    path.write_bytes(path.read_bytes()[:-40])
    note(ledger, "last")
    assert [entry.erasure for entry in ledger.entries()] == ["first", "last"]
    (entry, _) = ledger.entries()
    assert "ann" not in path.read_text()
    assert ledger.nodes_by_hash(["ann", "cay"], entry.nodes) == {entry.nodes[0]: "ann"}


def test_a_line_that_was_damaged_is_told(path: Path) -> None:
    ledger = Ledger(path)
    note(ledger, "first")
    path.write_text(path.read_text().replace('"graph"', '"grave"'))
    with pytest.raises(BadLedger, match="line 3 of"):
        list(ledger.entries())


def test_a_disk_that_takes_half_a_line_is_an_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(path)
    note(ledger, "first")
    whole = os.write
    monkeypatch.setattr(os, "write", lambda file, line: whole(file, line[: len(line) // 2]))
    with pytest.raises(OSError, match="No space left"):
        note(ledger, "second")
    monkeypatch.undo()
    note(ledger, "third")
    assert [entry.erasure for entry in ledger.entries()] == ["first", "third"]
