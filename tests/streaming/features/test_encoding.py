"""Encoding of tables as they come: what columns become, alike for all rows."""

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from peewit.streaming.features.checked_tables import BadFeatures, encoding_of, read_features
from peewit.streaming.features.encoding import ColumnWishes, Encoding, encoded_batch
from peewit.streaming.features.feature_files import write_set


def encoded(
    columns: dict[str, Any], sample: dict[str, Any] | None = None
) -> dict[str, list[float]]:
    encoding = Encoding.of(pa.table(sample or columns))
    values = encoding.encode(pa.record_batch(columns), 0)
    return {name: values[:, place].tolist() for place, name in enumerate(encoding.names)}


def test_each_kind_of_column_has_its_features() -> None:
    found = encoded(
        {
            "amount": [1.0, 2.0, None, 3.0],
            "country": ["DE", "FR", "DE", " NULL "],
            "is_new": [True, False, None, True],
            "same": ["x"] * 4,
        }
    )
    assert list(found) == [
        "amount",
        "amount missing",
        "country=DE",
        "country=FR",
        "country missing",
        "is_new",
        "is_new missing",
    ]
    assert found["amount missing"] == [0, 0, 1, 0]
    assert found["amount"][1:3] == [0, 0]  # the median, and what is missing
    assert found["amount"][0] == -found["amount"][3] < 0
    assert (found["country=DE"], found["country missing"]) == ([1, 0, 1, 0], [0, 0, 0, 1])
    assert (found["is_new"], found["is_new missing"]) == ([1, 0, 0, 1], [0, 0, 1, 0])


def test_numbers_far_off_stay_near() -> None:
    found = encoded({"x": [*range(100), 10**9]})["x"]
    assert max(found) == pytest.approx(3.0)
    assert np.all(np.diff(found) > 0)


def test_text_of_numbers_truth_and_times_is_read_as_such() -> None:
    text = {
        "n": ["1", "2.5", "", "nan"],
        "ok": ["yes", "No", "yes", "no"],
        "at": ["2024-01-01", "2024-01-02T12:00:00", "2024-03-01", ""],
    }
    typed = {
        "n": [1.0, 2.5, None, None],
        "ok": [True, False, True, False],
        "at": pa.array(["2024-01-01", "2024-01-02T12:00", "2024-03-01", None]).cast(
            pa.timestamp("s")
        ),
    }
    assert encoded(text) == encoded(typed)
    assert (
        encoded({"at": [date(2024, 1, 1), date(2024, 1, 4)]})["at sine of day"]
        == [pytest.approx(0, abs=1e-6)] * 2
    )


def test_many_words_are_hashed_and_names_of_rows_left_out() -> None:
    n = 1000
    table = pa.table({"city": [f"c{i % 300}" for i in range(n)], "id": [f"u{i}" for i in range(n)]})
    encoding = Encoding.of(table)
    assert encoding.left_out == ("id",)
    assert {each.kind for each in encoding.columns} == {"hashed"}
    values = encoding.encode(table.combine_chunks().to_batches()[0], 0)
    assert (values.sum(axis=1) == 1).all()
    assert "left out, as they hold one value, or another in nearly every row: 'id'" in (
        encoding.note()
    )


def test_a_stray_word_among_numbers_is_refused_with_its_row() -> None:
    income = [str(k / 7) for k in range(100)]
    for stray in ("n.n.", "1,234"):
        income[70] = stray
        with pytest.raises(BadFeatures, match="'income' must hold numbers in every row") as caught:
            Encoding.of(pa.table({"income": income}))
        assert (caught.value.row, caught.value.value) == (70, repr(stray))
    income[70] = "NA"
    assert Encoding.of(pa.table({"income": income})).columns[0].may_be_missing


@pytest.mark.parametrize("text", ["{}%", "${}", "{},5", "{}.12.2020", "{} \u20ac"])
def test_words_that_look_like_numbers_are_told(text: str) -> None:
    words = [text.format(k) for k in range(10, 60)]
    for column in (words, words * 4, [*words, "x"]):
        encoding = Encoding.from_json(
            Encoding.of(pa.table({"x": column, "y": range(len(column))})).to_json()
        )
        said = f"'x' holds words that look like numbers or dates, as {words[0]!r}"
        assert said + (", but for 'x' in row 50" * (len(column) == 51)) in encoding.note()
    classes = {"x": ["high", "low", "7"] * 20, "y": ["a1", "a2", "1"] * 20}
    assert "look like" not in Encoding.of(pa.table(classes)).note()


