"""Tests of `peewit.solvers.models.harmonic`."""
