"""Programs that measure; every method of each, ours and others', on the same number of threads.

Libraries read it when they load, so that it is set before a program imports any, and its processes
inherit it: one, or as many as ``OMP_NUM_THREADS`` says.
"""

import os
import sys
from typing import Final

N_THREADS: Final = int(os.environ.get("OMP_NUM_THREADS", "1"))

for _library in ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON"):
    os.environ[f"{_library}_NUM_THREADS"] = str(N_THREADS)
for _library in ("POLARS_MAX", "VECLIB_MAXIMUM"):
    os.environ[f"{_library}_THREADS"] = str(N_THREADS)

if sys.argv[0] == "-m":  # while Python looks for the program that it was told to run
    print(f"threads of every method (OMP_NUM_THREADS): {N_THREADS}")  # noqa: T201 - a measurement
