"""Roles of tables with the columns of well-known data sets, and the commands that they call for."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from peewit.service.first_look.changed_tables import as_changed
from peewit.service.first_look.changes import NO_CHANGE, TableChange
from peewit.service.first_look.columns import look_at
from peewit.service.first_look.commands import commands, in_words, script
from peewit.service.first_look.roles import Roles, roles_of
from peewit.solvers.arguments import BadArgument

N = 400
RNG = np.random.default_rng(0)


def written(root: Path, **tables: dict[str, object]) -> list[Path]:
    """A file of each table, of CSV and of Parquet in turn."""
    paths = []
    for place, (name, columns) in enumerate(tables.items()):
        table = pa.table(columns)
        path = root / f"{name}.{('csv', 'parquet')[place % 2]}"
        if path.suffix == ".csv":
            pa.csv.write_csv(table, path)
        else:
            pq.write_table(table, path)
        paths.append(path)
    return paths


def guessed(
    paths: list[Path],
    label: str | None = None,
    changes: dict[str, TableChange] | None = None,
    window: str = "",
) -> Roles:
    said = changes or {}
    tables = [as_changed(look_at(path), said.get(path.stem, NO_CHANGE)) for path in paths]
    return roles_of(tables, label, window=window)


def asked(
    paths: list[Path],
    label: str | None = None,
    changes: dict[str, TableChange] | None = None,
    window: str = "",
) -> list[str]:
    """Commands without the directory of their files, and without what all labels are put with."""
    made = commands("g", guessed(paths, label, changes, window))
    short = [[Path(word).name if "/" in word else word or "''" for word in each] for each in made]
    return [" ".join(each).replace(" --unknown keep", "") for each in short]


def words(prefix: str, size: int, n_distinct: int) -> list[str]:
    return [f"{prefix}{each}" for each in RNG.integers(0, n_distinct, size)]


def numbers(size: int, n_distinct: int = N) -> list[int]:
    return RNG.integers(0, n_distinct, size).tolist()


def some(values: list[str], size: int = N, share: float = 0.5) -> list[str | None]:
    return [str(RNG.choice(values)) if RNG.random() < share else None for _ in range(size)]


def test_a_company_has_events_messages_accounts_and_decisions(tmp_path: Path) -> None:
    paths = written(
        tmp_path,
        logins={
            "login_id": list(range(1_000)),
            "account_id": numbers(1_000),
            "device_id": words("d", 1_000, 300),
            "ip": words("10.0.0.", 1_000, 90),
            "at": [f"2026-01-{1 + k % 28:02d} 10:00:00" for k in range(1_000)],
        },
        messages={"from_account": numbers(900), "to_account": numbers(900)},
        accounts={
            "id": list(range(N)),
            "days_old": numbers(N, 2_000),
            "country": words("c", N, 5),
            "about": [f"I like {k} and {k + 1}" for k in range(N)],
            "verified": ["yes" if k % 3 else "no" for k in range(N)],
        },
        decisions={"account": numbers(80), "decision": some(["FRAUD", "ok", "unknown"], 80, 1.0)},
    )
    src, dst = "account:from_account", "account:to_account"
    assert asked(paths) == [
        "graph create g --seed 0",
        "ingest g logins.csv --entity account:account_id --via device:device_id,ip:ip",
        f"ingest g messages.parquet --relation messages --directed --src {src} --dst {dst}",
        "features g accounts.csv --node account:id",
        "labels put g decisions.parquet --node account:account --label decision",
        "solve g",
        "predictions g --sort probability:FRAUD --unlabeled --top 10",
    ]
    roles = guessed(paths)
    told = {role.table.path.stem: "; ".join(in_words(role, roles)) for role in roles.of_tables}
    times = "times: at (not needed unless edges are to expire)"
    assert told["logins"].endswith(f"{times}; not used: login_id")
    assert told["messages"] == "edges from account (from_account) to account (to_account), one way"
    assert told["accounts"] == "features of account (id): days_old, country, about, verified"
    assert told["decisions"].startswith("labels of account (account) (decision): ")
    assert "unknown" not in told["decisions"]
    text = script("g", roles, "/bin/peewit")
    assert "# logins.csv: events: each row joins account (account_id) with device" in text
    assert text.splitlines()[-1].startswith("peewit predictions g --sort probability:FRAUD")


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        (  # transactions of a coin
            {
                "txs_edgelist": {"txId1": numbers(900), "txId2": numbers(900)},
                "txs_classes": {
                    "txId": list(range(N)),
                    "class": some(["1", "2", "unknown"], share=1.0),
                },
            },
            [
                "ingest g txs_edgelist.csv --src txId1 --dst txId2",
                "labels put g txs_classes.parquet --node txId --label class",
            ],
        ),
        (  # papers that cite
            {
                "cites": {
                    "cited_paper_id": words("p", 900, N),
                    "citing_paper_id": words("p", 900, N),
                },
                "content": {
                    "paper_id": [f"p{k}" for k in range(N)],
                    "w1": [k % 2 for k in range(N)],
                    "year": numbers(N, 40),
                    "class_label": some(["AI", "DB", "IR"]),
                },
            },
            [
                "ingest g cites.csv --src cited_paper_id --dst citing_paper_id",
                "features g content.parquet --node paper_id --without class_label",
                "labels put g content.parquet --node paper_id --label class_label --no-label ''",
            ],
        ),
        (  # people who rate films, of whom some are known to be bots
            {
                "ratings": {
                    "userId": numbers(2_000, 300),
                    "movieId": numbers(2_000, 90),
                    "rating": numbers(2_000, 6),
                    "timestamp": [1_700_000_000 + k for k in range(2_000)],
                },
                "users": {
                    "userId": list(range(300)),
                    "age": numbers(300, 70),
                    "is_bot": some(["0", "1"], 300),
                },
            },
            [
                "ingest g ratings.csv --entity user:userId --via movie:movieId",
                "features g users.parquet --node user:userId --without is_bot",
                "labels put g users.parquet --node user:userId --label is_bot --no-label ''",
                "predictions g --sort probability:1 --unlabeled --top 10",
            ],
        ),
        (  # pictures that are copies, offers of people who are called sellers there
            {
                "offers": {"seller": numbers(900, 300), "listing_id": list(range(900))},
                "cp": {"listing": numbers(900, 900), "copy_of": numbers(900, 900)},
                "people": {
                    "person_id": list(range(300)),
                    "phone": some(["mobile", "fixed"], 300, 1.0),
                    "label": some(["FRAUD", "ok"], 300),
                },
            },
            [
                "ingest g offers.csv --entity person:seller --via listing:listing_id",
                "ingest g cp.parquet --relation cp --src listing:listing --dst listing:copy_of",
                "features g people.csv --node person:person_id --without label",
                "labels put g people.csv --node person:person_id --label label --no-label ''",
            ],
        ),
        (  # people who follow people, by names that say nothing of these
            {
                "edges": {"id_1": numbers(900), "id_2": numbers(900)},
                "target": {
                    "id": list(range(N)),
                    "name": [f"user{k}" for k in range(N)],
                    "ml_target": [k % 2 for k in range(N)],
                },
            },
            [
                "graph create g --seed 0 --node-ids int64",
                "ingest g edges.csv --src id_1 --dst id_2",
                "labels put g target.parquet --node id --label ml_target",
                "predictions g --sort probability:1 --top 10",
            ],
        ),
        (  # the same with a number of each row, followers, and truth values
            {
                "follows": {
                    "Unnamed: 0": list(range(900)),
                    "follower_id": numbers(900),
                    "followee_id": numbers(900),
                },
                "people": {
                    "userid": list(range(N)),
                    "city, part": words("c", N, 9),
                    "born": [f"{1 + k % 28:02d}.03.1980" for k in range(N)],
                    "income": [f"{k},5" for k in range(N)],
                    "Churned": some(["True", "False"]),
                },
            },
            [
                "ingest g follows.csv --src follower_id --dst followee_id",
                "features g people.parquet --node userid --without Churned",
                "labels put g people.parquet --node userid --label Churned --no-label ''",
                "predictions g --sort probability:true --unlabeled --top 10",
            ],
        ),
        (  # two classes, of which one is -1
            {
                "calls": {"caller_msisdn": numbers(900), "called_msisdn": numbers(900)},
                "known": {"msisdn": list(range(100)), "label": [-1, 1] * 50},
            },
            [
                "ingest g calls.csv --src caller_msisdn --dst called_msisdn",
                "labels put g known.parquet --node msisdn --label label --keep-word -1",
            ],
        ),
        (  # trust between people, with weights
            {"trust": {"source": numbers(900), "target": numbers(900), "weight": [0.5, 1.0] * 450}},
            ["ingest g trust.csv --src source --dst target --weight weight"],
        ),
        (  # payments, each of which is a fraud or not: labels of rows, not of nodes
            {
                "payments": {
                    "nameOrig": words("C", 2_000, 900),
                    "nameDest": words("M", 2_000, 100),
                    "amount": numbers(2_000, 10_000),
                    "isFraud": [0, 1] * 1_000,
                }
            },
            ["ingest g payments.csv --src nameOrig --dst nameDest"],
        ),
        (  # ends of no name, and labels of a few of them by another
            {
                "edges": {"src": numbers(900), "dst": numbers(900)},
                "known": {"account": [3, 5, 33, 40], "verdict": ["bad", "good"] * 2},
            },
            [
                "graph create g --seed 0 --node-ids int64",
                "ingest g edges.csv --src src --dst dst",
                "labels put g known.parquet --node account --label verdict",
            ],
        ),
        (  # numbers that zeros begin, of the same doctors; each has a name of its own
            {
                "edges": {
                    "Überweisung-Nr": [f"W{k}" for k in range(900)],
                    "Arzt_von": [f"{k:06}" for k in numbers(900)],
                    "Arzt_an": [f"{k:06}" for k in numbers(900)],
                },
                "known": {"Arzt": [f"{k:06}" for k in range(N)], "Jahr": numbers(N, 50)},
                "follows": {
                    "Arztnummer": [f"{k:06}" for k in range(60)],
                    "Befund": ["gut", "schlecht"] * 30,
                },
            },
            [
                "ingest g edges.csv --src Arzt_von --dst Arzt_an",
                "features g known.parquet --node Arzt",
                "labels put g follows.csv --node Arztnummer --label Befund",
            ],
        ),
        (  # rows that name their kinds
            {
                "edges": {
                    "relation": ["writes", "cites"] * 450,
                    "src_kind": ["author", "paper"] * 450,
                    "src": numbers(900),
                    "dst_kind": ["paper"] * 900,
                    "dst": numbers(900),
                },
                "labels": {
                    "kind": ["author"] * N,
                    "node": list(range(N)),
                    "label": some(["AI", "DB", "IR"]),
                },
            },
            [
                "ingest g edges.csv",
                "labels put g labels.parquet --node node --label label --no-label ''",
                "predictions g --sort score --unlabeled --top 10",
            ],
        ),
    ],
)
def test_tables_of_public_data_sets(
    tmp_path: Path, tables: dict[str, dict[str, object]], expected: list[str]
) -> None:
    made = asked(written(tmp_path, **tables), "is_bot" if "users" in tables else None)
    assert [each for each in made if each in expected] == expected
    is_labeled = any("labels put" in each for each in expected)
    assert any(each.startswith("labels put") for each in made) == is_labeled


def test_a_column_that_holds_no_labels_is_refused(tmp_path: Path) -> None:
    paths = written(
        tmp_path,
        edges={"src": numbers(900), "dst": numbers(900)},
        nodes={"node": list(range(N)), "size": [k / 7 for k in range(N)], "kind": ["a"] * N},
    )
    with pytest.raises(
        BadArgument, match="label must be one of the columns src, dst, node, size, kind"
    ):
        guessed(paths, "colour")
    with pytest.raises(BadArgument, match="2 to 30 different labels, got 'size' with 400"):
        guessed(paths, "size")
    assert guessed(paths).classes == {}


def test_no_value_of_a_table_becomes_a_command_of_the_script(tmp_path: Path) -> None:
    paths = written(
        tmp_path,
        edges={"src": numbers(900), "dst": numbers(900)},
        nodes={"node": list(range(N)), "label": ["ok\ntouch here\n#", "bad"] * (N // 2)},
    )
    lines = script("g", guessed(paths), "peewit").splitlines()
    assert "# nodes.parquet: labels of node (node) (label): ok touch here # 200, bad 200" in lines
    assert not any(line.startswith("touch") for line in lines)


def test_columns_without_names_are_called_by_their_places(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.txt"
    pairs.write_text(
        "\n".join(f"p{a} p{b}" for a, b in zip(numbers(900), numbers(900), strict=True))
    )
    known = tmp_path / "known.csv"
    known.write_text("\n".join(f"p{k},{('AI', 'DB')[k % 2]}" for k in range(60)))
    points = tmp_path / "points.csv"
    points.write_text("\n".join(f"p{k},{k / 7},{k / 7}" for k in range(N)))
    assert asked([pairs, known, points]) == [
        "graph create g --seed 0",
        "ingest g pairs.txt --src #1 --dst #2",
        "labels put g known.csv --node #1 --label #2",
        "solve g",
        "predictions g --sort probability:AI --unlabeled --top 10",
    ]
    roles = guessed([pairs, known, points])
    told = {role.table.path.stem: "; ".join(in_words(role, roles)) for role in roles.of_tables}
    assert told["pairs"].startswith("no line of names, so columns are called by their places")
    assert "features need a first line with the names of the columns" in told["points"]
    tiny = tmp_path / "tiny.csv"
    tiny.write_text("1,2\n2,3\n3,1\n")
    assert asked([tiny])[1] == "ingest g tiny.csv --src #1 --dst #2"
    ratings = tmp_path / "ratings.csv"
    ratings.write_text("\n".join(f"A{k % 90},{k % 70:04d},5.0,13{k}" for k in range(N)))
    assert asked([ratings])[1] == "ingest g ratings.csv --src #1 --dst #2"
    u103 = tmp_path / "u103.csv"
    u103.write_text("\n".join(f"u{k % 90 + 103},u{(k + 7) % 90 + 103}" for k in range(N)))
    assert asked([u103])[1] == "ingest g u103.csv --src #1 --dst #2"
    months = tmp_path / "months.csv"
    months.write_text("\n".join(f"p{k},{k % 40},{k / 7}" for k in range(5_000)))
    assert asked([pairs, months])[1:] == ["ingest g pairs.txt --src #1 --dst #2"]


def test_blanks_may_separate_columns_with_names(tmp_path: Path) -> None:
    path = tmp_path / "pairs.txt"
    path.write_text("from to\n" + "\n".join(f"p{k} p{k + 1}" for k in range(N)))
    assert asked([path])[1] == "ingest g pairs.txt --relation pairs --directed --src from --dst to"


def test_two_columns_of_the_same_numbers_are_ends_whatever_they_are_called(tmp_path: Path) -> None:
    paths = written(
        tmp_path,
        pay={"paid_by": numbers(900), "paid_to": numbers(900), "amount": numbers(900, 9_000)},
        known={"account": [3, 5, 33, 40], "kind": ["left", "left", "right", "right"]},
    )
    assert asked(paths)[1:3] == [
        "ingest g pay.csv --src paid_by --dst paid_to",
        "labels put g known.parquet --node account --label kind",
    ]


def test_a_table_may_have_a_column_for_each_word(tmp_path: Path) -> None:
    (path,) = written(tmp_path, words={f"w{place}": [0, 1] for place in range(1_100)})
    assert len(look_at(path).columns) == 1_100


def test_numbers_as_names_of_columns_are_no_rows(tmp_path: Path) -> None:
    paths = written(
        tmp_path,
        edges={"src": numbers(900), "dst": numbers(900)},
        unused={"a": ["x"] * 2},
        points={"": list(range(N)), "0": [k % 2 for k in range(N)], "1": [k % 3 for k in range(N)]},
    )
    assert look_at(paths[2]).has_names


def test_one_column_of_any_name_that_fits_is_proposed_as_labels(tmp_path: Path) -> None:
    tables: dict[str, object] = {
        "follows": {"follower_id": numbers(900), "followee_id": numbers(900)},
        "people": {
            "person_id": list(range(N)),
            "age": numbers(N, 70),
            "city": words("c", N, 5),
            "blorp": ["yes" if k % 3 else "no" for k in range(N)],
        },
    }
    paths = written(tmp_path, **tables)
    roles = guessed(paths)
    assert "--label blorp" in " ".join(asked(paths))
    assert "(blorp, guessed by its values)" in " ".join(in_words(roles.of_tables[1], roles))
    (tmp_path / "two").mkdir()
    tables["sizes"] = {
        "person_id": list(range(N)),
        "size": numbers(N),
        "blurp": some(["hot", "cold"], share=0.2),
    }
    several = written(tmp_path / "two", **tables)
    roles = guessed(several)
    assert roles.classes == {}
    assert {column.name for _, column in roles.candidates} == {"city", "blorp", "blurp"}
    assert guessed(several, "blurp").classes.keys() == {"hot", "cold"}
    assert guessed(paths, "").classes == {}


def test_several_tables_of_features_are_joined_by_their_ids(tmp_path: Path) -> None:
    tables: dict[str, dict[str, object]] = {
        "logins": {"person_id": numbers(900), "device": words("d", 900, 300)},
        "people": {"person_id": list(range(N)), "age": numbers(N, 70), "note": ["x"] * N},
        "jobs": {"person": list(range(N)), "note": words("n", N, 9), "pay": numbers(N, 900)},
        "devices": {"device": [f"d{k}" for k in range(300)], "system": words("s", 300, 4)},
        "known": {"person": list(range(50)), "label": ["bad", "ok"] * 25, "why": words("w", 50, 9)},
    }
    paths = written(tmp_path, **tables)
    (told,) = [each for each in asked(paths) if each.startswith("features")]
    assert told == (
        "features g people.parquet jobs.csv devices.parquet --join --node "
        "person:person_id,person:person,device:device --without people.note"
    )
    roles = guessed(paths)
    assert "features of device (device): system" in list(in_words(roles.of_tables[3], roles))
    why = "not used: why (they stand beside labels of a few, and may come with these)"
    assert why in list(in_words(roles.of_tables[4], roles))
    alone = guessed([paths[0], paths[4]])
    assert "features of person (person): why" in list(in_words(alone.of_tables[1], alone))


def test_what_a_table_lacks_is_told(tmp_path: Path) -> None:
    paths = written(tmp_path, follows={"follower_id": numbers(900), "followee_id": numbers(900)})
    pointed = tmp_path / "pointed.csv"
    pointed.write_text("userId,likes\n" + "".join(f"{k}.0,tea{k % 2}\n" for k in range(N)))
    bare = tmp_path / "bare.csv"
    bare.write_text("src,dst\n")
    roles = guessed([paths[0], pointed, bare])
    assert list(in_words(roles.of_tables[1], roles)) == [
        "ids with a point, as 0.0: userId. Write whole numbers, and try again",
        "not used: likes",
    ]
    assert list(in_words(roles.of_tables[2], roles)) == ["no rows, only the names of columns"]


def test_rows_without_an_end_are_told_and_left_out(tmp_path: Path) -> None:
    paths = written(tmp_path, links={"src": ["a", "b", None], "dst": ["b", None, "c"]})
    assert asked(paths)[1] == "ingest g links.csv --skip-bad-rows 2 --src src --dst dst"
    typed = {"src_kind": ["a"] * 3, "src": ["1", "2", None]}
    typed |= {"dst_kind": ["b"] * 3, "dst": ["7", "8", "9"]}
    assert asked(written(tmp_path, typed=typed))[1] == "ingest g typed.csv --skip-bad-rows 1"
    roles = guessed(paths)
    assert "rows without an id, which are left out: at most 2" in list(
        in_words(roles.of_tables[0], roles)
    )


def test_rows_of_labels_and_features_that_name_no_node_are_told_and_left_out(
    tmp_path: Path,
) -> None:
    users = [f"u{number}" for number in range(N)]
    paths = written(
        tmp_path,
        follows={"src": users, "dst": [*users[1:], users[0]]},
        people={"user": [*users, None], "age": [*range(N), 3]},
        verdicts={"user": [*users[:9], None], "label": ["bot", "human"] * 5},
    )
    _, _, features, labels, *_ = asked(paths)
    assert features.endswith("--node user --missing-ids leave-out")
    assert "--missing-ids leave-out" in labels
    roles = guessed(paths)
    for role in roles.of_tables[1:]:
        assert "rows without an id, which are left out: at most 1" in set(in_words(role, roles))


def of_a_shop() -> dict[str, dict[str, object]]:
    return {
        "logins": {
            "account_id": numbers(900),
            "device_id": words("d", 900, 300),
            "ip": words("10.0.0.", 900, 90),
            "at": [f"2026-01-{1 + k % 28:02d}" for k in range(900)],
            "n_tries": numbers(900, 9),
        },
        "messages": {
            "from": numbers(900),
            "to": numbers(900),
            "sent": [f"2026-01-{1 + k % 28:02d}" for k in range(900)],
        },
        "accounts": {
            "account_id": list(range(N)),
            "age": numbers(N, 70),
            "city": words("c", N, 9),
            "status": some(["good", "bad"], share=0.2),
            "plan": some(["gold", "tin"], share=1.0),
        },
    }


@pytest.mark.parametrize(
    ("changes", "window", "expected"),
    [
        (
            {"logins": TableChange(uses={"ip": "out", "n_tries": "weight"})},
            "",
            "logins.csv --entity account:account_id --via device:device_id --weight n_tries",
        ),
        (
            {"logins": TableChange(kinds={"device_id": "phone"}, uses={"account_id": "src"})},
            "",
            "ingest g logins.csv --entity account:account_id --via phone:device_id,ip:ip",
        ),
        (
            {"logins": TableChange(uses={"ip": "out"}, relation="login", is_directed=True)},
            "",
            "--relation login --directed --src account:account_id --dst device:device_id",
        ),
        (
            {"messages": TableChange(is_directed=False, relation="wrote", kinds={"to": "shop"})},
            "",
            "ingest g messages.parquet --relation wrote --src account:from --dst shop:to",
        ),
        (
            {"messages": TableChange(uses={"to": "src"})},
            "",
            "ingest g messages.parquet --relation messages --src account:to --dst account:from",
        ),
        (
            {"messages": TableChange(uses={"sent": "time"})},
            "30d",
            "--relation messages --directed --src account:from --dst account:to --time sent",
        ),
        (
            {"accounts": TableChange(uses={"age": "out", "city": "feature"})},
            "",
            "features g accounts.csv --node account:account_id --without age,status",
        ),
        (
            {"accounts": TableChange(uses={"city": "id", "status": "feature"})},
            "",
            "ingest g accounts.csv --entity account:account_id --via city:city",
        ),
    ],
)
def test_what_was_guessed_can_be_changed(
    tmp_path: Path, changes: dict[str, TableChange], window: str, expected: str
) -> None:
    paths = written(tmp_path, **of_a_shop())
    made = asked(paths, None, changes, window)
    assert any(each.endswith(expected) for each in made)
    assert ("--window 30d" in made[0]) == bool(window)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (TableChange(uses={"x": "id"}), "use must name one of the columns account_id, .*, got 'x'"),
        (TableChange(kinds={"ip": "1 2"}), "kind of ip in logins.csv must be letters"),
        (TableChange(uses={"ip": "out"}, kinds={"ip": "net"}), "kind of ip in .* make the column"),
        (
            TableChange(uses={"ip": "src", "at": "src"}),
            "one column of logins.csv the src, got ip and at; choose one",
        ),
        (TableChange(uses={"ip": "dst"}), "a column of logins.csv the src, too"),
        (TableChange(relation="login"), "relation must be said of a table with two ends"),
        (TableChange(relation="a b="), "relation must have 1 to 64"),
        (TableChange(is_directed=True), "directed must be said of a table with two ends"),
        (TableChange(uses={"at": "weight"}), "weight in a column of numbers, got at of logins.csv"),
        (TableChange(uses={"at": "feature"}), "feature for at of logins.csv, as account_id stands"),
        (
            TableChange(uses=dict.fromkeys(["device_id", "ip"], "out") | {"at": "time"}),
            "got at of logins.csv, which joins nothing",
        ),
    ],
)
def test_a_change_that_cannot_be_is_told_with_a_way_out(
    tmp_path: Path, change: TableChange, fault: str
) -> None:
    tables = of_a_shop()
    paths = written(tmp_path, logins=tables["logins"])
    with pytest.raises(BadArgument, match=fault):
        guessed(paths, None, {"logins": change})


def test_edges_expire_by_times_that_every_table_of_them_has(tmp_path: Path) -> None:
    tables = of_a_shop() | {"pay": {"payer": numbers(900), "payee": numbers(900)}}
    paths = written(tmp_path, **tables)
    with pytest.raises(BadArgument, match="window must be left out, as no column of pay"):
        guessed(paths, window="30d")
    with pytest.raises(BadArgument, match="window must be seconds, or as 30d"):
        guessed(paths[:3], window="long")
    assert asked(paths[:3], window="30d")[1].endswith("--via device:device_id,ip:ip --time at")
