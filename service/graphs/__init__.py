"""Graphs as readers see them: nodes, edges, and growth."""
