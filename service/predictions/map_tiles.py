"""Map tiles: positions of nodes joined with predictions and labels.

A tile with few nodes lists them. A tile with many has cells with the number of nodes, the most
frequent class and the one that stands out, and lists only nodes that are worth a look: labeled ones
and those most in doubt.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from peewit.service.predictions.colored_maps import ColoredMap
from peewit.service.predictions.map_colors import HIDDEN
from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import Int64Array
from peewit.streaming.kernels.map_cells import BITS, count_cells, most_doubtful, places_of
from peewit.streaming.passes.node_map import CELL_BITS, LAST_ZOOM, TILE_POINTS

FORMAT: Final = 2
MEDIA_TYPE: Final = "application/octet-stream"
CELLS_PER_SIDE: Final = 1 << CELL_BITS
LABELED_SHOWN: Final = 512
"""Most labeled nodes that a tile with cells lists; of more, an even sample along the curve.

As many more may be listed whose labels the others contradict.
"""

DOUBTFUL_SHOWN: Final = 20
_COORDINATE_BITS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TilePlace:
    """Position of a tile, and the least doubt of its nodes; raises ValueError for no such tile."""

    zoom: int  # the map is 2 ** zoom tiles wide
    column: int  # from the left
    line: int  # from the top
    min_doubt: float = 0.0  # nodes of less doubt are left out, labeled ones, too

    def __post_init__(self) -> None:
        if not 0 <= self.zoom <= LAST_ZOOM:
            raise BadArgument("z", f"must lie in [0, {LAST_ZOOM}], got {self.zoom}")
        for name, value in (("x", self.column), ("y", self.line)):
            if not 0 <= value < 1 << self.zoom:
                raise BadArgument(
                    name, f"must lie in [0, {1 << self.zoom}) at zoom {self.zoom}, got {value}"
                )
        if not 0.0 <= self.min_doubt <= 1.0:
            raise BadArgument("min_doubt", f"must lie in [0, 1], got {self.min_doubt}")


def tile_bytes(colored: ColoredMap, place: TilePlace) -> bytes:
    """One tile, in little-endian arrays without gaps.

    Eight uint32 come first: the number of this format (2), the nodes of the tile, the cells per
    side (0 where all nodes are listed), the nodes that are listed, the bytes of their names, and
    three zeros. Then, with n nodes listed and c cells: ``count`` uint32 (c), ``score`` float32 (n),
    ``name_end`` uint32 (n), ``x`` and ``y`` uint16 (n) in the tile, ``color`` int16 (n), ``winner``
    and ``standout`` int16 (c), ``share`` and ``standout_share`` uint8 (c), ``doubt`` and
    ``labeled`` uint8 (n), and the names in UTF-8. Colors are places in the list of classes, -1 for
    none. The winner is the most frequent color of a cell, the standout the one that exceeds its
    part of the map most; shares are parts of 255. ``labeled`` is 1 for a label, 2 for one that the
    other labels contradict.
    """
    points = colored.map.tile(place.zoom, place.column, place.line)
    least = int(np.ceil(255 * place.min_doubt))
    cells = _cells(colored, points, place, least)
    if cells.n_nodes > TILE_POINTS:
        return _encode(colored, place, _places_beside(colored, points, least) + points.start, cells)
    is_in = (colored.colors.color[points] > HIDDEN) & (colored.colors.doubt[points] >= least)
    listed = np.flatnonzero(is_in) + points.start
    return _encode(colored, place, listed, Cells.none(listed.size))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cells:
    """Cells of a tile, row by row; see `tile_bytes`."""

    n_nodes: int
    count: npt.NDArray[np.uint32]
    winner: npt.NDArray[np.int16]
    share: npt.NDArray[np.uint8]
    standout: npt.NDArray[np.int16]
    standout_share: npt.NDArray[np.uint8]

    @classmethod
    def none(cls, n_nodes: int) -> "Cells":
        """Cells of a tile that lists all its nodes."""
        return cls.empty(0, n_nodes)

    @classmethod
    def empty(cls, n_cells: int, n_nodes: int = 0) -> "Cells":
        """Cells without nodes."""
        return cls(
            n_nodes=n_nodes,
            count=np.zeros(n_cells, np.uint32),
            winner=np.full(n_cells, -1, np.int16),
            share=np.zeros(n_cells, np.uint8),
            standout=np.full(n_cells, -1, np.int16),
            standout_share=np.zeros(n_cells, np.uint8),
        )


def _cells(colored: ColoredMap, points: slice, place: TilePlace, least: int) -> Cells:
    """Cells of a tile; none where its nodes are so few that they are listed."""
    if points.stop - points.start <= TILE_POINTS:
        return Cells.none(0)
    cells = Cells.empty(CELLS_PER_SIDE**2)
    n_nodes = count_cells(
        colored.map.cells(place.zoom, place.column, place.line) - points.start,
        colored.colors.color[points],
        colored.colors.doubt[points],
        least,
        colored.colors.parts,
        np.zeros(colored.colors.parts.size, np.int64),
        cells.count,
        cells.winner,
        cells.share,
        cells.standout,
        cells.standout_share,
    )
    return replace(cells, n_nodes=n_nodes)


def _places_beside(colored: ColoredMap, points: slice, least: int) -> Int64Array:
    """Places in a tile of the nodes that it lists beside its cells."""
    color, doubt = colored.colors.color[points], colored.colors.doubt[points]
    first, stop = np.searchsorted(colored.labeled, (points.start, points.stop))
    labeled = colored.labeled[first:stop] - points.start
    is_in = (color[labeled] > HIDDEN) & (doubt[labeled] >= least)
    contradicted = labeled[is_in & colored.is_contradicted[first:stop]]
    labeled = labeled[is_in]
    doubtful = np.zeros(DOUBTFUL_SHOWN, np.int64)
    n_doubtful = most_doubtful(color, doubt, max(least, 1), doubtful)
    beside = _sampled(labeled), _sampled(contradicted), doubtful[:n_doubtful]
    return np.unique(np.concatenate(beside))


def _sampled(labeled: Int64Array) -> Int64Array:
    return labeled[:: -(-labeled.size // LABELED_SHOWN) or 1]


def _encode(colored: ColoredMap, place: TilePlace, listed: Int64Array, cells: Cells) -> bytes:
    column, line = np.empty(listed.size, np.uint32), np.empty(listed.size, np.uint32)
    places_of(colored.map.code[listed], column, line)
    names = colored.names_of(listed)
    ends = np.cumsum([len(name) for name in names], dtype=np.uint32)
    header = [FORMAT, cells.n_nodes, CELLS_PER_SIDE if cells.count.size else 0, listed.size]
    header += [int(ends[-1]) if ends.size else 0, 0, 0, 0]
    color, labeled = colored.shown_colors(listed)
    arrays = [
        np.array(header, "<u4"),
        cells.count.astype("<u4"),
        colored.scores_of(listed).astype("<f4"),
        ends.astype("<u4"),
        _within(column, place.zoom).astype("<u2"),
        _within(line, place.zoom).astype("<u2"),
        color.astype("<i2"),
        cells.winner.astype("<i2"),
        cells.standout.astype("<i2"),
        cells.share,
        cells.standout_share,
        colored.colors.doubt[listed],
        labeled,
    ]
    return b"".join([array.tobytes() for array in arrays] + names)


def _within(coordinate: npt.NDArray[np.uint32], zoom: int) -> npt.NDArray[np.uint64]:
    """The 16 bits that give the position in the tile, of the 24 of the whole map."""
    bits = BITS - zoom
    inner = coordinate.astype(np.uint64) & np.uint64((1 << bits) - 1)
    return (inner << np.uint64(_COORDINATE_BITS)) >> np.uint64(bits)
