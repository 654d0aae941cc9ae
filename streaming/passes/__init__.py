"""Passes over the raw edges of a snapshot, and what is made by them."""
