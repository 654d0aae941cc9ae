"""Tests of `peewit.solvers.models.left_out`."""
