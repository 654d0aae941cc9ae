"""GCN and APPNP of PyTorch Geometric, trained as their papers do it.

The layers are those of PyTorch Geometric, which is what people run, and is kept up: MIT, 48
releases since 2018, the newest 2.8.1 of October 2026.

References
----------
Kipf and Welling, Semi-supervised classification with graph convolutional networks, ICLR 2017.
Klicpera, Bojchevski and Guennemann, Predict then propagate: graph neural networks meet
personalized PageRank, ICLR 2019.
"""

import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.preprocessing import normalize
from torch import Tensor
from torch.nn import functional
from torch_geometric import nn as layers

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels

DROPOUT = 0.5
RATE = 0.01


class Network(torch.nn.Module):
    """How a network is trained: decay of its first layer, and when training ends."""

    first: torch.nn.Module
    decay: float
    n_epochs: int
    most_epochs: int
    patience: int


class GCN(Network):
    """Two graph convolutions, 16 hidden units."""

    decay = 5e-4
    n_epochs = most_epochs = 200
    patience = 10

    def __init__(self, n_columns: int, n_classes: int) -> None:
        super().__init__()
        self.first = layers.GCNConv(n_columns, 16, cached=True)
        self.last = layers.GCNConv(16, n_classes, cached=True)

    def forward(self, rows: Tensor, edges: Tensor, weight: Tensor) -> Tensor:
        hidden = functional.relu(self.first(rows, edges, weight))
        return self.last(functional.dropout(hidden, DROPOUT, self.training), edges, weight)


class APPNP(Network):
    """Two linear layers, 64 hidden units, and ten steps of personalized PageRank.

    No edges are dropped: in PyTorch Geometric 2.8.1 a step drops from what the step before left
    (its issue 10783), and labels of Cora were predicted no better where every step dropped anew.
    """

    decay = 5e-3
    n_epochs = 300
    most_epochs = 10_000
    patience = 100

    def __init__(self, n_columns: int, n_classes: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(n_columns, 64, bias=False)
        self.last = torch.nn.Linear(64, n_classes, bias=False)
        self.walk = layers.APPNP(K=10, alpha=0.1, cached=True)

    def forward(self, rows: Tensor, edges: Tensor, weight: Tensor) -> Tensor:
        hidden = functional.relu(self.first(rows))
        hidden = self.last(functional.dropout(hidden, DROPOUT, self.training))
        return self.walk(hidden, edges, weight)


def trained(
    kind: type[Network],
    graph: Graph,
    features: Any,
    labels: Labels,
    validation: Labels | None,
    *,
    seed: int,
    row_norm: str | None = "l1",
) -> FloatArray:
    """Class scores of all nodes, from features that are scaled by rows as in the papers, or not.

    With labels for ``validation``, of the same classes, the weights of the epoch with the least
    loss there are taken, and training ends when it has not fallen for the paper's patience; without
    them after ``n_epochs``.
    """
    torch.manual_seed(seed)
    adjacency = graph.adjacency.tocoo()
    edges = torch.from_numpy(np.stack([adjacency.row, adjacency.col]).astype(np.int64))
    weight = torch.from_numpy(adjacency.data.astype(np.float32))
    rows = _tensor(features if row_norm is None else normalize(features, norm=row_norm))
    network = kind(features.shape[1], labels.n_classes)
    others = [each for name, each in network.named_parameters() if not name.startswith("first")]
    decayed = {"params": network.first.parameters(), "weight_decay": kind.decay}
    optimizer = torch.optim.Adam([decayed, {"params": others}], lr=RATE)
    least, best, age = float("inf"), network.state_dict(), 0
    for _ in range(kind.n_epochs if validation is None else kind.most_epochs):
        network.train()
        optimizer.zero_grad()
        _loss(network(_dropped(rows), edges, weight), labels).backward()
        optimizer.step()
        if validation is None:
            continue
        network.eval()
        with torch.no_grad():
            loss = float(_loss(network(rows, edges, weight), validation))
        age = 0 if loss < least else age + 1
        if age == 0:
            least, best = loss, copy.deepcopy(network.state_dict())
        elif age == kind.patience:
            break
    if validation is not None:
        network.load_state_dict(best)
    network.eval()
    with torch.no_grad():
        scores: FloatArray = network(rows, edges, weight).numpy()
    return scores


def _loss(scores: Tensor, labels: Labels) -> Tensor:
    return functional.cross_entropy(
        scores[torch.tensor(labels.nodes)], torch.tensor(labels.classes)
    )


def _tensor(rows: Any) -> Tensor:
    matrix = sp.csr_array(rows).tocoo()
    at = torch.from_numpy(np.stack([matrix.row, matrix.col]).astype(np.int64))
    values = torch.from_numpy(matrix.data.astype(np.float32))
    return _sparse(at, values, matrix.shape)


def _dropped(rows: Tensor) -> Tensor:
    """Dropout of a sparse matrix: of its entries, as zeros stay zero."""
    values = functional.dropout(rows.values(), DROPOUT)
    return _sparse(rows.indices(), values, rows.shape)


def _sparse(at: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    return torch.sparse_coo_tensor(at, values, shape, is_coalesced=True, check_invariants=False)
