"""Tests of `peewit.solvers.models.poisson`."""
