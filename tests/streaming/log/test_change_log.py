"""The log of a graph: what it holds, what lives of it, and what is written anew."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.edges.time_units import NEVER
from peewit.streaming.kernels import pair_positions
from peewit.streaming.log.change_log import NO_NODES, ChangeLog
from peewit.streaming.log.live_edges import compacted, live_blocks
from peewit.streaming.log.logged_files import DeadRows, LogDamaged, LogFileMissing
from peewit.streaming.passes import delete_matching
from peewit.streaming.passes.delete_matching import MatchedDeletes, Survey, match_deletes
from peewit.streaming.passes.expiry import expired_edges
from tests.streaming.graphs import edge_block

N_NODES = 30
N_EDGES = 600
"""About as many as two files have, so that scans have two spans."""

Pair = tuple[int, int]


def nodes(pairs: list[Pair], side: int) -> np.ndarray:
    return np.array([pair[side] for pair in pairs], np.int32)


def block_of(pairs: list[Pair]) -> EdgeBlock:
    return edge_block(nodes(pairs, 0), nodes(pairs, 1), np.arange(1.0, 1.0 + len(pairs)))


def write(
    log: ChangeLog, digest: str, blocks: list[tuple[list[Pair], list[Pair]]], *, replaces: bool
) -> None:
    """Blocks of added and deleted pairs."""
    with log.writing(digest, replaces=replaces) as writer:
        for added, deleted in blocks:
            writer.append(block_of(added), nodes(deleted, 0), nodes(deleted, 1))


def random_blocks(seed: int) -> list[tuple[list[Pair], list[Pair]]]:
    """Blocks that add different pairs, and delete some."""
    rng = np.random.default_rng(seed)
    blocks = []
    for _ in range(6):
        added = {tuple(sorted(rng.choice(N_NODES, 2, replace=False).tolist())) for _ in range(40)}
        deleted = {tuple(rng.choice(N_NODES, 2, replace=False).tolist()) for _ in range(5)}
        blocks.append((sorted(added), sorted(deleted)))
    return blocks


def lives(log: ChangeLog, digests: list[str], dead: DeadRows) -> list[tuple[int, int, float]]:
    found = []
    for _, block in live_blocks(log, digests, dead):
        columns = (block.u.tolist(), block.v.tolist(), block.weight.tolist())
        found += list(zip(*columns, strict=True))
    return found


def twin(
    files: list[list[tuple[list[Pair], list[Pair]]]], *, replaces: bool
) -> list[tuple[int, int, float]]:
    alive: list[tuple[int, int, float]] = []
    for blocks in files:
        for added, deleted in blocks:
            gone = {frozenset(pair) for pair in deleted}
            if replaces:
                gone |= {frozenset(pair) for pair in added}
            alive = [edge for edge in alive if frozenset(edge[:2]) not in gone]
            alive += [(u, v, 1.0 + row) for row, (u, v) in enumerate(added)]
    return alive


@pytest.fixture
def log(tmp_path: Path) -> ChangeLog:
    return ChangeLog(tmp_path / "log")


def resolved(log: ChangeLog, digests: list[str], n_resolved: int, version: int) -> MatchedDeletes:
    return match_deletes(
        log, digests, n_resolved=n_resolved, version=version, n_nodes=N_NODES, n_edges=N_EDGES
    )


@pytest.mark.slow
@pytest.mark.parametrize("most_pairs", [1 << 20, 7])
@pytest.mark.parametrize("replaces", [False, True])
def test_what_lives_is_what_a_list_holds(
    log: ChangeLog, monkeypatch: pytest.MonkeyPatch, replaces: bool, most_pairs: int
) -> None:
    monkeypatch.setattr(delete_matching, "MOST_PAIRS", most_pairs)  # so many scans
    files, digests = [], []
    for seed in range(3):
        files.append(random_blocks(seed))
        digests.append(f"file-{seed}")
        write(log, digests[-1], files[-1], replaces=replaces)
        found = resolved(log, digests, n_resolved=seed, version=seed)
        log.publish_dead(seed + 1, found.dead)
        expected = twin(files, replaces=replaces)
        assert lives(log, digests, log.dead(seed + 1)) == expected
        assert found.n_live == len(expected)
        degree = np.zeros(N_NODES)
        for u, v, weight in expected:
            degree[[u, v]] += weight
        np.testing.assert_allclose(found.degree, degree)
        n_rows = sum(len(added) + len(deleted) for added, deleted in files[-1])
        assert 0.0 <= found.dead_share[digests[-1]] < 1.0 or n_rows == 0
    at_once = resolved(log, digests, n_resolved=0, version=0)
    assert lives(log, digests, at_once.dead) == expected
    np.testing.assert_array_equal(at_once.component, found.component)


def test_what_is_dead_does_not_depend_on_what_else_is_asked(log: ChangeLog) -> None:
    for seed in range(3):
        write(log, f"file-{seed}", random_blocks(seed), replaces=False)
    digests = [f"file-{seed}" for seed in range(3)]
    counts = {"n_resolved": 0, "version": 0, "n_nodes": N_NODES, "n_edges": N_EDGES}
    everything = match_deletes(log, digests, **counts)
    nothing = match_deletes(log, digests, survey=Survey(degree=False, component=False), **counts)
    assert nothing.degree is None
    assert nothing.component is None
    assert everything.dead.bits.keys() == nothing.dead.bits.keys()
    for key, bits in everything.dead.bits.items():
        np.testing.assert_array_equal(nothing.dead.bits[key], bits)
    np.testing.assert_array_equal(nothing.killed, everything.killed)
    assert (nothing.n_live, nothing.n_killed) == (everything.n_live, everything.n_killed)
    assert nothing.dead_share == everything.dead_share


def test_files_are_written_anew_without_what_is_dead(log: ChangeLog, tmp_path: Path) -> None:
    files = [random_blocks(seed) for seed in range(3)]
    digests = [f"file-{number}" for number in range(3)]
    for digest, blocks in zip(digests, files, strict=True):
        write(log, digest, blocks, replaces=False)
    found = resolved(log, digests, n_resolved=0, version=0)
    before = lives(log, digests, found.dead)
    log.publish_dead(1, found.dead)
    dead = compacted(log, {"file-0", "file-2"}, found.dead, generation=2)
    log.publish_dead(2, dead)
    assert {key[0] for key in dead.bits} == {"file-1"}
    assert log.dead(2).generations == {"file-0": 2, "file-2": 2}
    assert lives(log, digests, log.dead(2)) == before
    assert lives(log, digests, log.dead(1)) == before  # which has the files as they were
    with pytest.raises(LogFileMissing, match="dead-000000007"):
        log.retain(digests, 7, also=[2])
    assert log.keeps(1, digests)
    log.retain(digests, 2, also=[7])
    names = sorted(path.name for path in (tmp_path / "log").iterdir())
    assert names == ["dead-000000002.arrow", "file-0-2.arrow", "file-1.arrow", "file-2-2.arrow"]
    assert not log.keeps(1)
    # what comes later deletes from them as before
    later = [([(1, 2)], [(u, v) for u, v, _ in before[::2]])]
    write(log, "file-3", later, replaces=False)
    digests.append("file-3")
    again = resolved(log, digests, n_resolved=3, version=2)
    assert lives(log, digests, again.dead) == twin([*files, later], replaces=False)
    twice = compacted(log, digests, again.dead, generation=3)
    assert not twice.bits
    assert set(twice.generations.items()) == {(digest, 3) for digest in digests}
    assert lives(log, digests, twice) == lives(log, digests, again.dead)
    assert [log.file(each, twice).n_batches for each in digests] == [6, 6, 6, 1]


def test_a_file_that_could_not_be_logged_whole_is_not_there(log: ChangeLog, tmp_path: Path) -> None:
    write(log, "good", [([(0, 1)], [])], replaces=False)
    with suppress(ZeroDivisionError), log.writing("bad", replaces=False) as writer:
        writer.append(block_of([(0, 1)]), NO_NODES, NO_NODES)
        raise ZeroDivisionError
    with pytest.raises(LogFileMissing, match="bad"):
        log.file("bad")
    assert [path.name for path in (tmp_path / "log").iterdir()] == ["good.arrow"]


def test_dead_rows_of_another_block_are_not_taken(log: ChangeLog) -> None:
    write(log, "file", [([(0, 1), (1, 2)], [])], replaces=False)
    strange = DeadRows({("file", 0): np.zeros(2, np.uint8)})
    with pytest.raises(LogDamaged, match="block 0 of file"):
        lives(log, ["file"], strange)


def test_a_killed_writer_leaves_what_the_next_one_removes(log: ChangeLog, tmp_path: Path) -> None:
    write(log, "good", [([(0, 1)], [])], replaces=False)
    (tmp_path / "log" / ".tmp-other.arrow").write_bytes(b"half")
    log.retain(["good"], 0)
    assert [path.name for path in (tmp_path / "log").iterdir()] == ["good.arrow"]


def test_the_last_position_that_deletes_a_pair_counts() -> None:
    pairs, positions = np.zeros(8, np.uint64), np.zeros(8, np.int64)
    touched = np.zeros(4, np.uint8)
    ends = np.array([1], np.int32), np.array([2], np.int32)
    with np.errstate(over="ignore"):
        assert pair_positions.fill_pair_positions(*ends, 3, pairs, positions, touched) == 1
        assert pair_positions.fill_pair_positions(*ends[::-1], 5, pairs, positions, touched) == 0
    assert positions[pairs > 0].tolist() == [5]
    assert touched.tolist() == [0, 1, 1, 0]


# Windows

BUCKETS = [3, 3, -2, 5, 4, 5]
"""Of the blocks of a file."""


def write_of_buckets(log: ChangeLog, digest: str, seed: int) -> list[tuple[int, int, float, int]]:
    """Log blocks of buckets that delete nothing; the edges with their buckets."""
    edges = []
    with log.writing(digest, replaces=False, has_buckets=True) as writer:
        for (added, _), bucket in zip(random_blocks(seed), BUCKETS, strict=True):
            block = replace(block_of(added), bucket=bucket)
            writer.append(block, NO_NODES, NO_NODES)
            weights = block.weight.tolist()
            edges += [(*ends, each, bucket) for ends, each in zip(added, weights, strict=True)]
    return edges


def lives_of_buckets(
    log: ChangeLog, digests: list[str], dead: DeadRows
) -> list[tuple[int, int, float, int]]:
    found = []
    for _, block in live_blocks(log, digests, dead):
        columns = (block.u.tolist(), block.v.tolist(), block.weight.tolist())
        found += [(*edge, block.bucket) for edge in zip(*columns, strict=True)]
    return found


def test_buckets_and_the_horizon_are_what_was_written(log: ChangeLog) -> None:
    edges = write_of_buckets(log, "file", 0)
    assert log.file("file").buckets().tolist() == BUCKETS
    assert [log.file("file").block(number).bucket for number in range(6)] == BUCKETS
    assert log.dead(0).horizon == NEVER
    for version, horizon in enumerate((-2, 4, 9), 1):
        log.publish_dead(version, log.dead(version - 1).since(horizon))
        dead = log.dead(version)
        assert dead.horizon == horizon
        expected = [edge for edge in edges if edge[3] >= horizon]
        assert lives_of_buckets(log, ["file"], dead) == expected
        (live,) = [dead.without(log.file("file", dead))]
        assert sum(live.only(number).block(number).u.size for number in range(6)) == len(expected)
    for kept in (dead.of(["file"]), dead.only(), dead.joined({})):
        assert kept.horizon == 9


def test_what_expires_is_what_a_loop_finds(log: ChangeLog) -> None:
    edges = [edge for seed in (0, 1) for edge in write_of_buckets(log, f"file-{seed}", seed)]
    digests = ["file-0", "file-1"]
    gone = np.zeros(40, bool)
    gone[::3] = True
    block = log.file("file-0").block(3)
    dead = DeadRows({("file-0", 3): np.packbits(gone[: block.u.size])}, horizon=3)
    lives = lives_of_buckets(log, digests, dead)
    assert len(lives) < len([edge for edge in edges if edge[3] >= 3])
    for horizon in (3, 4, 5, 6):
        found = expired_edges(log, digests, dead, horizon=horizon, n_nodes=N_NODES)
        leaving = [edge for edge in lives if edge[3] < horizon]
        degree = np.zeros(N_NODES)
        for u, v, weight, _ in leaving:
            degree[[u, v]] += weight
        assert found.n_edges == len(leaving)
        np.testing.assert_allclose(found.degree, degree)


def test_files_without_buckets_are_read_as_of_bucket_0(log: ChangeLog) -> None:
    """Logs of graphs that never had a window."""
    write(log, "file", random_blocks(0), replaces=False)
    file = log.file("file")
    assert not file.has_buckets
    assert file.buckets().tolist() == [0] * 6
    assert file.block(2).bucket == 0
    everything = lives(log, ["file"], DeadRows({}))
    assert lives(log, ["file"], DeadRows({}, horizon=0)) == everything
    assert lives(log, ["file"], DeadRows({}, horizon=1)) == []


def test_files_that_are_written_anew_keep_their_buckets(log: ChangeLog) -> None:
    edges = write_of_buckets(log, "file", 0)
    dead = DeadRows({("file", 3): np.full(5, 255, np.uint8)}, horizon=3)
    before = lives_of_buckets(log, ["file"], dead)
    anew = compacted(log, ["file"], dead, generation=2)
    assert anew.horizon == 3
    assert anew.generations == {"file": 2}
    assert lives_of_buckets(log, ["file"], anew) == before
    assert 0 < len(before) < len(edges)
    file = log.file("file", anew)
    assert file.has_buckets
    assert file.buckets().tolist() == [3, 3, 0, 0, 4, 5]  # blocks of nothing have none
    assert [file.block(number).u.size > 0 for number in range(6)] == [
        bucket != 0 for bucket in file.buckets().tolist()
    ]
