"""tune jobs over HTTP."""

import pytest

from tests.service.api.conftest import ARROW, Api, community_edges


@pytest.mark.usefixtures("processes")
def test_a_search_runs_and_names_the_best(api: Api) -> None:
    api.create_graph("g", expected_nodes=60)
    api.push(community_edges(ARROW), ARROW)
    api.ingest()
    api.put_labels({f"n{node}": "left" if node < 30 else "right" for node in range(20, 40)})
    body = {
        "kind": "tune",
        "model": "lapsvm",
        "parameters": {"grid": {"graph_penalty": [1.0, 0.1]}, "folds": 4, "power": 1},
    }
    job = api.call("POST", "/graphs/g/jobs", 202, json=body).json()
    assert (job["kind"], job["model"], job["parameters"]) == ("tune", "lapsvm", body["parameters"])
    api.run_job(job["id"])
    ended = api.call("GET", f"/jobs/{job['id']}", 200).json()
    assert ended["status"] == "succeeded", ended["error"]
    assert ended["result"]["accuracy"] > 0.8
    assert len(ended["result"]["trials"]) == 2
    solve = {"model": "lapsvm", "parameters": ended["result"]["parameters"]}
    again = api.call("POST", "/graphs/g/jobs", 202, json=solve).json()
    api.run_job(again["id"])
    assert api.call("GET", f"/jobs/{again['id']}", 200).json()["status"] == "succeeded"
