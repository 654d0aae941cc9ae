"""New points of the Lap-, TV- and Cheeger models: dense kernel expansions are their twins."""

from dataclasses import replace

import numpy as np
import pytest

from peewit.solvers.labels import Labels
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.models.contract.inductive_model import InductiveModel
from peewit.solvers.models.variational.cheeger_machines import CheegerModel
from peewit.solvers.models.variational.simplex_machines import SimplexMachine
from peewit.solvers.neighbors.neighbor_graph import neighbor_graph
from peewit.solvers.status import Status
from tests.reference.kernel_machines import kernel_matrix
from tests.solvers.models.variational.test_variational_models import (
    CONVEX,
    NAMES,
    SPACE,
    WIDTH,
    clouds,
)

NEW = np.random.default_rng(5).normal(size=(40, 2)) * 2.0
NORM = 0.3


def model_of(name: str, **settings) -> InductiveModel:
    known = {"norm_penalty": NORM, **SPACE, **settings}
    return CATALOGUE[name](**known)


def near(points: np.ndarray, to: np.ndarray) -> np.ndarray:
    return kernel_matrix("gaussian", points, to, WIDTH)


def of_columns(scores: np.ndarray) -> np.ndarray:
    """One column of two classes whose scores are a function and its negative."""
    is_one = scores.shape[1] == 2 and np.array_equal(scores[:, 0], -scores[:, 1])
    return scores[:, 1:] if is_one else scores


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", ["lap-rls", "lap-svm", "tv-rls", "tv-svm"])
def test_functions_of_convex_problems_have_the_values_of_the_nodes(name, n_classes) -> None:
    given = clouds(n_classes, size=24 // n_classes)
    loose = {**CONVEX, "rtol": 1e-4, "proximal_rtol": 1e-6}
    settings = loose if name.startswith("tv") else {"rtol": 1e-7, "max_iter": 20_000}
    model = model_of(name, **settings)
    prepared = model.prepare(given.graph, given.points)
    solution = model.solve(prepared, given.labels)
    assert solution.status is Status.CONVERGED
    found = model.predict(prepared, solution, given.points)
    np.testing.assert_allclose(found, solution.scores, atol=10.0 * settings["rtol"])


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_functions_are_spanned_by_the_kernel_at_the_nodes(name, n_classes) -> None:
    """The representer theorem: values at the nodes, less the intercept, tell all others."""
    given = clouds(n_classes, size=24 // n_classes)
    model = model_of(name)
    prepared = model.prepare(given.graph, given.points)
    solution = model.solve(prepared, given.labels)
    intercept = solution.functions.intercept
    at_nodes = of_columns(model.predict(prepared, solution, given.points)) - intercept
    coef = np.linalg.solve(given.gram, at_nodes)
    found = of_columns(model.predict(prepared, solution, NEW))
    np.testing.assert_allclose(found, near(NEW, given.points) @ coef + intercept, atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_lap_rls_is_its_closed_form_at_new_points(n_classes) -> None:
    """(G2): alpha = (norm I + (graph L + eta J) K)^-1 eta (y - base), not brought to [0, 1]."""
    given = clouds(n_classes)
    eta, energy = 2.0, 0.1
    model = model_of("lap-rls", label_weight=eta, graph_penalty=energy, rtol=0.9)
    prepared = model.prepare(given.graph, given.points)
    solution = model.solve(prepared, given.labels)
    base = 0.0 if n_classes == 2 else 1.0 / n_classes
    penalty = energy * given.laplacian + eta * given.at_labels
    pulled = eta * given.at_labels @ (given.targets - base)
    coef = np.linalg.solve(NORM * np.eye(given.n_nodes) + penalty @ given.gram, pulled)
    found = of_columns(model.predict(prepared, solution, NEW))
    np.testing.assert_allclose(found, base + near(NEW, given.points) @ coef, atol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", ["tv-rls", "tv-svm", "cheeger-rls"])
def test_functions_of_a_partition_are_the_ridge_regression_of_its_values(name, n_classes) -> None:
    """(G2a): f = K (norm I + pull K)^-1 pull (g - base)."""
    given = clouds(n_classes)
    model = model_of(name)
    prepared = model.prepare(given.graph, given.points)
    solution = model.solve(prepared, given.labels)
    is_shares = n_classes > 2 or isinstance(model, CheegerModel)
    base = 1.0 / n_classes if is_shares else 0.0
    intercept = solution.functions.intercept
    values = solution.scores if is_shares else solution.scores[:, 1:]
    values = values - (intercept - base if name == "tv-svm" else 0.0)
    coef = np.linalg.solve(NORM * np.eye(given.n_nodes) + given.gram, values - base)
    found = of_columns(model.predict(prepared, solution, NEW))
    np.testing.assert_allclose(found, near(NEW, given.points) @ coef + intercept, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_landmarks_on_all_nodes_give_the_dense_functions(name) -> None:
    given = clouds(3)
    found = []
    for gram in ("dense", "landmarks"):
        model = model_of(name, gram=gram, n_landmarks=given.n_nodes)
        prepared = model.prepare(given.graph, given.points)
        found.append(model.predict(prepared, model.solve(prepared, given.labels), NEW))
    np.testing.assert_allclose(found[0], found[1], atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_held_back_points_are_classified_as_well_as_nodes(name) -> None:
    """Two interleaved half moons, of which every other point is held back; three labels each."""
    rng = np.random.default_rng(0)
    angle = np.pi * rng.random(600)
    moon = np.repeat([0, 1], 300)
    points = np.column_stack([np.cos(angle), np.sin(angle)])
    points[moon == 1] = [1.0, 0.4] - points[moon == 1]
    points += 0.1 * rng.normal(size=points.shape)
    seen, new = np.arange(0, 600, 2), np.arange(1, 600, 2)
    drawn = [rng.choice(np.flatnonzero(moon[seen] == k), 3, replace=False) for k in (0, 1)]
    labeled = np.sort(np.concatenate(drawn))
    labels = Labels.from_pairs(labeled, moon[seen][labeled])
    model = CATALOGUE[name]()
    prepared = model.prepare(neighbor_graph(points[seen], 10), points[seen])
    solution = model.solve(prepared, labels)
    at_nodes = np.mean(solution.scores.argmax(axis=1) == moon[seen])
    at_points = model.predict(prepared, solution, points[new]).argmax(axis=1)
    assert np.mean(at_points == moon[new]) > max(0.7, at_nodes - 0.05)


@pytest.mark.parametrize("name", NAMES)
def test_without_a_norm_there_are_no_functions(name) -> None:
    given = clouds(3)
    model = model_of(name, norm_penalty=0.0)
    prepared = model.prepare(given.graph, given.points)
    solution = model.solve(prepared, given.labels)
    assert solution.functions is None
    with pytest.raises(ValueError, match="norm_penalty must be above 0 where new points"):
        model.predict(prepared, solution, NEW)
    model = replace(model, norm_penalty=NORM)
    alone = model.prepare(given.graph)
    with pytest.raises(ValueError, match="give the nodes features and solve again"):
        model.predict(alone, model.solve(alone, given.labels), NEW)


@pytest.mark.parametrize("name", NAMES)
def test_probabilities_of_a_partition_are_none_of_new_points(name) -> None:
    model = CATALOGUE[name]
    reason = model.barred({"input": "features"}, is_calibrated=True)
    assert (reason is None) == issubclass(model, SimplexMachine)
    assert model.barred({"input": "features"}, is_calibrated=False) is None
    assert model.barred({"input": "graph"}, is_calibrated=True) is None
