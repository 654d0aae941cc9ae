"""Labels from exports of Label Studio, as JSON or as JSON_MIN.

Of several answers to one node the last of each person counts, and of those the most frequent class.
A tie gives no label: somebody has to look again. What cannot be read is refused alone, with the id
of its task.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from peewit.service.label_studio.tasks import CONTROL, NODE

ORIGINS: Final = ("suggested", "random")
"""Origins that a task may give its node; any other counts as suggested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One person's answer to one node."""

    node: str  # as the task writes it
    choice: str  # as the configuration writes it
    origin: str  # how the node was chosen
    task: str  # id
    annotator: str  # id or e-mail address; made from the annotation where left out
    at: datetime | None  # when it was given or last changed


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedTask:
    """A part of an export that gives no label."""

    task: str  # id; its place in the file, from 0, where it has none
    reason: str  # the rule that it breaks


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """The content of an export."""

    answers: list[Answer]  # one for each annotation
    refused: list[RefusedTask]  # what cannot be read
    n_skipped: int  # annotations that were skipped or cancelled
    n_unanswered: int  # tasks and annotations without a choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """The label of a node that people agree on; fields as in `Answer`."""

    node: str
    choice: str
    origin: str
    task: str  # id of the last task that asked for it
    annotators: tuple[str, ...]  # who chose it, the last one last


_ANSWERED: Final = frozenset({"annotations", "completions"})
"""Keys of tasks that somebody has seen."""


_ODD: Final = (ValueError, TypeError, AttributeError, KeyError, OverflowError)


class _NoAnswer(Exception):
    """There is no choice, and nothing is wrong."""


def read_export(exported: object, *, graph: str, control: str = CONTROL) -> Export:
    """The answers of an export, given as its parsed JSON.

    Tasks that name another graph are refused. ``control`` is the name of the choices in the
    labeling configuration. Raises a ValueError where the export is no list of objects, or holds
    tasks as they were imported.
    """
    if not isinstance(exported, list) or not (
        not exported or any(isinstance(each, dict) for each in exported)
    ):
        raise ValueError("the export must be a list of tasks, as JSON or JSON_MIN of Label Studio")
    tasks = [each for each in exported if isinstance(each, dict)]
    if tasks and all("data" in each and not each.keys() & _ANSWERED for each in tasks):
        raise ValueError(
            "the export must hold annotations, got bare tasks; import them into Label Studio, "
            "label them there, and export them as JSON"
        )
    answers: list[Answer] = []
    refused: list[RefusedTask] = []
    n_skipped = n_unanswered = 0
    for place, row in enumerate(exported):
        if not isinstance(row, dict):
            refused.append(RefusedTask(task=str(place), reason="a task must be an object"))
            continue
        task = str(row.get("id", place))
        try:
            data = row["data"] if "annotations" in row else row
            node, origin = _asked(data, graph)
            annotations = list(_annotations(row, control))
        except _ODD as error:
            refused.append(_refused(task, error))
            continue
        n_unanswered += not annotations
        for annotation in annotations:
            if annotation.get("was_cancelled") or annotation.get("skipped"):
                n_skipped += 1
                continue
            try:
                choice = _choice(annotation, control)
                answers.append(
                    Answer(
                        node=node,
                        choice=choice,
                        origin=origin,
                        task=task,
                        annotator=_annotator(annotation, task),
                        at=_time(annotation),
                    )
                )
            except _NoAnswer:
                n_unanswered += 1
            except _ODD as error:
                refused.append(_refused(task, error))
    return Export(answers=answers, refused=refused, n_skipped=n_skipped, n_unanswered=n_unanswered)


def _refused(task: str, error: Exception) -> RefusedTask:
    """A task that breaks a rule of ours, or is of a shape that nobody foresaw."""
    is_ours = type(error) is ValueError
    reason = str(error) if is_ours else f"the task must be as Label Studio writes it ({error})"
    return RefusedTask(task=task, reason=reason)


