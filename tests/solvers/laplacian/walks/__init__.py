"""Tests of `peewit.solvers.laplacian.walks`."""