@pytest.mark.parametrize("texts", [(), ("about",)])
def test_columns_that_are_called_as_labels_and_numbers_of_rows_are_told(
    tmp_path: Path, texts: tuple[str, ...]
) -> None:
    """Rows are dense, or sparse where there are texts."""
    words = {"label": ["good", "bad"] * 5, "row": list(range(10)), "about": ["a b", "c"] * 5}
    raw = pa.record_batch({"node": [str(k) for k in range(10)], **words})
    batches = encoded_batch(raw, Encoding.of(pa.table(words), ColumnWishes(texts=texts)), "node", 0)
    blocks = [read_features(each, node_kind="string", max_nodes=10) for each in batches]
    note = write_set(tmp_path / "set", blocks).note
    assert note is not None
    assert "column 'row' counts the rows" in note
    assert "column 'label' is called as labels are" in note


def test_columns_that_nobody_wants_become_no_features() -> None:
    table = pa.table({"amount": [0.0, 1.0, 2.0], "is_fraud": [0.0, 1.0, 0.0]})
    encoding = Encoding.of(table, ColumnWishes(without=("is_fraud",)))
    assert encoding.names == ("amount",)
    assert encoding.unwanted == ("is_fraud",)
    assert Encoding.from_json(encoding.to_json()) == encoding
    with pytest.raises(ValueError, match=r"without must name columns of the table, .* got 'fraud'"):
        Encoding.of(table, ColumnWishes(without=("fraud",)))


def test_rows_that_come_later_are_encoded_alike() -> None:
    first = {"amount": [0.0, 1.0, 2.0], "country": ["DE", "FR", "DE"]}
    stored = Encoding.from_json(Encoding.of(pa.table(first)).to_json())
    assert stored == Encoding.of(pa.table(first))
    later = stored.encode(pa.record_batch({"country": ["US", "FR"], "amount": [1.0, None]}), 0)
    assert later.tolist() == [[0, 0, 0], [0, 0, 1]]  # by name; an unknown word has no feature
    with pytest.raises(BadFeatures, match="'country' is missing"):
        stored.encode(pa.record_batch({"amount": [1.0]}), 0)
    with pytest.raises(BadFeatures, match=r"must hold numbers.* got 'many' in row 8"):
        stored.encode(pa.record_batch({"country": ["DE", "DE"], "amount": ["1", "many"]}), 7)


@pytest.mark.parametrize("n_words", [3, 40])
def test_batches_are_tables_of_features(n_words: int) -> None:
    n = 20_000
    words = {f"w{k}": [f"v{i % n_words}" for i in range(n)] for k in range(8)}
    raw = pa.record_batch({"node": [str(i) for i in range(n)], **words})
    encoding = Encoding.of(pa.table(words))
    first_row = 0
    for batch in encoded_batch(raw, encoding, "node", 0):
        block = read_features(batch, node_kind="string", max_nodes=n, first_row=first_row)
        assert block.is_sparse == (len(encoding.names) > 256)
        expected = encoding.encode(raw.slice(first_row, block.n_rows), first_row)
        values = block.values.toarray() if block.is_sparse else block.values
        assert np.array_equal(values, expected[:, : values.shape[1]])
        assert encoding_of(batch.schema) == encoding.to_json()
        first_row += block.n_rows
    assert first_row == n


def test_a_table_that_says_nothing_is_refused() -> None:
    with pytest.raises(BadFeatures, match="a column that differs between rows"):
        Encoding.of(pa.table({"a": [1, 1], "b": ["x", "x"]}))


