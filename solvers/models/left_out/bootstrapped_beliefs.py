"""Beliefs in several ways to predict, by how well each predicts labels that it left out (K19).

References
----------
Yao, Vehtari, Simpson and Gelman, Using stacking to average Bayesian predictive distributions,
Bayesian Analysis 13 (2018), section 3.4.
"""

from typing import Final

import numpy as np
from scipy.special import softmax

from peewit.solvers.arrays import FloatArray

_MOST_BOOTSTRAPS: Final = 1_000
_LEAST_BOOTSTRAPS: Final = 50
_BOOTSTRAP_ENTRIES: Final = 2_000_000
"""Of thousands of labels bootstraps are much alike, and fewer do."""


def bootstrapped_beliefs(losses: FloatArray, masses: FloatArray) -> FloatArray:
    """(n_candidates,) mean of the posterior over Bayesian bootstraps of the labels (K19).

    ``losses``, (n_candidates, n_labels), are log losses of left-out labels, ``masses`` prior.
    """
    n_labels = losses.shape[1]
    n_drawn = int(np.clip(_BOOTSTRAP_ENTRIES // n_labels, _LEAST_BOOTSTRAPS, _MOST_BOOTSTRAPS))
    drawn = n_labels * np.random.default_rng(0).dirichlet(np.ones(n_labels), n_drawn)
    beliefs: FloatArray = softmax(np.log(masses) - drawn @ losses.T, axis=1).mean(axis=0)
    return beliefs
