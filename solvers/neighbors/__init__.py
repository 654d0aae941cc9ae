"""Nearest neighbors of rows, and the graphs that they make; distances that are looked at whole."""
