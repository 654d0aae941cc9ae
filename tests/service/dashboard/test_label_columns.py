"""Pages of one label column: its labels, what to label next in it, and what it predicts."""

import pytest

from peewit.service.jobs.job import JobStatus
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.node_embedding import embed
from tests.service.api.conftest import CSV, Api, bring_communities
from tests.service.dashboard.forms import PIECE, look, send

LABELS, NEXT = "/graphs/g/labels", "/graphs/g/label-next"
HUE = "label_column=hue"


@pytest.fixture
def graph(pages: Api) -> Api:
    """A graph g with labels in the column without a name, and in hue."""
    bring_communities(pages)
    options = {"content": b"node,hue\nn3,red\nn33,blue\n", "headers": {"Content-Type": CSV}}
    pages.call("PUT", f"{LABELS}?{HUE}", 200, **options)
    return pages


def hues(api: Api) -> dict[str, object]:
    graph_id = api.home.catalog.get("g").id
    return dict(api.home.labels.of_nodes(graph_id, ["n3", "n5", "n7"], column="hue"))


def test_labels_are_shown_put_and_taken_back_in_their_column(graph: Api) -> None:
    text = look(graph, f"{LABELS}?{HUE}")
    assert f'href="{LABELS}?{HUE}" aria-current="true"' in text
    assert "red" in text
    assert "left" not in text
    assert "<td>red</td>" not in look(graph, LABELS)
    assert "blue" in look(graph, f"{LABELS}/counts?{HUE}", headers=PIECE)
    form = {"label_column": "hue", "back": f"labels?{HUE}"}
    assert send(graph, LABELS, node="n5", label="red", **form).headers["location"].endswith(HUE)
    send(graph, f"{LABELS}/remove", node="n3", **form)
    assert hues(graph) == {"n5": "red"}
    send(graph, LABELS, 404, node="n5", label="red", label_column="nope")


def test_what_to_label_next_is_asked_of_one_column(graph: Api) -> None:
    record = graph.home.catalog.get("g")
    embed(GraphPaths(root=graph.home.settings.graphs_directory / record.id), 1)
    card = look(graph, f"{NEXT}/card?{HUE}")
    assert ">red <kbd>" in card
    assert ">left <kbd>" not in card
    assert 'name="label_column" value="hue"' in card
    done = send(graph, NEXT, 200, node="n5", label="red", label_column="hue").text
    assert "n5" in done
    assert hues(graph) == {"n3": "red", "n5": "red"}
    send(graph, NEXT, 200, node="n5", label="red", label_column="hue", undo="1")
    assert hues(graph) == {"n3": "red"}
    back = f"label-next?{HUE}"
    moved = send(graph, "/graphs/g/jobs", model="hfs", label_column="hue", back=back)
    assert f"{back}&job=" in moved.headers["location"]
    (job,) = graph.home.jobs.list(status=JobStatus.QUEUED).jobs
    assert job.parameters == {"label_column": "hue"}
    assert job.id in look(graph, f"{NEXT}/effect?{HUE}", headers=PIECE)
    assert job.id not in look(graph, f"{NEXT}/effect", headers=PIECE)
    look(graph, f"{NEXT}?label_column=nope", 404)


@pytest.mark.usefixtures("processes")
def test_predictions_are_shown_beside_the_labels_of_their_column(graph: Api) -> None:
    job = graph.solve("hfs", label_column="hue")
    text = look(graph, "/graphs/g/predictions")  # none of the column without a name
    assert "of label column <strong>hue</strong>" in text
    assert "<td>red</td>" in text
    assert "left" not in text
    node = look(graph, f"/graphs/g/node?id=n3&job={job['id']}")
    assert "Label in hue" in node
    assert '<p class="verdict">red</p>' in node
