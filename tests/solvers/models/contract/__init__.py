"""Tests of `peewit.solvers.models.contract`."""
