"""Maps of graphs: where the nodes lie, and what is predicted there."""

from datetime import datetime
from typing import Literal

from peewit.service.wire.records import described, record


@record
class MapClass:
    """One color of a map."""

    label: str = described("The class as text; where labels are numbers, a range of them.")
    n_nodes: int = described("Nodes of the map that are predicted so.")


@record
class Map:
    """A map of a graph; `tiles` below it are its parts."""

    snapshot: int = described("The snapshot that was drawn.")
    newest_snapshot: int | None = described("What a map made now would show.")
    n_nodes: int
    n_edges: int
    n_components: int = described("Each is drawn apart.")
    made_at: datetime
    max_zoom: int = described("From this zoom on tiles list all their nodes.")
    tile_points: int = described("Most nodes of a tile that lists all of them.")
    cells_per_side: int = described("Cells of a tile that does not, along one side.")
    predicts: Literal["classes", "numbers", "nothing"]
    classes: tuple[MapClass, ...] = described("In the order of the colors of tiles.")
    job: str | None = described("Whose predictions; null while there are none.")
    model: str | None
    predicted_snapshot: int | None
    predicted_labels_seq: int | None
    label_column: str | None = described("Null for the one without a name.")
    labels_seq: int
    n_labeled: int = described("Nodes of the map with a label.")
    n_contradicted: int = described("Those whose label the others contradict, if it was left out.")
    tag: str = described("Another one where tiles may be others.")
