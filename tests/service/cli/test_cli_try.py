"""`peewit try`: what tables hold is said, tried in a home of its own, and left as a script."""

from pathlib import Path

import numpy as np
import pytest

from peewit.service.cli.machine import try_files
from peewit.service.first_look import columns
from tests.service.cli.conftest import Peewit


@pytest.fixture
def tables(tmp_path: Path) -> list[Path]:
    """Two groups of accounts that share devices; a third of the accounts is known."""
    rng = np.random.default_rng(0)
    who = rng.integers(0, 200, 1_500)
    device = 2 * rng.integers(0, 60, who.size) + who % 2
    logins = [f"{account},d{each}" for account, each in zip(who, device, strict=True)]
    known = [f"{account},{('ok', 'bad')[account % 2]}" for account in range(0, 200, 3)]
    paths = [tmp_path / "logins.csv", tmp_path / "known.csv"]
    for path, header, rows in zip(
        paths, ("account_id,device_id", "account,label"), (logins, known), strict=True
    ):
        path.write_text("\n".join([header, *rows]) + "\n")
    return paths


def test_a_dry_run_says_what_it_would_do(peewit: Peewit, home: Path, tables: list[Path]) -> None:
    told = peewit("try", *tables, "--dry-run", "--json").json
    assert list(told["tables"]) == [str(path) for path in tables]
    assert told["tables"][str(tables[1])] == ["labels of account (account) (label): ok 34, bad 33"]
    assert told["commands"][0] == ["graph", "create", "mine", "--seed", "0"]
    assert not (home / "try").exists()
    done = peewit("try", *tables, "--dry-run", "--name", "shop")
    assert "logins.csv: events: each row joins account (account_id) with device" in done.out
    left = (home / "try" / "commands.sh").read_text()
    assert (
        f"\npeewit labels put shop {tables[1]} --node account:account --label label --unknown"
        in left
    )
    assert list((home / "try").glob("*.db")) == []
    changes = ("--kind", "device_id=phone", "--use", "logins.csv:account_id=src")
    edges = ("--relation", "logins.csv=login", "--undirected", "logins.csv", "--json")
    changed = peewit("try", *tables, "--dry-run", *changes, *edges).json["commands"][1]
    ends = ["--src", "account:account_id", "--dst", "phone:device_id"]
    assert changed[3:] == ["--relation", "login", *ends]


def test_what_cannot_be_tried_is_refused(
    peewit: Peewit, home: Path, tmp_path: Path, tables: list[Path]
) -> None:
    alone = peewit("try", tables[1])
    assert alone.exit_code == 1
    assert "FILE must hold a table that joins nodes, by two columns of ids; call" in alone.err
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").touch()
    taken = peewit("try", *tables, "--dir", other)
    assert taken.exit_code == 1
    assert "must be new, empty or an earlier trial's" in taken.err
    assert (other / "mine.txt").exists()
    unknown = peewit("try", *tables, "--label", "colour")
    assert "label must be one of the columns account_id, device_id, account, label" in unknown.err
    for options, told in {
        ("--use", "colour=id"): "use must read COLUMN=USE or FILE:COLUMN=USE of the columns",
        ("--use", "label=x"): "use must be one of src, dst, id, weight, time, feature, out",
        ("--directed", "x.csv"): "directed must name one of the files logins.csv, known.csv",
        ("--use", "device_id=dst"): "make a column of logins.csv the src, too",
    }.items():
        assert told in peewit("try", *tables, "--dry-run", *options).err
    assert not (home / "try").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("processes")
def test_first_rows_are_tried_in_a_home_of_their_own_and_the_script_reads_all(
    peewit: Peewit, home: Path, tables: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (columns, try_files):
        monkeypatch.setattr(module, "SAMPLE_ROWS", 1_000)
    done = peewit("try", *tables)
    assert done.exit_code == 0, done.err
    assert "mine: 1,000 rows in" in done.out
    assert f"$ peewit ingest mine {home / 'try' / 'sample-0' / 'logins.csv'} --entity" in done.out
    script = (home / "try" / "commands.sh").read_text()
    assert f"peewit ingest mine {tables[0]} --entity account:account_id --via" in script
    listed = [line for line in done.out.splitlines() if line.startswith('"account:')]
    assert len(listed) == 10
    assert all(int(line.split('"')[5]) % 2 for line in listed)  # of the rarer class
    assert peewit("graph", "list", "--json").json["graphs"] == []
    monkeypatch.setenv("PEEWIT_HOME", str(home / "try"))
    assert [each["name"] for each in peewit("graph", "list", "--json").json["graphs"]] == ["mine"]
    monkeypatch.setenv("PEEWIT_HOME", str(home))
    assert peewit("try", *tables, "--dry-run").exit_code == 0
    assert (home / "try" / "commands-1.sh").read_text() == script  # the first may be changed
    assert list((home / "try").glob("*.db")) != []  # a dry run empties nothing
    inside = peewit("try", home / "try" / "sample-0" / "logins.csv", "--dry-run")
    assert "FILE must lie outside the home of the trial" in inside.err
