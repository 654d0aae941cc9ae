"""The notebook of the pages runs, prints what it holds, and shows bars and tables."""

import nbformat
import pytest
from nbclient import NotebookClient

from tests.end_to_end.processes import REPOSITORY, Server

NOTEBOOK = REPOSITORY / "docs" / "tutorials" / "in-a-notebook.ipynb"


def printed(cell: nbformat.NotebookNode) -> list[str]:
    """Last values of a cell that are plain text; tables and bars differ each time."""
    return [
        output["data"]["text/plain"]
        for output in cell.get("outputs", [])
        if output["output_type"] == "execute_result" and "text/html" not in output["data"]
    ]


def shown(cell: nbformat.NotebookNode) -> str:
    return "".join(
        output["data"].get("text/html", "")
        for output in cell.get("outputs", [])
        if output["output_type"] in {"display_data", "execute_result"}
    )


# the kernel's sockets and its loop end with its process
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_the_notebook_runs_from_nothing_to_labels(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEEWIT_URL", server.url)
    stored = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(stored)
    ran = nbformat.from_dict(stored)
    for cell in ran.cells:
        cell.pop("outputs", None)
        if cell.cell_type == "code":
            cell.outputs = []
    NotebookClient(ran, timeout=120, kernel_name="python3").execute()
    code = [cell for cell in ran.cells if cell.cell_type == "code"]
    before = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert [printed(cell) for cell in code] == [printed(cell) for cell in before]
    assert any(map(printed, code))
    sparsified, told, *_, solved, graph, _ = code
    assert "<progress" in shown(sparsified)
    assert "done</div>" in shown(sparsified)
    assert "<b>Sparsified</b>" in shown(sparsified)
    assert "scan-0000" in shown(told)
    assert "<progress" in shown(solved)
    assert "<b>Predictions</b>" in shown(solved)
    assert "<b>Graph scans</b>" in shown(graph)
