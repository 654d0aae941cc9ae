"""Publishing whole: readers see the old content or the new, never a piece."""

from pathlib import Path

import pytest

from peewit.streaming.durable_files import (
    naming,
    publish_directory,
    publish_file,
    publish_json,
    remove_unfinished,
)


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


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), OSError("5 requested and 0 written")]
)
def test_an_error_that_names_no_file_gets_the_name(tmp_path: Path, error: OSError) -> None:
    def fail() -> None:
        with naming(tmp_path / "x"):
            raise error

    with pytest.raises(OSError, match=r"No space left on device|5 requested") as caught:
        fail()
    assert caught.value.filename == str(tmp_path / "x")
    assert caught.value.errno in {28, 5}


def test_an_error_that_names_a_file_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, naming(tmp_path / "x"):
        (tmp_path / "y").read_text()
    assert caught.value.filename == str(tmp_path / "y")


def _make_the_same_directory_twice(path: Path) -> None:
    with publish_directory(path) as directory:
        (directory / "x").mkdir()
        (directory / "x").mkdir()
