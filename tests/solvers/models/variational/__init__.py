"""Tests of `peewit.solvers.models.variational`."""
