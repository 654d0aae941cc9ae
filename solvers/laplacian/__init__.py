"""Laplacian systems: the operator, its preconditioners, block PCG, and effective resistances.

Context: one graph serves many right-hand sides; some systems are singular, some carry a diagonal
shift. Decision: one operator, scale * L + diag(shift), and one block PCG for all right-hand sides;
the preconditioner is chosen by trying. Consequence: a system without shift on a component is solved
among vectors of zero sum there, and callers need not handle null spaces.
"""
