"""Where compiled code is kept, so that the processes that tests start need not compile it again."""

import os
from pathlib import Path

os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parents[2] / ".numba-cache"))
