"""Kernel machines, with and without the graph."""
