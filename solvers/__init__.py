"""Mathematics on one in-memory graph: no files, threads, clock or logging.

Context: the stream needs effective resistances, the service needs predictions, and both need
the same Laplacian systems. Decision: everything that is mathematics lives here, at the bottom,
and numba only in ``peewit.solvers.kernels``. Consequence: results depend on the arguments alone.
"""
