"""Linear machines written out densely: rows, objectives, their minima, beliefs (section F)."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import scipy.sparse as sp
from scipy.optimize import brentq, minimize


def formed(matrix, *, is_unit: bool, constant: float) -> np.ndarray:
    """((x - center) / |x - center|, constant), row by row."""
    is_sparse = sp.issparse(matrix)
    rows = np.array(matrix.toarray() if is_sparse else matrix, np.float64)
    if is_unit:
        if not is_sparse:
            rows -= rows.mean(axis=0)
        lengths = [np.sqrt(np.sum(row**2)) for row in rows]
        rows /= np.array([length if length > 0 else 1.0 for length in lengths])[:, None]
    return np.hstack([rows, np.full((len(rows), 1), constant)])


@dataclass(frozen=True, kw_only=True)
class DenseMachine:
    """norm_penalty / 2 |w|^2 + 1/2 sum a (1 - o)_+^2 + b (1 + o)_+^2 + 1/2 o' graph o, o = X w."""

    rows: np.ndarray
    norm_penalty: float
    positive: np.ndarray
    negative: np.ndarray
    graph: np.ndarray | None = None

    def objective(self, weights: np.ndarray) -> float:
        outputs = self.rows @ weights
        total = self.norm_penalty * np.sum(weights**2)
        total += np.sum(self.positive * np.maximum(0, 1 - outputs) ** 2)
        total += np.sum(self.negative * np.maximum(0, 1 + outputs) ** 2)
        if self.graph is not None:
            total += outputs @ self.graph @ outputs
        return 0.5 * float(total)

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        outputs = self.rows @ weights
        pulled = self.negative * np.maximum(0, 1 + outputs)
        pulled -= self.positive * np.maximum(0, 1 - outputs)
        if self.graph is not None:
            pulled = pulled + self.graph @ outputs
        return self.norm_penalty * weights + self.rows.T @ pulled

    def minimum(self) -> np.ndarray:
        """L-BFGS, and then solves of the piece it ends in as long as they lower the objective."""
        found = minimize(
            self.objective,
            np.zeros(self.rows.shape[1]),
            jac=self.gradient,
            method="L-BFGS-B",
            options={"maxiter": 20_000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-9},
        ).x
        for _ in range(20):
            following = self._of_piece(self.rows @ found)
            if not self.objective(following) < self.objective(found):
                break
            found = following
        return found

    def _of_piece(self, outputs: np.ndarray) -> np.ndarray:
        below = np.where(outputs < 1, self.positive, 0)
        above = np.where(outputs > -1, self.negative, 0)
        inner = np.diag(below + above)
        if self.graph is not None:
            inner = inner + self.graph
        left = self.norm_penalty * np.eye(self.rows.shape[1]) + self.rows.T @ inner @ self.rows
        return np.linalg.solve(left, self.rows.T @ (below - above))


def ridge(rows: np.ndarray, targets: np.ndarray, costs: np.ndarray, penalty: float) -> np.ndarray:
    """Weights of penalty |w|^2 + sum costs (targets - X w)^2."""
    left = penalty * np.eye(rows.shape[1]) + rows.T @ (costs[:, None] * rows)
    return np.linalg.solve(left, rows.T @ (costs * targets))


@dataclass(frozen=True, kw_only=True)
class DenseTransduction:
    """(F4) and (F5) without graph."""

    rows: np.ndarray
    nodes: np.ndarray
    targets: np.ndarray
    costs: np.ndarray
    norm_penalty: float
    unlabeled_weight: float

    @property
    def unlabeled(self) -> np.ndarray:
        return np.setdiff1d(np.arange(len(self.rows)), self.nodes)

    def machine(self, belief: np.ndarray) -> DenseMachine:
        """The w-step: each unlabeled row twice, with the label 1 and with -1."""
        cost = self.unlabeled_weight / self.unlabeled.size
        positive = np.concatenate([np.where(self.targets > 0, self.costs, 0), cost * belief])
        negative = np.concatenate([np.where(self.targets > 0, 0, self.costs), cost * (1 - belief)])
        rows = np.vstack([self.rows[self.nodes], self.rows[self.unlabeled]])
        return DenseMachine(
            rows=np.vstack([rows, rows]),
            norm_penalty=self.norm_penalty,
            positive=np.concatenate([positive, 0 * positive]),
            negative=np.concatenate([0 * negative, negative]),
        )

    def supervised(self) -> DenseMachine:
        """Of the labeled rows alone."""
        return DenseMachine(
            rows=self.rows[self.nodes],
            norm_penalty=self.norm_penalty,
            positive=np.where(self.targets > 0, self.costs, 0),
            negative=np.where(self.targets > 0, 0, self.costs),
        )

    def best_objective(self, weights: np.ndarray) -> float:
        """J: each unlabeled row has the label that suits it."""
        outputs = self.rows[self.unlabeled] @ weights
        slack = np.maximum(0, 1 - np.abs(outputs))
        cost = self.unlabeled_weight / self.unlabeled.size
        return self.supervised().objective(weights) + 0.5 * cost * float(np.sum(slack**2))

    def least_objective(self, n_positive: int) -> float:
        """(F4) over all labelings with so many labels 1."""
        n_unlabeled = self.unlabeled.size
        least = np.inf
        for chosen in combinations(range(n_unlabeled), n_positive):
            belief = np.zeros(n_unlabeled)
            belief[list(chosen)] = 1
            machine = self.machine(belief)
            least = min(least, machine.objective(machine.minimum()))
        return least


def sigmoid(values: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * values))


def root_beliefs(gain: np.ndarray, temperature: float, share: float) -> np.ndarray:
    """(F6) with the nu of a root finder in the bracket (F7)."""
    offset = temperature * np.log((1 - share) / share)

    def miss(shift: float) -> float:
        return float(np.mean(sigmoid((shift - gain) / temperature)) - share)

    lower, upper = gain.min() - offset - 1e-9, gain.max() - offset + 1e-9
    return sigmoid((brentq(miss, lower, upper, xtol=1e-15, rtol=1e-15) - gain) / temperature)
