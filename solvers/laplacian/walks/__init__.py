"""Random walks on a graph, to their end or a few steps."""
