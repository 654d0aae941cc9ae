"""Kernel machines with a graph penalty: one objective, three ways to its minimum.

Context: f = K coef + intercept minimizes 1/2 (sum of losses + norm_penalty |f|^2 + graph_penalty f'
L^p f), one function for each class against the rest. Decision: the problem is written for a
hypothesis space and a Laplacian by products; conjugate gradients need no more, while Newton and the
dual reduce it to the labeled nodes first. Consequence: the two families share only the problem, and
check each other in the tests.
"""
