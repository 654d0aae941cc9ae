"""Nearest neighbors of rows, graphs of them, and full distance matrices."""
