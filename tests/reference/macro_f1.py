"""Macro-F1 of every assignment of a few nodes, each counted node by node."""

from itertools import product

import numpy as np


def expected_macro_f1(probabilities: np.ndarray, said: np.ndarray) -> float:
    """Mean over classes of twice the expected hits over nodes said and expected to be of it."""
    n_nodes, n_classes = probabilities.shape
    total = 0.0
    for k in range(n_classes):
        hits = sum(probabilities[i, k] for i in range(n_nodes) if said[i] == k)
        n_said = sum(1 for i in range(n_nodes) if said[i] == k)
        n_expected = sum(probabilities[i, k] for i in range(n_nodes))
        total += 2.0 * hits / (n_said + n_expected)
    return float(total / n_classes)


def best_macro_f1(probabilities: np.ndarray) -> float:
    """The largest of all assignments of nodes to classes."""
    n_nodes, n_classes = probabilities.shape
    every = product(range(n_classes), repeat=n_nodes)
    return max(expected_macro_f1(probabilities, np.array(said)) for said in every)
