"""Tests of `peewit.solvers.models.machines`."""
