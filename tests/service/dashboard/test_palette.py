"""Colors of classes: told apart by people without red or green cones, the positive class red."""

import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from peewit.service.dashboard.class_colors import PALETTE, POSITIVE, class_colors
from peewit.service.dashboard.pages import STATIC
from peewit.service.predictions.kept_labels import write_labels
from peewit.service.predictions.prediction_files import PredictionFile, write_predictions
from peewit.solvers.labels import Labels
from tests.service.predictions.test_map_tiles import META

# Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB
SIGHTS = {
    "trichromat": np.eye(3),
    "protanope": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranope": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
}
# Ottosson's OKLab, in which a distance of .02 is just noticeable
CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def linear(colors: list[str]) -> np.ndarray:
    channels = [[int(each[at : at + 2], 16) / 255 for at in (1, 3, 5)] for each in colors]
    values = np.array(channels)
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def schemes() -> list[dict[str, str]]:
    """The named colors of the sheet, light and dark."""
    sheet = (STATIC / "app.css").read_text()
    light, dark = re.findall(r":root \{(.*?)\}", sheet, re.DOTALL)[:2]
    return [dict(re.findall(r"--([\w-]+): (#\w{6})", each)) for each in (light, dark)]


@pytest.mark.parametrize("scheme", [0, 1])
@pytest.mark.parametrize("sight", SIGHTS)
def test_colors_of_classes_differ_for_every_sight(scheme: int, sight: str) -> None:
    colors = [schemes()[scheme][f"class-{place}"] for place in range(PALETTE)]
    seen = np.clip(linear(colors) @ SIGHTS[sight].T, 0, 1)
    points = np.cbrt(seen @ CONES.T) @ OKLAB.T
    for first, second in combinations(range(PALETTE), 2):
        least = 0.07 if POSITIVE in {first, second} else 0.055
        assert np.linalg.norm(points[first] - points[second]) > least, (first, second)


@pytest.mark.parametrize("scheme", [0, 1])
def test_colors_of_classes_stand_out_from_what_is_behind_them(scheme: int) -> None:
    named = schemes()[scheme]
    brightness = np.array([0.2126, 0.7152, 0.0722])
    for behind in ("card", "paper"):
        other = float((linear([named[behind]]) @ brightness)[0])
        for place in range(PALETTE):
            own = float((linear([named[f"class-{place}"]]) @ brightness)[0])
            contrast = (max(own, other) + 0.05) / (min(own, other) + 0.05)
            assert contrast >= 3.0, (place, behind)  # WCAG 1.4.11


@pytest.mark.parametrize(
    ("classes", "red"),
    [
        ([0, 0, 1], "right"),  # the rarer of two
        ([0, 0, 0, 0, 1, 1, 2, 2, 2, 2], "right"),  # half of any other
        ([0, 0, 1, 1, 2, 2], None),  # nobody looks for one of them
    ],
)
def test_the_class_that_people_look_for_is_red(
    tmp_path: Path, classes: list[int], red: str | None
) -> None:
    names = META.class_names[: max(classes) + 1]
    path = write_predictions(
        tmp_path,
        replace(META, class_names=names),
        nodes=pa.array([f"n{node}" for node in range(20)]),
        scores=np.random.default_rng(0).dirichlet(np.ones(len(names)), 20),
        reachable=np.ones(20, bool),
    )
    write_labels(
        path, Labels(nodes=np.arange(len(classes)), classes=np.array(classes), class_names=names)
    )
    colors = class_colors(PredictionFile(path), ["never predicted"])
    assert [name for name, color in colors.items() if color == POSITIVE] == [red] * bool(red)
    assert len(set(colors.values())) == len(names) + 1
    assert class_colors(None, ["a", "b"]) == {"a": 1, "b": 2}
