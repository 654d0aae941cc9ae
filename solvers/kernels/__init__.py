"""Compiled loops of the solvers: arrays in, arrays out, no checks, no randomness of their own.

Every kernel is serial and releases the GIL; kernels over rows take a range so that a caller may
split them between threads. Checking, conversion and naming happen in the caller.
"""
