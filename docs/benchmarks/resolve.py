"""A million nodes, ten classes, one more label: how long for the first answer, and for the next?

14 nearest neighbors of a 4-dimensional mixture of 10 Gaussians (n = 1 M, 8 M edges), 100 labels
drawn at random, Stable-HFS to a relative residual of 1e-6 on two threads. Printed: the first
answer; the answer after one more label, warm by block PCG and in kernel form (the columns of the
labels solved for beforehand); how far each is from a fit from nothing; the default model's answers;
and, on the same system, SciPy's conjugate gradients with Jacobi on one class, scikit-learn's
LabelSpreading, and scikit-network's Diffusion and Propagation. Wall seconds, all in one run.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, diags_array
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.exceptions import ConvergenceWarning
from sklearn.semi_supervised import LabelSpreading

from docs.benchmarks.frame import CONSOLE, installed, options, share_right
from docs.benchmarks.laplacian import mixture
from peewit.service.kernel_warmup import warm as compile_kernels
from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.catalogue import DEFAULT_MODEL
from peewit.solvers.models.contract.graph_model import PreparedGraph
from peewit.solvers.models.harmonic.harmonic import StableHFS
from peewit.solvers.models.harmonic.harmonic_mbo import HarmonicMBO

N_LABELS = 100
N_THREADS = 2
RTOL = 1e-6


@contextmanager
def timed(what: str, told: Callable[[], str] = str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    CONSOLE.print(f"{time.perf_counter() - began:8.2f} s  {what}  {told()}")


def compare(what: str, scores: FloatArray, fresh: FloatArray) -> None:
    largest = np.abs(scores - fresh).max() / np.abs(fresh).max()
    whole = np.linalg.norm(scores - fresh) / np.linalg.norm(fresh)
    same = (scores.argmax(axis=1) == fresh.argmax(axis=1)).mean()
    CONSOLE.print(
        f"            {what}: off by {largest:.1e} (largest score 1), {whole:.1e} in norm; "
        f"{same:.4%} of the classes the same"
    )


def scipy_one_class(graph: Graph, labels: Labels, kappa: float) -> int:
    """Steps of conjugate gradients on M f = y for the first class."""
    shift = np.zeros(graph.n_nodes)
    shift[labels.nodes] = 1.0
    matrix = (kappa * graph.laplacian() + diags_array(shift)).tocsr()
    inverse = 1.0 / matrix.diagonal()
    diagonal = LinearOperator(matrix.shape, matvec=lambda x: inverse * x, dtype=np.float64)
    rhs = np.zeros(graph.n_nodes)
    rhs[labels.nodes] = labels.targets()[:, 0] - labels.class_prior()[0]
    steps = 0

    def count(_x: FloatArray) -> None:
        nonlocal steps
        steps += 1

    cg(matrix, rhs, rtol=RTOL, atol=0.0, maxiter=5_000, M=diagonal, callback=count)
    return steps


def run_peers(graph: Graph, labels: Labels, truth: Int64Array) -> None:
    """Print what the others take, and how often they are right."""
    y = np.full(graph.n_nodes, -1)
    y[labels.nodes] = labels.classes
    adjacency = csr_matrix(graph.adjacency)

    def right(predicted: FloatArray) -> str:
        return f"accuracy {share_right(predicted, truth, labels.nodes):.3f}"

    answer: dict[str, Any] = {}
    spreading = LabelSpreading(kernel=lambda _x, _y: adjacency, alpha=0.99, max_iter=30)
    with timed("scikit-learn LabelSpreading", lambda: answer["text"]), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        spreading.fit(np.zeros((graph.n_nodes, 1)), y)
        answer["text"] = right(spreading.transduction_)
    if not (classification := installed("sknetwork.classification")):
        return
    for name, model in (
        ("Diffusion", classification.DiffusionClassifier(n_iter=50)),
        ("Propagation", classification.Propagation()),
    ):
        with timed(f"scikit-network {name}", lambda: answer["text"]):
            known = dict(zip(labels.nodes.tolist(), labels.classes.tolist(), strict=True))
            answer["text"] = right(model.fit_predict(adjacency, labels=known))


def main() -> None:
    asked = options(__doc__, quick={"nodes": 100_000}, nodes=1_000_000, graph_penalty=1.0)
    compile_kernels()
    graph, truth = mixture(asked.nodes, 4, 14)
    CONSOLE.print(f"{graph.n_nodes:,} nodes, {graph.n_edges:,} edges")
    drawn = np.random.default_rng(0).choice(graph.n_nodes, N_LABELS + 1, replace=False)
    first = Labels.from_pairs(drawn[:-1], truth[drawn[:-1]])
    more = Labels.from_pairs(drawn, truth[drawn])
    model = StableHFS(graph_penalty=asked.graph_penalty, rtol=RTOL)
    with ThreadPoolExecutor(N_THREADS) as pool:

        def prepared() -> PreparedGraph:
            return model.prepare(graph, parallel=pool.map)

        at_hand = prepared()
        with timed("first answer", lambda: str(dict(one.stats))):
            one = model.solve(at_hand, first)
        is_right = one.scores.argmax(axis=1) == truth
        CONSOLE.print(f"            accuracy {is_right.mean():.3f}")
        with timed("one more label, warm block PCG", lambda: str(dict(warm.stats))):
            warm = model.solve(at_hand, more, start=one)
        with timed("the columns of 100 labels, in advance"):
            at_hand.kernel.solver.max_iter = model.max_iter
            at_hand.kernel.between(first.nodes, None, None)
        with timed("one more label, kernel form", lambda: str(dict(kernel.stats))):
            kernel = model.solve(at_hand, more, start=one)
        default = HarmonicMBO()
        with timed(f"{DEFAULT_MODEL}, first answer", lambda: str(dict(walked.stats))):
            walked = default.solve(prepared(), first)
        is_right = walked.scores.argmax(axis=1) == truth
        CONSOLE.print(f"            accuracy {is_right.mean():.3f}")
        with timed(f"{DEFAULT_MODEL}, with the columns", lambda: str(dict(walked.stats))):
            walked = default.solve(at_hand, more)
        fresh = StableHFS(graph_penalty=asked.graph_penalty, rtol=1e-9).solve(prepared(), more)
        compare("warm block PCG", warm.scores, fresh.scores)
        compare("kernel form", kernel.scores, fresh.scores)
    steps = [0]
    with timed("scipy CG with Jacobi, one class of ten", lambda: f"{steps[0]} steps"):
        steps[0] = scipy_one_class(graph, first, asked.graph_penalty * N_LABELS)
    run_peers(graph, first, truth)


if __name__ == "__main__":
    main()
