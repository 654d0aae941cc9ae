"""Poisson learning, alone and with threshold dynamics."""
