"""Harmonic functions and what stands beside them: walks, bases, baselines."""
