"""Relations: kinds of edges over the same nodes, and how much each of them counts.

Context: logins, cards and messages join the same accounts, and one kind of edge may say all, or
mislead. No scaling of weights is best on every graph, and left-out labels tell which one is.
Decision: cheap densities judge a dozen combinations, whole models run on the best two, and
probabilities are averaged by belief. Consequence: any model runs on relations without knowing of
them, and a graph of one relation is solved as if there were no such package.
"""
