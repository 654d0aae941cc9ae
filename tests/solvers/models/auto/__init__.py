"""Tests of `peewit.solvers.models.auto`."""
