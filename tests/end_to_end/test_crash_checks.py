"""The checks of the crash test find what they look for."""

from pathlib import Path
from typing import Any, cast

import pytest

from streaming.snapshots import GraphPaths
from tests.end_to_end.crashing.checks import History, check_labels
from tests.end_to_end.crashing.record import LabelBatch, LabelEvent, Record

A, B, C, D = (("a", "red"), ("b", "green"), ("c", "blue"), ("d", None))


def found(events: list[LabelEvent]) -> list[str]:
    """What is wrong with a history of [a, b] without answer, [c] as number 3, [d] as number 4."""
    record = Record(
        label_batches=[
            LabelBatch(events=[A, B]),
            LabelBatch(events=[C], labels_seq=3, accepted=1),
            LabelBatch(events=[D], labels_seq=4, accepted=1, is_removal=True),
        ]
    )
    no_graph = cast("Any", None)
    paths = GraphPaths(root=Path("nowhere"))
    history = History(graph=no_graph, events=events, absorbed=(), paths=paths)
    return list(check_labels(record, history))


def test_whole_batches_in_order_are_right() -> None:
    assert found([A, B, C, D]) == []


@pytest.mark.parametrize(
    ("events", "wrong"),
    [
        ([A, B, C], "is lost"),
        ([A, B, D, C], "is lost"),
        ([A, C, D], "is lost"),
        ([B, A, C, D], "part of no whole batch"),
        ([A, B, C, D, A], "part of no whole batch"),
        ([A, B, C, D, A, B], "part of no whole batch"),
    ],
)
def test_a_lost_a_torn_and_a_doubled_batch_are_found(events: list[LabelEvent], wrong: str) -> None:
    assert any(wrong in each for each in found(events))
