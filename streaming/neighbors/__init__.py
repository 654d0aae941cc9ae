"""Edges from features: nearest neighbors of rows on the disk."""
