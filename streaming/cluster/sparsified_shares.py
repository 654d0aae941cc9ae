"""Shares of a file: what one process sparsifies by itself, as pure functions of file and start.

A share is some consecutive parts. Its end depends on parts and settings alone, its result on these
and the start, so shares may be computed anywhere, by any number of processes, and again. No dask in
here: ``dask_ingest`` sends these functions to a cluster.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.solvers.arrays import Int32Array
from peewit.solvers.row_ranges import Parallel
from peewit.streaming.durable_files import naming
from peewit.streaming.edges.blocks import MAX_NODES, BadEdges, EdgeBlock, RawBlock
from peewit.streaming.edges.node_kinds import TEXT, NodeKind
from peewit.streaming.edges.parts import Part, StagedFile
from peewit.streaming.edges.reader import read_part
from peewit.streaming.nodes.hashed_ids import IdColumn, IntegerIds, StringIds
from peewit.streaming.nodes.index import DenseNodes, NodeCollision, NodeIndex, Nodes
from peewit.streaming.sparsifier.merge_tree import merge, without_embedding
from peewit.streaming.sparsifier.node_resistances import NodeCards
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from peewit.streaming.sparsifier.sparsifier import absorb, is_full, resparsify

SHARE_ROWS = 1 << 23
"""A row group is cut between shares only beyond this: who reads on must skip what lies before."""

_HASH_SEEDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings:
    """What a share depends on, beside its edges."""

    node_kind: NodeKind
    max_nodes: int  # more are refused
    sparsifier: SparsifierSettings
    group_blocks: int  # blocks scored by one embedding


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Consecutive parts of one file."""

    staged: StagedFile  # its own list of parts is not used
    parts: tuple[Part, ...]  # in order, at least one
    first_block: int  # number of the block that the first part becomes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodedShare:
    """A share whose ids are not dense: edges between codes, which number its distinct ids."""

    blocks: tuple[EdgeBlock, ...]  # one per part, u and v are codes
    ids: pa.Array  # id of each code, in order of first appearance


def cut_shares(parts: Sequence[Part], *, share_blocks: int) -> list[tuple[Part, ...]]:
    """Shares of at least ``share_blocks`` parts each, but for the last.

    A share ends where a row group does, if it does within ``SHARE_ROWS`` rows: slices of a row
    group are cheap only for whoever has read the slices before them.
    """
    shares: list[list[Part]] = []
    for part in parts:
        share = shares[-1] if shares else []
        n_rows = sum(earlier.n_rows for earlier in share)
        is_long = len(share) >= share_blocks
        if not share or (is_long and (part.skipped_rows == 0 or n_rows >= SHARE_ROWS)):
            shares.append([part])
        else:
            share.append(part)
    return [tuple(share) for share in shares]


def sparsify_dense(
    share: Share, settings: ShareSettings, start: SparsifierState, cards: NodeCards
) -> SparsifierState | BadEdges:
    """Sparsifier of a share of dense ids, or the first rule it breaks.

    ``start`` comes from ``merge_tree.leaf``, without its embedding, which is ``cards`` and may be
    the same for many shares.
    """
    nodes = DenseNodes(n_nodes=start.n_nodes, max_nodes=settings.max_nodes)
    try:
        mapped = ((nodes.map_block(raw), nodes.n_nodes) for raw in _raw_blocks(share, settings))
        return _absorb_blocks(mapped, settings, start, cards)
    except BadEdges as error:
        return error.bare()


def code_share(share: Share, settings: ShareSettings) -> CodedShare | BadEdges:
    """Coded share of ids that are not dense, or the first rule it breaks."""
    for seed in range(_HASH_SEEDS):
        nodes = index_in_memory(settings.node_kind, hash_seed=seed)
        try:
            blocks = tuple(map(nodes.map_block, _raw_blocks(share, settings)))
        except BadEdges as error:
            return error.bare()
        except NodeCollision:
            if seed == _HASH_SEEDS - 1:
                raise
            continue
        return CodedShare(blocks=blocks, ids=nodes.external_ids().combine_chunks())
    raise AssertionError("a seed was tried")


