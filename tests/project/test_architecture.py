"""The walk for a newcomer: every file that it names is there, in the numbers promised."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/architecture.md").read_text()


@pytest.mark.parametrize(
    ("journey", "at_most"),
    [
        ("One label, from PUT to prediction", 15),
        ("One block of edges, from Parquet to a snapshot", 20),
    ],
)
def test_each_journey_names_few_files_that_are_there(journey: str, at_most: int) -> None:
    text = PAGE.split(f"### {journey}\n")[1].split("\n#")[0]
    named = re.findall(r"(?m)^\d+\. `([\w/]+\.py)`", text)
    assert len(named) == len(set(named)) == len(re.findall(r"(?m)^\d+\. ", text))
    assert 10 <= len(named) <= at_most
    assert [name for name in named if not (ROOT / name).is_file()] == []
