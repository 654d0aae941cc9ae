"""Publishing whole: readers see the old content or the new, never a piece."""

from pathlib import Path

import pytest

from streaming.durable import publish_directory, publish_file, publish_json, remove_unfinished


def test_file_appears_with_its_whole_content(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    publish_json(path, {"a": 1})
    publish_json(path, {"a": 2})
    assert path.read_text() == '{\n "a": 2\n}\n'
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    publish_file(path, lambda temporary: temporary.write_text("old"))

    def fail(temporary: Path) -> None:
        temporary.write_text("new, but")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        publish_file(path, fail)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_directory_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with publish_directory(tmp_path / "one") as directory:
        (directory / "x").write_text("x")
        assert not (tmp_path / "one").exists()
    assert (tmp_path / "one" / "x").read_text() == "x"
    with pytest.raises(FileExistsError):
        _make_the_same_directory_twice(tmp_path / "two")
    assert [entry.name for entry in tmp_path.iterdir()] == ["one"]


def test_unfinished_entries_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".tmp-1-a").write_text("x")
    (tmp_path / ".tmp-2-b").mkdir()
    (tmp_path / "c").write_text("c")
    remove_unfinished(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["c"]


def _make_the_same_directory_twice(path: Path) -> None:
    with publish_directory(path) as directory:
        (directory / "x").mkdir()
        (directory / "x").mkdir()
