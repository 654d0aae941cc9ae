"""Decodes damaged bodies as the routes do, in a process of its own that may crash.

`python -m tests.service.decoding SEED FIRST COUNT STATE` writes the number that it is at to the
file STATE before it decodes it, and prints what it saw as JSON. A body that takes too long ends the
process by SIGALRM.
"""

import gc
import io
import json
import os
import re
import resource
import signal
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import psutil
import pyarrow as pa

from peewit.service.api.bodies import BodyTooLarge, unpack
from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import open_database
from peewit.service.graph_settings import GraphSettings
from peewit.service.inbox.feature_tables import table_blocks
from peewit.service.predictions.checked_points import checked_points
from peewit.service.tables.uploads import (
    BadUpload,
    LabelValue,
    NodeId,
    UploadLimits,
    edge_batches,
    point_batches,
    read_labels,
)
from peewit.streaming.edges.blocks import MAX_NODE_BYTES, BadEdges, RawBlock
from peewit.streaming.edges.columns import read_columns
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.features.checked_tables import BadFeatures
from tests.fresh_databases import fresh
from tests.service.damaged import Sent, damaged

LIMIT_SECONDS: Final = 60
WARM: Final = 1_000
MAX_NODES: Final = 1_000
MAX_FAULTS: Final = 20
_LIMITS: Final = UploadLimits(
    rows=1_000_000, label_rows=100_000, columns=10_000, decoded_bytes=2**28, batch_bytes=2**26
)
_EXPLAINS: Final = re.compile(r"[a-z]+ .*[a-z]+", re.DOTALL)


def decode(sent: Sent) -> None:
    """Decode a body; AssertionError where it is taken and breaks the contract."""
    match sent.use:
        case "edges":
            _edges(sent)
        case "features":
            for block in table_blocks(_graph(sent.node_kind), *_opened(sent), limits=_LIMITS):
                _check_nodes(block.nodes, sent, block.n_rows)
                _check_values(block.values, block.n_rows)
        case "labels":
            found = read_labels(*_opened(sent), sent.node_kind, limits=_LIMITS)[""]
            for node, label in zip(found.nodes, found.labels, strict=True):
                _check_label(node, label, sent)
        case _:
            batches = point_batches(*_opened(sent), sent.node_kind, limits=_LIMITS)
            for block in checked_points(batches, n_columns=4, model="svm"):
                _check_values(block.features, block.features.shape[0])
                assert block.features.shape[1] == 4


def _opened(sent: Sent) -> tuple[Any, Any]:
    if sent.encoding is None:
        return io.BytesIO(sent.content), sent.table_format
    plain = io.BytesIO()
    unpack(io.BytesIO(sent.content), sent.encoding, plain, _LIMITS.decoded_bytes)
    return plain, sent.table_format


def _edges(sent: Sent) -> None:
    first_row = 0
    for batch in edge_batches(*_opened(sent), sent.node_kind, limits=_LIMITS):
        block: RawBlock = read_columns(
            batch, node_kind=sent.node_kind, max_nodes=MAX_NODES, first_row=first_row
        )
        first_row += block.n_rows
        assert block.weight.dtype == np.float32
        assert np.isfinite(block.weight).all()
        assert (block.weight >= 0).all()
        for ids in (block.src, block.dst):
            _check_nodes(ids, sent, block.n_rows)


def _check_nodes(ids: pa.Array, sent: Sent, n_rows: int) -> None:
    ids.validate(full=True)
    assert len(ids) == n_rows
    assert ids.null_count == 0
    values = ids.to_pylist()
    if sent.node_kind == "string":
        assert all(len(value.encode()) <= MAX_NODE_BYTES for value in values)
    elif sent.node_kind == "int64":
        assert ids.type == pa.int64()
    else:
        assert ids.type == pa.int32()
        assert all(0 <= value < MAX_NODES for value in values)


def _check_values(values: Any, n_rows: int) -> None:
    assert values.shape[0] == n_rows
    assert values.dtype == np.float32
    numbers = values if isinstance(values, np.ndarray) else values.data
    assert np.isfinite(numbers).all()


def _check_label(node: NodeId, label: LabelValue, sent: Sent) -> None:
    wanted = str if sent.node_kind == "string" else int
    assert type(node) is wanted
    if isinstance(label, str):
        label.encode()
        assert label
    else:
        assert type(label) in {int, float}
        assert np.isfinite(label)


@cache
def _graph(node_kind: NodeKind) -> GraphRecord:
    with TemporaryDirectory() as directory:
        database = open_database(fresh(f"sqlite:///{directory}/peewit.db"))
        settings = GraphSettings(name="g", node_ids=node_kind, max_nodes=MAX_NODES)
        record = Catalog(database).create(settings)
        database.close()
    return record


def run(seed: int, first: int, count: int, state: Path) -> dict[str, Any]:
    """What became of some bodies, and what they left behind."""
    outcomes: Counter[str] = Counter()
    faults: list[str] = []
    process, warm_bytes = psutil.Process(), 0
    arrow_bytes = pa.total_allocated_bytes()
    with state.open("wb", buffering=0) as told:
        for number in range(first, first + count):
            if number == first + min(WARM, count // 2):
                warm_bytes = _resident(process)
            os.pwrite(told.fileno(), b"%020d" % number, 0)
            sent = damaged(seed, number)
            signal.alarm(LIMIT_SECONDS)
            outcome, fault = _outcome(sent)
            signal.alarm(0)
            outcomes[f"{sent.use} {outcome}"] += 1
            if fault:
                faults.append(f"{seed}/{number} {sent.name}: {fault}")
    grown_bytes = _resident(process) - warm_bytes
    return {
        "outcomes": outcomes,
        "faults": faults[:MAX_FAULTS],
        "n_faults": len(faults),
        "grown_bytes": grown_bytes,
        "arrow_bytes": pa.total_allocated_bytes() - arrow_bytes,
    }


def _outcome(sent: Sent) -> tuple[str, str | None]:
    try:
        decode(sent)
    except (BadUpload, BadEdges, BadFeatures, BodyTooLarge) as error:
        told = str(error)
        return "refused", None if _EXPLAINS.search(told) else f"explains nothing: {told!r}"
    except Exception as error:  # noqa: BLE001 - any other is what is looked for
        return "fault", f"{type(error).__name__}: {str(error)[:300]}"
    return "taken", None


def _resident(process: psutil.Process) -> int:
    gc.collect()
    pa.default_memory_pool().release_unused()
    return int(process.memory_info().rss)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
    seed, first, count = map(int, sys.argv[1:4])
    sys.stdout.write(json.dumps(run(seed, first, count, Path(sys.argv[4]))))
