from pathlib import Path

import pytest

from peewit.service.dashboard.node_media import MAX_TEXT_BYTES, Items


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    directory = tmp_path / "g"
    directory.mkdir()
    return directory


def test_a_picture_wins_over_a_text(graph: Path) -> None:
    items = Items(graph.parent)
    assert items.find("g", "n") is None
    (graph / "n.txt").write_text("words")
    text = items.find("g", "n")
    assert text is not None
    assert (text.is_picture, text.text()) == (False, "words")
    (graph / "n.svg").write_text("<svg/>")
    picture = items.find("g", "n")
    assert picture is not None
    assert (picture.path.name, picture.media_type) == ("n.svg", "image/svg+xml")


@pytest.mark.parametrize(
    ("node", "name"),
    [
        ("a/b", "a%2Fb"),
        ("100%", "100%25"),
        ("../../secret", "..%2F..%2Fsecret"),
        ("..", ".."),
        ("two words", "two words"),
        ("Käse", "Käse"),
    ],
)
def test_a_file_is_named_after_its_node(graph: Path, node: str, name: str) -> None:
    (graph.parent.parent / "secret.txt").write_text("of others")
    (graph / f"{name}.txt").write_text("mine")
    found = Items(graph.parent).find("g", node)
    assert found is not None
    assert found.text() == "mine"


@pytest.mark.parametrize("node", ["x" * 2000, "nul\0", "../g/n", "/etc/passwd", ""])
def test_what_can_have_no_file_has_none(graph: Path, node: str) -> None:
    (graph / "n.txt").write_text("another one")
    assert Items(graph.parent).find("g", node) is None


def test_of_a_long_text_the_beginning_is_shown(graph: Path) -> None:
    (graph / "n.txt").write_text("ä" * MAX_TEXT_BYTES)
    found = Items(graph.parent).find("g", "n")
    assert found is not None
    assert found.text() == "ä" * (MAX_TEXT_BYTES // 2) + " …"
    (graph / "n.txt").write_bytes(b"caf\xe9")
    assert found.text() == "caf\ufffd"


def test_no_link_leads_out_of_the_items(
    graph: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "n.txt").write_text("of others")
    (graph / "n.txt").symlink_to(outside / "n.txt")
    (graph.parent / "h").symlink_to(outside)
    (graph / "loop.txt").symlink_to(graph / "loop.txt")
    items = Items(graph.parent)
    assert items.find("g", "n") is items.find("h", "n") is items.find("g", "loop") is None
    (graph / "shared.txt").write_text("mine")
    (graph / "m.txt").symlink_to("shared.txt")
    (outside.parent / "root").symlink_to(graph.parent)
    for root in (graph.parent, outside.parent / "root"):
        found = Items(root).find("g", "m")
        assert found is not None
        assert found.text() == "mine"
