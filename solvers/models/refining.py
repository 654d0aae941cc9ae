"""Models whose answer on a sparsifier can be carried on to the one on the full graph."""

from solvers.models.base import Model


class Refinable(Model):
    """A model that poses the linear system of its answer on any graph with the same nodes."""
