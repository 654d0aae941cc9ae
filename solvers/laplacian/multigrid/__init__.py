"""Multigrid for Laplacians: its hierarchy, cycles, and amendments."""
