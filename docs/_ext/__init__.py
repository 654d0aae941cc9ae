"""Sphinx extensions of these pages."""