def test_an_encoded_row_is_told_as_it_came() -> None:
    amounts = [0.5, 12.0, 900.0, None, 1e6]
    table = pa.table({"amount": amounts, "country": list("abaab"), "is_new": [True] + [False] * 4})
    encoding = Encoding.of(table)
    rows = encoding.encode(table.to_batches()[0], 0).astype(float)
    told = [dict(zip(encoding.names, encoding.decoded(row), strict=True)) for row in rows]
    for row, amount in zip(told[:3], amounts, strict=False):
        assert row["amount"] == pytest.approx(amount, rel=1e-2)
    assert (told[3]["amount"], told[3]["amount missing"]) == (None, 1.0)
    assert told[4]["amount"] > 900.0  # so far off that it is squashed
    assert [row["country=b"] for row in told] == [0.0, 1.0, 0.0, 0.0, 1.0]
    assert [row["is_new"] for row in told] == [1.0, 0.0, 0.0, 0.0, 0.0]


def test_words_of_texts_and_pairs_of_words_become_features_of_length_one() -> None:
    texts = ["Fast bike, fast sale!", None, "", "old lamp", "FAST bike fast sale"]
    encoding = Encoding.of(pa.table({"about": texts, "x": range(5)}), ColumnWishes(texts=["about"]))
    assert encoding.texts == ("about",)
    assert len(encoding.names) == 256 + 1 + 1
    rows = encoding.encode(pa.record_batch({"about": texts, "x": range(5)}), 0)
    words, missing = rows[:, :256], rows[:, 256]
    assert missing.tolist() == [0, 1, 1, 0, 0]
    np.testing.assert_allclose(np.square(words).sum(axis=1), [1, 0, 0, 1, 1], rtol=1e-6)
    np.testing.assert_array_equal(words[0], words[4])  # signs and capital letters say nothing
    assert sorted(np.square(words[0])[words[0] > 0].round(3)) == [0.143] * 5 + [0.286]
    assert sorted(np.square(words[3])[words[3] > 0].round(3)) == [0.333] * 3
    assert "1 of texts" in encoding.note()
    again = Encoding.from_json(encoding.to_json())
    np.testing.assert_array_equal(
        again.encode(pa.record_batch({"about": texts, "x": range(5)}), 0), rows
    )
    with pytest.raises(
        BadFeatures, match="text must name columns of the table, which has 'x', got 'about'"
    ):
        Encoding.of(pa.table({"x": range(5)}), ColumnWishes(texts=["about"]))


def test_no_statistic_is_the_value_of_a_row() -> None:
    """Neither a quartile of few rows nor the one that differs from all others."""
    quartiles, extreme = [1.2345, 2.3456, 3.4567], [0.0] * 99 + [123456.0]
    for values in (quartiles, extreme, [-each for each in extreme]):
        (column,) = Encoding.of(pa.table({"x": values})).columns
        held = {*values, *(each / 2 for each in values)} - {0.0}
        assert not held & {column.center, column.scale}
        assert 0.7 < column.scale / (1.11 if values is quartiles else 61728.0) < 1.5
    days = {"at": [date(2024, 1, 1), date(2024, 3, 9), date(2025, 7, 23)]}
    assert Encoding.of(pa.table(days)).columns[0].center == 19790.0  # not the 19791st day


def test_words_that_go_leave_their_places_and_rows_are_encoded_as_before() -> None:
    words = {"friend": ["ann", "bob", "bob"], "town": ["Oslo", "Rome", "Zaphodville"]}
    encoding = Encoding.of(pa.table(words))
    values = encoding.encode(pa.record_batch(words), 0)
    left = encoding.without({"ann"}, [values[:2]])
    assert left == Encoding.from_json(left.to_json())
    assert left.names == (
        "friend (erased 0)", "friend=bob", "town=Oslo", "town=Rome", "town (erased 2)"
    )  # fmt: skip
    assert left.is_erased.tolist() == [True, False, False, False, True]
    again = left.encode(pa.record_batch(words), 0)
    assert again.tolist() == [[0, 0, 1, 0, 0], [0, 1, 0, 1, 0], [0, 1, 0, 0, 0]]
    assert left.agrees_with(encoding)
    assert encoding.agrees_with(left)
    others = Encoding.of(pa.table(words | {"town": ["Oslo", "Rome", "Paris"]}))
    assert not left.agrees_with(others)
    assert left.without({"ann"}, [again]) == left
