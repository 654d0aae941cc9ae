"""What people are told of an answer that they asked to be judged."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.service.cli.conftest import Peewit


@pytest.mark.usefixtures("processes")
def test_what_was_asked_of_the_answer_is_told(peewit: Peewit, tmp_path: Path) -> None:
    edges = tmp_path / "edges.parquet"
    pairs = [(a, b) for first in (0, 8) for a in range(first, first + 8) for b in range(first, a)]
    src, dst = zip(*pairs, (0, 8), strict=True)
    pq.write_table(pa.table({"src": src, "dst": dst}), edges)
    labels = tmp_path / "labels.csv"
    labels.write_text("node,label\n1,x\n2,x\n3,x\n9,y\n10,y\n11,y\n12,odd\n")
    peewit("graph", "create", "g", "--node-ids", "int64", "--expected-nodes", 20)
    peewit("ingest", "g", edges)
    peewit("labels", "put", "g", labels)
    options = ("--set", "bound=true", "--set", "variance=true", "--set", "cross_validate=3")
    done = peewit("solve", "g", "--model", "stable-hfs", "--set", "graph_penalty=1", *options)
    told = " ".join((done.out + done.err).split())
    assert done.exit_code == 0
    assert "cross-validated accuracy 1 over 6 labels in 3 folds" in told
    assert "never left out, since they have one label: odd" in told
    assert "a diagnostic, not a certificate" in told
    assert "variances have a standard deviation of 12.5% or less" in told
    assert "variance" in peewit("predictions", "g").out.splitlines()[0]
