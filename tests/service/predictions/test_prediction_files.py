"""Prediction files: what a row holds, in every kind of model, and how rows are found."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.service.predictions.prediction_files import (
    MAX_SCORE_COLUMNS,
    ROWS_PER_BATCH,
    FileScoreKind,
    PredictionFile,
    PredictionMeta,
    score_column,
    write_predictions,
)

META = PredictionMeta(
    graph_id="g",
    job_id="abc123",
    attempt=2,
    model="hfs",
    parameters={"rtol": 1e-6},
    snapshot=4,
    labels_seq=17,
    features_version=0,
    epsilon_asked=0.7,
    epsilon_expected=0.65,
    solver_status="converged",
    score="class score",
    class_names=("cat", "dog", "eel"),
)
SCORES = np.array([[0.1, 0.7, 0.2], [0.5, 0.1, 0.4], [0.2, 0.3, 0.5]])
REACHABLE = np.array([True, True, False])
NODES = pa.array(["x", "y", "z"], pa.large_string())


def written(directory: Path, meta: PredictionMeta = META) -> PredictionFile:
    path = write_predictions(directory, meta, nodes=NODES, scores=SCORES, reachable=REACHABLE)
    return PredictionFile(path)


def test_a_row_holds_winner_score_margin_and_the_score_of_every_class(tmp_path: Path) -> None:
    table = written(tmp_path).table()
    assert table["node"].to_pylist() == ["x", "y", "z"]
    assert table["label"].to_pylist() == ["dog", "cat", None]
    assert table["reachable"].to_pylist() == [True, True, False]
    np.testing.assert_allclose(table["score"].to_numpy(), [0.7, 0.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(table["margin"].to_numpy(), [0.5, 0.1, 0.0], rtol=1e-6)
    scores = np.column_stack([table[f"score:{name}"].to_numpy() for name in META.class_names])
    np.testing.assert_allclose(scores, SCORES, rtol=1e-6)


def test_the_schema_says_what_the_predictions_were_made_of(tmp_path: Path) -> None:
    file = written(tmp_path)
    assert file.meta == META
    assert file.path.name == "abc123-2.arrow"
    assert list(tmp_path.iterdir()) == [file.path]


@pytest.mark.parametrize(
    ("class_names", "shown"),
    [
        ((3, 5, 9), [5, 3, None]),
        (("3", "5", "9"), ["5", "3", None]),
        ((3, "five", 9), ["five", "3", None]),
    ],
)
def test_labels_come_back_as_they_were_given(
    tmp_path: Path, class_names: tuple[str | int, ...], shown: list[str | int | None]
) -> None:
    file = written(tmp_path, replace(META, class_names=class_names))
    assert file.table()["label"].to_pylist() == shown
    assert file.meta.class_names == class_names


def test_classes_that_show_alike_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="got 3 both as a number and as a string"):
        written(tmp_path, replace(META, class_names=(3, "3", 4)))


def test_arrays_that_disagree_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must agree, got 2 nodes"):
        write_predictions(tmp_path, META, nodes=NODES[:2], scores=SCORES, reachable=REACHABLE)


def test_many_classes_have_no_column_each(tmp_path: Path) -> None:
    n_classes = MAX_SCORE_COLUMNS + 1
    meta = replace(META, class_names=tuple(range(n_classes)))
    path = write_predictions(
        tmp_path, meta, nodes=NODES, scores=np.eye(3, n_classes), reachable=REACHABLE
    )
    assert PredictionFile(path).schema.names == ["node", "label", "score", "margin", "reachable"]


def numbers_written(directory: Path) -> PredictionFile:
    meta = replace(META, score="value", class_names=())
    values = np.array([[0.1], [-7.0], [2.5]])
    path = write_predictions(directory, meta, nodes=NODES, scores=values, reachable=REACHABLE)
    return PredictionFile(path)


def test_a_row_of_numbers_holds_the_number_as_label_and_score(tmp_path: Path) -> None:
    file = numbers_written(tmp_path)
    table = file.table()
    assert table.schema.names == ["node", "label", "score", "margin", "reachable"]
    assert table["label"].type == pa.float64()
    assert table["label"].to_pylist() == [0.1, -7.0, None]
    np.testing.assert_array_equal(table["score"], np.array([0.1, -7.0, 2.5], np.float32))
    assert table["margin"].to_pylist() == [None, None, None]
    assert table["reachable"].to_pylist() == REACHABLE.tolist()
    assert (file.meta.score, file.meta.class_names) == ("value", ())
    assert file.lookup(np.array([1])) == [
        {
            "node": "y",
            "label": -7.0,
            "score": -7.0,
            "margin": None,
            "reachable": True,
            "variance": None,
            "stability": None,
            "proven": None,
            "scores": None,
            "p_values": None,
            "labels": None,
            "certain": None,
        }
    ]


def test_numbers_need_one_column(tmp_path: Path) -> None:
    meta = replace(META, score="value", class_names=())
    with pytest.raises(ValueError, match=r"must agree, got 3 nodes, scores of shape \(3, 3\)"):
        write_predictions(tmp_path, meta, nodes=NODES, scores=SCORES, reachable=REACHABLE)


def test_files_that_call_probabilities_scores_are_read_as_before(tmp_path: Path) -> None:
    """Those of earlier versions."""
    meta = replace(META, score="probability")
    path = write_predictions(
        tmp_path, meta, nodes=NODES, scores=np.eye(3), reachable=np.ones(3, bool)
    )
    new = PredictionFile(path)
    names = [name.replace("probability", "score") for name in new.schema.names]
    old = new.table().rename_columns(names).replace_schema_metadata(new.schema.metadata)
    path.unlink()
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, old.schema) as writer:
        writer.write_table(old)
    found = PredictionFile(path)
    assert found.score_column == "score"
    assert [each["scores"] for each in found.lookup(np.arange(3))] == [
        each["scores"] for each in new.lookup(np.arange(3))
    ]


def test_probabilities_stay_between_nothing_and_one(tmp_path: Path) -> None:
    """The solver's tolerance may leave the interval."""
    beyond = np.array([[1 + 1e-6, -1e-6, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    kinds: tuple[tuple[FileScoreKind, float], ...] = (("probability", 0.0), ("class score", -1e-6))
    for kind, least in kinds:
        path = write_predictions(
            tmp_path, replace(META, score=kind), nodes=NODES, scores=beyond, reachable=REACHABLE
        )
        table = PredictionFile(path).table()
        name = score_column(kind)
        assert table[f"{name}:dog"].to_numpy().min() == np.float32(least)
        assert (table[name].to_numpy().max() > 1) == (kind == "class score")


@pytest.fixture(scope="module")
def long_file(tmp_path_factory: pytest.TempPathFactory) -> PredictionFile:
    """Three batches; the score tells the row."""
    n_nodes = 2 * ROWS_PER_BATCH + 5
    rows = np.arange(n_nodes, dtype=np.float64)
    path = write_predictions(
        tmp_path_factory.mktemp("long"),
        replace(META, class_names=("low", "high")),
        nodes=pa.chunked_array(
            [pa.array(np.arange(n_nodes // 2)), pa.array(np.arange(n_nodes // 2, n_nodes))]
        ),
        scores=np.column_stack([np.full(n_nodes, -1.0), rows]),
        reachable=np.ones(n_nodes, dtype=bool),
    )
    return PredictionFile(path)


def test_batches_together_are_the_table(long_file: PredictionFile) -> None:
    assert long_file.n_nodes == 2 * ROWS_PER_BATCH + 5
    assert pa.Table.from_batches(long_file.batches()).equals(long_file.table())


@given(rows=st.lists(st.integers(0, 2 * ROWS_PER_BATCH + 4), max_size=20))
def test_a_lookup_gives_the_rows_asked_for_in_their_order(
    long_file: PredictionFile, rows: list[int]
) -> None:
    found = long_file.lookup(np.array(rows, dtype=np.int64))
    assert [each["node"] for each in found] == rows
    assert [each["score"] for each in found] == rows
    assert [each["label"] for each in found] == ["high"] * len(rows)


@pytest.mark.parametrize("row", [-1, 3])
def test_a_lookup_outside_the_snapshot_is_refused(tmp_path: Path, row: int) -> None:
    with pytest.raises(IndexError, match=r"must lie in \[0, 3\)"):
        written(tmp_path).lookup(np.array([0, row]))


def test_a_reader_keeps_a_file_that_is_removed(tmp_path: Path) -> None:
    file = written(tmp_path)
    file.path.unlink()
    assert file.lookup(np.array([1]))[0]["label"] == "cat"


@pytest.mark.parametrize("n_asked", [1, 3])
def test_a_lookup_has_the_values_of_the_table_ready_for_json(tmp_path: Path, n_asked: int) -> None:
    path = write_predictions(
        tmp_path,
        META,
        nodes=NODES,
        scores=SCORES,
        reachable=REACHABLE,
        variance=np.array([0.1, 0.2, 0.3], np.float32),
    )
    rows = [2, 0, 1][:n_asked]
    file = PredictionFile(path)
    found = orjson.loads(
        orjson.dumps(file.lookup(np.array(rows)), option=orjson.OPT_SERIALIZE_NUMPY)
    )
    table = file.table().to_pylist()
    for row, prediction in zip(rows, found, strict=True):
        expected = table[row]
        for name in ("node", "label", "score", "margin", "reachable", "variance"):
            assert (
                np.float32(prediction[name]) == expected[name]
                if isinstance(expected[name], float)
                else prediction[name] == expected[name]
            )
        assert list(prediction["scores"]) == list(META.class_names)
        assert list(prediction["scores"].values()) == SCORES[row].tolist()  # as short as they were


def test_integers_beyond_the_floats_are_strings_in_json(tmp_path: Path) -> None:
    large = 2**53 + 1
    path = write_predictions(
        tmp_path,
        replace(META, class_names=(large, -large, 1)),
        nodes=pa.array([large, 2**53, -large]),
        scores=SCORES,
        reachable=REACHABLE,
    )
    found = PredictionFile(path).lookup(np.array([0, 1, 2]))
    assert [each["node"] for each in found] == [str(large), 2**53, str(-large)]
    assert [each["label"] for each in found] == [str(-large), str(large), None]


@pytest.mark.parametrize("n_rows", [0, 3])
def test_the_stream_is_the_table_bit_for_bit(tmp_path: Path, n_rows: int) -> None:
    path = write_predictions(
        tmp_path, META, nodes=NODES[:n_rows], scores=SCORES[:n_rows], reachable=REACHABLE[:n_rows]
    )
    file = PredictionFile(path)
    streamed = pa.ipc.open_stream(b"".join(file.stream())).read_all()
    assert streamed.equals(file.table(), check_metadata=True)


def test_a_long_stream_comes_in_pieces(long_file: PredictionFile) -> None:
    pieces = list(long_file.stream())
    assert len(pieces) > 2
    assert max(map(len, pieces)) <= 1 << 20
    streamed = pa.ipc.open_stream(b"".join(pieces)).read_all()
    assert streamed.equals(long_file.table(), check_metadata=True)


def test_hidden_nodes_have_nothing_and_others_keep_their_places(tmp_path: Path) -> None:
    whole = written(tmp_path)
    file = PredictionFile(whole.path, np.array([1, 7]))
    assert whole.has_all_nodes
    assert not file.has_all_nodes
    assert file.key != whole.key
    assert (file.n_nodes, file.schema) == (3, whole.schema)
    blank, kept = file.lookup(np.array([1, 2]))
    assert (blank["node"], blank["label"], blank["reachable"]) == (None, None, False)
    assert not any(blank["scores"].values())
    assert kept == whole.lookup(np.array([2]))[0]
    (shown,) = file.shown()
    assert shown.schema == whole.schema
    assert shown.to_pylist() == whole.table().take([0, 2]).to_pylist()
    assert PredictionFile(whole.path).table() == whole.table(), "the file is as it was"


def test_erased_nodes_leave_no_byte_in_the_file(tmp_path: Path) -> None:
    names = pa.array(["x", "somebody-else", "z"], pa.large_string())
    path = write_predictions(tmp_path, META, nodes=names, scores=SCORES, reachable=REACHABLE)
    PredictionFile(path).erase(np.array([1, 99]))
    assert b"somebody-else" not in path.read_bytes()
    left = PredictionFile(path)
    assert [each["node"] for each in left.lookup(np.arange(3))] == ["x", None, "z"]
    assert left.meta == META
    inode = path.stat().st_ino
    left.erase(np.array([1]))
    assert path.stat().st_ino == inode, "done again, nothing is written"


def test_nodes_without_a_name_are_written_as_erased(tmp_path: Path) -> None:
    names = pa.array(["x", None, "z"], pa.large_string())
    path = write_predictions(tmp_path, META, nodes=names, scores=SCORES, reachable=np.ones(3, bool))
    file = PredictionFile(path)
    assert not file.has_all_nodes
    (shown,) = file.shown()
    assert shown.column("node").to_pylist() == ["x", "z"]
    assert not file.lookup(np.array([1]))[0]["reachable"]
