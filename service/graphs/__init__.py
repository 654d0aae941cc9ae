"""A graph as readers see it: its nodes, its edges, and how it has grown."""
