"""networkx's node classification by Peewit's solvers: ``harmonic_function(G, backend="peewit")``.

Context: networkx dispatches functions to other packages by entry points. Decision: offer the two
functions of `networkx.algorithms.node_classification`, and return what networkx's own iterations
converge to. Consequence: programs that use networkx change one argument, or none where
``NETWORKX_BACKEND_PRIORITY=peewit`` is set.
"""
