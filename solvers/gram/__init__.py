"""Gram matrices as operators: models use only their products and columns.

Context: a Gram matrix of n nodes has n^2 entries, which fit in memory for some 30,000 nodes.
Decision: a hypothesis space maps coefficients to values at the nodes and back, whether it is the
span of kernel columns (`kernel_spaces`) or of explicit features (`feature_spaces`). Consequence: a
method written for the space runs dense, blocked, on landmarks and on sparse features alike.
"""
