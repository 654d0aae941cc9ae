"""Laplacian systems: the operator, its preconditioners, block PCG, and effective resistances.

Context: one graph serves many right-hand sides, some systems are singular, some carry a diagonal
shift. Decision: one operator, scale * L + diag(shift), and one block PCG over all right-hand
sides; the preconditioner is chosen by trying. Consequence: a system without shift on a component
is solved in the space of zero sum there, and nobody else has to think about null spaces.
"""
