"""`peewit source` on live sources: what is added, and what people are shown."""

from pathlib import Path

from tests.service.cli.conftest import Peewit
from tests.service.live_sources.node_rows import put_nodes
from tests.service.live_sources.tables import append, make_table

ROWS = [("a", "b", 1.0), ("b", "c", 2.0)]


def test_a_table_is_added_read_and_shown(peewit: Peewit, tmp_path: Path) -> None:
    url = make_table(tmp_path / "t", ROWS)
    peewit("graph", "create", "g")
    added = peewit("source", "add", "g", url, "--kind", "delta", "--follow", "--json").json
    assert (added["kind"], added["position"]) == ("delta", None)
    listed = peewit("source", "list", "g").out
    assert "nothing" in listed
    done = peewit("ingest", "g")
    assert (done.exit_code, "no new files" in done.err) == (0, False)
    append(url, [("c", "d", -1.0)])
    peewit("ingest", "g")
    listed = peewit("source", "list", "g").out
    assert "version 1" in listed
    assert "version-1-" in listed
    told = peewit("source", "list", "g", "--json").json
    assert told["sources"][0]["lag"] == 0
    assert told["refusals"] == []
    again = peewit("source", "add", "g", url, "--kind", "delta", "--from", 0)
    assert again.exit_code == 0
    assert "version 0" in peewit("source", "list", "g").out


def test_labels_of_a_table_are_read_and_shown(peewit: Peewit, tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    put_nodes(url, "labels", {"a": 0, "b": 1})
    peewit("graph", "create", "g")
    options = ("--holds", "labels", "--label-column", "side", "--kind", "delta")
    added = peewit("source", "add", "g", url, *options, "--json").json
    assert (added["holds"], added["label_column"]) == ("labels", "side")
    assert peewit("ingest", "g").exit_code == 0
    assert "labels of side" in peewit("source", "list", "g").out
    assert "west" in peewit("labels", "list", "g", "--label-column", "side").out


def test_files_of_a_table_are_told_to_be_one(peewit: Peewit, tmp_path: Path) -> None:
    url = make_table(tmp_path / "t", ROWS)
    peewit("graph", "create", "g")
    added = peewit("source", "add", "g", url)
    assert (added.exit_code, "--kind delta` reads it" in added.err) == (1, True)
    metadata = tmp_path / "i" / "metadata"
    metadata.mkdir(parents=True)
    (metadata / "00000-0b1c.metadata.json").touch()
    (tmp_path / "i" / "edges.csv").write_text("src,dst\na,b\n")
    added = peewit("source", "add", "g", tmp_path / "i")
    assert (added.exit_code, "--kind iceberg` reads it" in added.err) == (1, True)


def test_places_of_live_sources_say_their_kind(peewit: Peewit) -> None:
    peewit("graph", "create", "g")
    for place in ("iceberg://house/k.e", "kafka://localhost:1/t"):
        refused = peewit("source", "add", "g", place)
        assert refused.exit_code == 2
        assert f"must be {place.partition(':')[0]} for" in refused.err


def test_a_table_that_cannot_be_read_is_told_in_one_line(peewit: Peewit, tmp_path: Path) -> None:
    peewit("graph", "create", "g")
    peewit("source", "add", "g", tmp_path / "none", "--kind", "delta", "--follow")
    done = peewit("ingest", "g")
    assert done.exit_code == 1
    assert "cannot be opened" in done.err.splitlines()[-1]
    assert "TableUnavailable" in peewit("source", "list", "g").out
