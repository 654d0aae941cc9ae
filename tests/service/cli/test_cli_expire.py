"""Windows by command, without a server."""

from pathlib import Path

from tests.service.cli.conftest import Peewit


def test_edges_leave_by_hand(peewit: Peewit, tmp_path: Path) -> None:
    calls = tmp_path / "calls.csv"
    calls.write_text("src,dst,at\nann,bob,1767268800000\nbob,cay,1767528000000\n")
    options = ("--window", "5d", "--buckets", 5, "--time-unit", "ms")
    peewit("graph", "create", "g", *options)
    peewit("ingest", "g", calls, "--time", "at")
    told = peewit("graph", "show", "g").out
    assert "5 d by their time, leaving by 24.0 h; 24.0 h ahead allowed" in told
    told = peewit("expire", "g", "--before", "2026-01-03").out
    assert told == "g: edges live since 2026-01-03T00:00:00Z: 1; 1 have left\n"
    found = peewit("expire", "g", "--before", "1767225600", "--json").json
    assert found == {
        "wanted": None,
        "snapshot": 2,
        "horizon": "2026-01-03T00:00:00+00:00",
        "relations": {},
        "n_live": 1,
        "n_expired": 1,
    }
    assert peewit("graph", "show", "g", "--json").json["window"]["n_expired"] == 1
    peewit("graph", "set", "g", "--window", "3d", "--allowed-ahead", "2d")
    assert "3 d by their time" in peewit("graph", "show", "g").out
    refused = peewit("graph", "set", "g", "--window", "1h")
    assert "window.length must be 1 to 4096 buckets: 86400 to 3.53894e+08 seconds" in refused.err


def test_rows_that_were_too_old_when_they_came_are_told(peewit: Peewit, tmp_path: Path) -> None:
    peewit("graph", "create", "g", "--window", "5d", "--buckets", 5)
    for number, n_old in enumerate((2, 1)):  # of the first file they leave by its end
        path = tmp_path / f"{number}.csv"
        old = "".join(f"a{number},b{row},2026-01-01\n" for row in range(n_old))
        path.write_text(f"src,dst,time\n{old}ann,bob{number},2026-01-20\n", encoding="utf-8")
        said = peewit("ingest", "g", path).out
        assert f"{n_old} rows older than the window dropped" in said
    told = peewit("graph", "show", "g", "--json").json
    assert told["left_out"]["too_old"] == 3
    window = told["window"]
    assert (window["n_live"], window["n_expired"], window["n_late"]) == (2, 2, 1)


def test_a_dry_run_tells_what_comes_too_late_or_too_early(peewit: Peewit, tmp_path: Path) -> None:
    rows = {"old": ("2026-01-01", "2026-01-02"), "new": ("2026-01-10", "2026-01-02")}
    rows |= {"far": ("2026-01-10", "2126-01-02"), "last": ("2026-01-09", "2026-01-11")}
    paths = []
    for name, times in rows.items():
        paths.append(tmp_path / f"{name}.csv")
        text = "".join(f"{name}{place},x,{time}\n" for place, time in enumerate(times))
        paths[-1].write_text(f"src,dst,time\n{text}", encoding="utf-8")
    peewit("graph", "create", "g", "--window", "5d", "--buckets", 5)
    for n_before in (0, 2):
        looked = peewit("ingest", "g", *paths, "--dry-run", "--json")
        assert looked.exit_code == 1
        files = looked.json["files"]
        assert [each["n_late"] for each in files] == [n_before, 1, None, 0]
        assert "must not lie ahead of" in files[2]["refusal"]
        assert "row 1" in files[2]["refusal"]
        assert "1 too late for the window" in peewit("ingest", "g", *paths, "--dry-run").out
        peewit("ingest", "g", paths[0], paths[1])
    told = peewit("graph", "show", "g", "--json").json["window"]
    assert (told["n_live"], told["n_expired"], told["n_late"]) == (1, 3, 0)


def test_relations_have_windows_of_their_own(peewit: Peewit, tmp_path: Path) -> None:
    own = ("--window", "5d", "--buckets", 5, "--relation-windows", "card=none")
    peewit("graph", "create", "g", *own)
    for name in ("card", "login"):
        path = tmp_path / f"{name}.csv"
        path.write_text(f"src,dst,time\n{name},bob,2026-01-01\nbob,cay,2026-01-20\n")
        looked = peewit("ingest", "g", path, "--relation", name, "--dry-run", "--json").json
        n_late = {"card": 0, "login": 1}[name]
        assert looked["files"][0]["n_late"] == n_late
        assert looked["files"][0]["late_relations"] == ({name: n_late} if n_late else {})
        peewit("ingest", "g", path, "--relation", name)
    told = peewit("graph", "show", "g").out
    assert "5 d, card none by their time" in told
    assert "2 edges, 2 kept, at 3 nodes; window none, all live, 0 left, 0 too old" in told
    listed = peewit("graph", "relations", "g").out
    assert "too old when they came" in listed
    peewit("graph", "set", "g", "--relation-windows", "login=2d,card=none")
    left = peewit("expire", "g", "--before", "2026-01-20").out
    since = "since 2026-01-20T00:00:00Z"
    assert (
        left
        == f"g: edges live since 2026-01-15T00:00:00Z (card all, login {since}): 3; 0 have left\n"
    )
    refused = peewit("graph", "set", "g", "--relation-windows", "login=1h")
    assert "window.relations must be 1 to 4096 buckets" in refused.err
    peewit("graph", "set", "g", "--relation-windows", "")
    assert "5 d by their time" in peewit("graph", "show", "g").out