def distinct_ids(coded: CodedShare | BadEdges) -> tuple[pa.Array, pa.Array] | BadEdges:
    """Ids of codes 0, 2, 4 ... and of codes 1, 3, 5 ...: the columns that give them these codes.

    Where the number of codes is odd, code 0 stands once more at the end.
    """
    if isinstance(coded, BadEdges):
        return coded
    n_ids = len(coded.ids)
    odd = np.arange(1, n_ids + n_ids % 2, 2)
    odd[odd == n_ids] = 0
    return coded.ids.take(pa.array(np.arange(0, n_ids, 2))), coded.ids.take(pa.array(odd))


def sparsify_coded(
    coded: CodedShare,
    numbers: Int32Array,
    n_nodes: int,
    settings: ShareSettings,
    start: SparsifierState,
    cards: NodeCards,
) -> SparsifierState:
    """Sparsifier of a coded share.

    ``numbers``, (n_codes,), are the dense ids of all codes, and ``n_nodes`` the nodes known after
    the share. ``start`` and ``cards`` are as in ``sparsify_dense``.
    """
    numbered = (
        (replace(block, u=numbers[block.u], v=numbers[block.v]), n_nodes) for block in coded.blocks
    )
    return _absorb_blocks(numbered, settings, start, cards)


def first_row_of(share: Share, settings: ShareSettings, node: pa.Scalar) -> int:
    """Row within the file in which an id of a share stands first."""
    for raw in _raw_blocks(share, settings):
        places = [pc.index(side, node.cast(side.type)).as_py() for side in (raw.src, raw.dst)]
        rows: list[int] = [row for row in places if row >= 0]
        if rows:
            return raw.first_row + min(rows)
    raise ValueError(f"node must stand in the share, got {node}")


def merge_shares(
    a: SparsifierState | BadEdges, b: SparsifierState | BadEdges, settings: SparsifierSettings
) -> SparsifierState | BadEdges:
    """``merge_tree.merge``, or the rule that the earlier of the two broke."""
    if isinstance(a, BadEdges):
        return a
    if isinstance(b, BadEdges):
        return b
    return merge(a, b, settings)


def absorb_group(
    state: SparsifierState,
    settings: SparsifierSettings,
    blocks: Sequence[EdgeBlock],
    *,
    n_nodes: int,
    parallel: Parallel = map,
) -> SparsifierState:
    """State after a group of blocks scored by one embedding, resparsified at the buffer cap.

    ``n_nodes`` are known after the group. The result does not depend on ``parallel``.
    """
    grown = absorb(state, settings, blocks, n_nodes=n_nodes, parallel=parallel)
    return resparsify(grown, settings, parallel=parallel) if is_full(grown, settings) else grown


def index_in_memory(node_kind: NodeKind, *, hash_seed: int, max_nodes: int = MAX_NODES) -> Nodes:
    """Node index that never touches the disk; it cannot be published."""
    if node_kind == "dense":
        return DenseNodes(max_nodes=max_nodes)
    ids: IdColumn = StringIds(seed=hash_seed) if node_kind in TEXT else IntegerIds(seed=hash_seed)
    return NodeIndex(Path(), ids=ids, max_nodes=max_nodes, writable=True)


def _raw_blocks(share: Share, settings: ShareSettings) -> Iterator[RawBlock]:
    """Blocks of a share, one per part; BadEdges at the first fault."""
    staged = share.staged
    for part in share.parts:
        with naming(Path(staged.local_path)):
            raw = read_part(
                staged, part, node_kind=settings.node_kind, max_nodes=settings.max_nodes
            )
        yield raw


def _absorb_blocks(
    blocks: Iterable[tuple[EdgeBlock, int]],
    settings: ShareSettings,
    start: SparsifierState,
    cards: NodeCards,
) -> SparsifierState:
    """State with blocks absorbed in groups; an embedding from outside is not sent back."""
    state = replace(start, cards=cards)
    remaining = iter(blocks)
    while group := list(islice(remaining, settings.group_blocks)):
        state = absorb_group(
            state, settings.sparsifier, [block for block, _ in group], n_nodes=group[-1][1]
        )
    return without_embedding(state) if state.cards is cards else state
