"""Observations of anndata: their graph in, and what is predicted of them out."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from peewit import StableHFS, sparsify
from peewit.service.client import Predictions

CELLS = [f"cell-{number}" for number in range(40)]


@pytest.fixture
def cells(processes: None) -> Any:  # anndata's h5py starts one where it is imported
    """Two chains of cells, of which three each have a type and the others a missing one."""
    anndata, pandas = pytest.importorskip("anndata"), pytest.importorskip("pandas")
    ends = np.array([n for n in range(39) if n != 19])
    chains = sp.coo_matrix((np.ones(38), (ends, ends + 1)), shape=(40, 40)).tocsr()
    known: list[str | None] = [None] * 40
    known[0] = known[1] = known[9] = "T cell"
    known[20] = known[21] = known[39] = "B cell"
    obs = pandas.DataFrame({"cell_type": pandas.Categorical(known)}, index=CELLS)
    data = anndata.AnnData(np.ones((40, 2), np.float32), obs=obs)
    data.obsp["connectivities"] = chains + chains.T
    data.obsp["half"] = data.obsp["connectivities"] / 2
    return data


def test_the_graph_of_an_anndata_has_its_names_in_its_order(cells: Any) -> None:
    graph = sparsify(cells)
    assert graph.external_ids.to_pylist() == CELLS
    assert abs(graph.adjacency - cells.obsp["connectivities"]).nnz == 0
    assert sparsify(cells, weight="half").adjacency.sum() == graph.adjacency.sum() / 2


def test_a_missing_type_is_unknown_and_predictions_go_back_by_name(cells: Any) -> None:
    model = StableHFS(probabilities=True, sets=True)
    model.fit(sparsify(cells), cells.obs["cell_type"])
    shuffled = cells[::-1].copy()
    predictions = model.predictions(coverage=0.5)
    assert predictions.to_anndata(shuffled, "found") is shuffled
    assert shuffled.obs["found"]["cell-15"] == "T cell"
    assert shuffled.obs["found"]["cell-33"] == "B cell"
    assert shuffled.obs["found"].dtype == "category"
    table = predictions.to_pandas().set_index("node").loc[shuffled.obs_names]
    chances = shuffled.obsm["found_probability"]
    assert list(chances.columns) == ["B cell", "T cell"]
    assert np.array_equal(chances["B cell"], table["probability:B cell"])
    sets = shuffled.obsm["found_labels"]
    assert [list(sets.columns[row]) for row in sets.to_numpy()] == list(map(list, table["labels"]))
    assert np.array_equal(shuffled.obs["found_certain"], table["certain"])


def test_observations_without_a_row_have_missing_values(cells: Any) -> None:
    """Such as nodes that a server has not heard of."""
    table = pa.table(
        {
            "node": CELLS[1:3],
            "label": [7, 8],
            "margin": [0.5, 0.25],
            "reachable": [True, False],
            "score:7": [1.0, 0.0],
            "score:8": [0.0, 1.0],
            "labels": [[7], [7, 8]],
        }
    )
    found = Predictions(
        table=table,
        job="j",
        model="hfs",
        snapshot=1,
        labels_seq=1,
        features_version=0,
        solver_status="converged",
        etag=None,
    )
    found.to_anndata(cells)
    assert cells.obs["peewit"].isna().sum() == 38
    assert cells.obs["peewit"]["cell-2"] == 8
    assert cells.obs["peewit_reachable"].isna().sum() == 38
    assert cells.obsm["peewit_score"]["8"].tolist()[1:3] == [0.0, 1.0]
    assert cells.obsm["peewit_labels"]["8"].tolist()[1:3] == [False, True]


def test_rows_of_no_observation_are_refused_with_a_way_out(cells: Any) -> None:
    y = np.where(np.arange(40) < 2, np.arange(40), -1)
    model = StableHFS().fit(cells.obsp["connectivities"], y)
    with pytest.raises(ValueError, match=r"obs_names of the AnnData, got '0'; make .*sparsify"):
        model.predictions().to_anndata(cells)


def test_an_estimator_says_how_an_anndata_becomes_a_graph(cells: Any) -> None:
    with pytest.raises(TypeError, match=r"got an AnnData; give peewit.sparsify\(X\)"):
        StableHFS().fit(cells, cells.obs["cell_type"])


@pytest.mark.parametrize(
    ("obsp", "names", "told"),
    [
        ({"distances": 1}, ["a", "b"], "must have 'connectivities', got distances; scanpy"),
        ({"connectivities": 1}, ["a", "a"], r"must differ, got one twice; obs_names_make_unique"),
    ],
)
def test_an_anndata_without_a_graph_of_named_nodes_is_refused(
    obsp: dict[str, Any], names: list[str], told: str
) -> None:
    """Also where anndata is not installed: it is known by what it has."""
    with pytest.raises(ValueError, match=told):
        sparsify(SimpleNamespace(obsp=obsp, obs_names=names))
