"""Colors of classes: which of the ten of the palette each has, everywhere the same.

The palette stands in ``static/app.css`` of the dashboard; its first color is red.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from peewit.service.predictions.kept_labels import KeptLabels
from peewit.service.predictions.prediction_files import PredictionFile

PALETTE: Final = 10
"""Number of colors; of more classes some share one."""

POSITIVE: Final = 0
"""The red one."""


def rarest_class(file: PredictionFile) -> str:
    """The class of the fewest labels that the predictions were made from, as text.

    The first class where the labels were not kept beside the predictions.
    """
    counts = _label_counts(file)
    return str(file.meta.class_names[int(np.where(counts > 0, counts, counts.max() + 1).argmin())])


def positive_class(file: PredictionFile) -> str | None:
    """The class that people look for: the rarer of two, of more one half as large as any other.

    None where no class is, or labels of numbers.
    """
    names = file.meta.class_names
    if file.meta.score == "value" or len(names) < 2:
        return None
    counts = np.sort(_label_counts(file))
    is_rare = counts[0] < counts[1] if len(names) == 2 else 2 * counts[0] <= counts[1]
    return rarest_class(file) if counts[0] > 0 and is_rare else None


def class_colors(file: PredictionFile | None, others: Iterable[object] = ()) -> dict[str, int]:
    """Number of the color of each class, by its name as text; ``others`` are never predicted.

    The positive class is red, the others have the rest in order; without one red is used last.
    """
    of_file = () if file is None else file.meta.class_names
    names = list(dict.fromkeys(map(str, (*of_file, *others))))
    positive = None if file is None else positive_class(file)
    if positive is None:
        return {name: (place + 1) % PALETTE for place, name in enumerate(names)}
    names.remove(positive)
    return {positive: POSITIVE} | {
        name: 1 + place % (PALETTE - 1) for place, name in enumerate(names)
    }


def _label_counts(file: PredictionFile) -> np.ndarray:
    """Number of labels of each class that the predictions were made from."""
    n_classes = len(file.meta.class_names)
    try:
        return np.bincount(KeptLabels.read(file.path).classes, minlength=n_classes)
    except FileNotFoundError:
        return np.zeros(n_classes, np.int64)
