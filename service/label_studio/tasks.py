"""Tasks for annotators, and the labeling configuration that shows them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from xml.etree import ElementTree as ET

CONTROL: Final = "label"
"""Name of the choices, by which answers are found again."""

NODE: Final = "node"
"""Name of the text that shows the node, and key of its id in the data of a task."""

TEXT: Final = "text"
IMAGE: Final = "image"

_NO_IMAGE: Final = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
"""One transparent pixel, for a node without a picture: Label Studio wants one of each."""

Label = int | str


def task(
    node: int | str,
    *,
    graph: str,
    origin: str,
    shown: Mapping[str, str] | None = None,
    prediction: Mapping[str, Any] | None = None,
    model_version: str | None = None,
) -> dict[str, Any]:
    """A task to label one node.

    Integer ids become text, which Label Studio can show. By ``graph``, its name, answers for
    another graph are refused; ``origin`` (suggested or random) comes back with the answer.
    ``shown`` has ``text`` and ``image`` (an address or a data URI). ``prediction`` has ``label``
    and ``score``, and is left out without a label; ``model_version`` says what made it.
    """
    data = {NODE: str(node), "graph": graph, "origin": origin, **(shown or {})}
    made: dict[str, Any] = {"data": data}
    if prediction is not None and prediction["label"] is not None:
        result = {
            "from_name": CONTROL,
            "to_name": NODE,
            "type": "choices",
            "value": {"choices": [str(prediction["label"])]},
        }
        made["predictions"] = [
            {
                "model_version": model_version or "peewit",
                "score": float(prediction["score"]),
                "result": [result],
            }
        ]
    return made


def completed(tasks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tasks with the same keys in the data of each, as Label Studio wants them.

    A node without the text or picture that others have gets an empty one.
    """
    keys = shown_keys(tasks)
    empty = {key: _NO_IMAGE if key == IMAGE else "" for key in keys}
    return [{**each, "data": {**empty, **each["data"]}} for each in tasks]


def shown_keys(tasks: Iterable[Mapping[str, Any]]) -> list[str]:
    """The keys of text and picture that any of the tasks has."""
    has = {key for each in tasks for key in each["data"]}
    return [key for key in (TEXT, IMAGE) if key in has]


def labeling_config(classes: Sequence[Label], *, shown: Iterable[str] = ()) -> str:
    """The labeling configuration, XML: what is shown of a node, and a choice for each class.

    ``shown`` are keys of the data beside the node: ``text`` and ``image``. Raises a ValueError
    where there are not two classes, or two are written alike.
    """
    written = [str(each) for each in classes]
    if len(written) < 2:
        raise ValueError(f"classes must be two or more, got {len(written)}")
    if len(set(written)) < len(written):
        raise ValueError("classes must be written differently, got one twice")
    view = ET.Element("View")
    ET.SubElement(view, "Text", name=NODE, value=f"${NODE}")
    for key in shown:
        tag = "Image" if key == IMAGE else "Text"
        ET.SubElement(view, tag, name=key, value=f"${key}")
    choices = ET.SubElement(
        view, "Choices", name=CONTROL, toName=NODE, choice="single", required="true"
    )
    for each in written:
        ET.SubElement(choices, "Choice", value=each)
    ET.indent(view)
    return ET.tostring(view, encoding="unicode") + "\n"