def agreed(answers: Iterable[Answer]) -> tuple[list[Agreed], list[RefusedTask]]:
    """The label of each node that people agree on, and the nodes that they do not."""
    of_node: dict[str, list[Answer]] = defaultdict(list)
    for each in answers:
        of_node[each.node].append(each)
    labels, ties = [], []
    for node, labels_of_node in of_node.items():
        latest = {each.annotator: each for each in sorted(labels_of_node, key=_age)}
        votes = Counter(each.choice for each in latest.values()).most_common(2)
        task = labels_of_node[-1].task
        if len(votes) == 2 and votes[0][1] == votes[1][1]:
            split = " and ".join(repr(choice) for choice, _ in votes)
            reason = f"annotators must agree on one class more than on others, got {split} alike"
            ties.append(RefusedTask(task=task, reason=reason))
            continue
        choice = votes[0][0]
        chosen = sorted((each for each in latest.values() if each.choice == choice), key=_age)
        labels.append(
            Agreed(
                node=node,
                choice=choice,
                origin=chosen[-1].origin,
                task=task,
                annotators=tuple(each.annotator for each in chosen),
            )
        )
    return labels, ties


def _asked(data: object, graph: str) -> tuple[str, str]:
    if not isinstance(data, dict):
        raise ValueError("data must be an object")
    node = data.get(NODE)
    if isinstance(node, bool) or not isinstance(node, str | int) or node == "":
        raise ValueError(f"data must have {NODE!r}, the id of a node, got {node!r}")
    if data.get("graph", graph) != graph:
        raise ValueError(f"data must be of graph {graph!r}, got {data['graph']!r}")
    origin = data.get("origin")
    return str(node), origin if origin in ORIGINS else ORIGINS[0]


def _annotations(row: Mapping[str, Any], control: str) -> Iterator[Mapping[str, Any]]:
    """The annotations of a task, in the form that JSON has."""
    if "annotations" in row:
        if not isinstance(row["annotations"], list):
            raise ValueError("annotations must be a list")
        for each in row["annotations"]:
            if not isinstance(each, dict):
                raise ValueError("annotations must be objects, or export them whole")
            yield each
    elif "completions" in row:
        raise ValueError("annotations must be those of Label Studio 1.0 or newer")
    elif control in row:
        value = row[control]
        choices = [value] if isinstance(value, str) else _choices_of(value)
        yield {
            "id": row.get("annotation_id"),
            "completed_by": row.get("annotator"),
            "created_at": row.get("created_at"),
            "updated_at": row.get("updated_at"),
            "result": [{"from_name": control, "type": "choices", "value": {"choices": choices}}],
        }


def _choices_of(value: object) -> Sequence[object]:
    """Choices of a region, where JSON_MIN has not made one word of them."""
    regions = value if isinstance(value, list) else [value]
    return [
        choice
        for each in regions
        for choice in (each.get("choices", [each]) if isinstance(each, dict) else [each])
    ]


def _choice(annotation: Mapping[str, Any], control: str) -> str:
    result = annotation.get("result")
    if not isinstance(result, list):
        raise ValueError("result must be a list")
    choices = [
        choice
        for each in result
        if isinstance(each, dict) and each.get("from_name") == control
        for choice in _choices_of(each.get("value"))
    ]
    if not choices:
        raise _NoAnswer
    if len(choices) > 1 or not isinstance(choices[0], str) or not choices[0]:
        raise ValueError(f"{control!r} must be one choice, got {choices!r}")
    return choices[0]


def _annotator(annotation: Mapping[str, Any], task: str) -> str:
    """An e-mail address or id of who answered, made up where the export has none."""
    person = annotation.get("completed_by")
    if isinstance(person, dict):
        person = person.get("email") or person.get("id")
    return str(person) if person is not None else f"task {task}, {annotation.get('id')}"


def _time(annotation: Mapping[str, Any]) -> datetime | None:
    name = "updated_at" if annotation.get("updated_at") else "created_at"
    text = annotation.get(name)
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(str(text))
        at.timestamp()  # by which answers are put in order
        return at
    except (ValueError, OverflowError):
        raise ValueError(f"{name} must be a time as of ISO 8601, got {text!r}") from None


def _age(answer: Answer) -> float:
    """Sort key of answers, oldest first; without a time they are older than any."""
    return float("-inf") if answer.at is None else answer.at.timestamp()
