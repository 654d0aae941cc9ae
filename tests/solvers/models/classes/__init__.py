"""Tests of `peewit.solvers.models.classes`."""
