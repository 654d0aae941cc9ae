"""Tests of `peewit.solvers.laplacian.multigrid`."""
