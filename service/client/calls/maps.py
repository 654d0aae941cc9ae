"""Maps of graphs."""

from peewit.service.client.call_steps import Call, answered
from peewit.service.client.calls.common import get, read
from peewit.service.wire.maps import Map


def map(  # noqa: A001 - as its path is called
    graph: str, *, job: str | None = None, label_column: str | None = None
) -> Call[Map]:
    """The map of a graph, which `submit_map` has made.

    Parameters
    ----------
    graph : str
        Its name.
    job : str, optional
        Whose predictions to show; the freshest by default.
    label_column : str, optional
        The named column whose predictions to show; the one without a name otherwise.

    Raises
    ------
    NotFound
        There is no map yet.
    """
    request = get("graphs", graph, "map", job=job, label_column=label_column)
    return (yield from read(Map, request))


def map_tile(
    graph: str,
    z: int,
    x: int,
    y: int,
    *,
    job: str | None = None,
    label_column: str | None = None,
    min_doubt: float = 0.0,
) -> Call[bytes]:
    """One square of the map, in the compact form that the REST page describes.

    Parameters
    ----------
    graph : str
        Its name.
    z : int
        Zoom: the map is 2 ** z tiles wide.
    x, y : int
        Column and line of the tile, from the left and from above.
    job, label_column : str, optional
        As in `map`.
    min_doubt : float
        Nodes of less doubt are left out.
    """
    tile = "tiles", str(z), str(x), str(y)
    request = get(
        "graphs", graph, "map", *tile, job=job, label_column=label_column, min_doubt=min_doubt
    )
    return (yield from answered(request)).content
