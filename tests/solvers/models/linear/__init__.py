"""Tests of `peewit.solvers.models.linear`."""
