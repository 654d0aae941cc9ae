"""One thread of the BLAS inside every solve.

Threads of a BLAS wait for one another by spinning, and products of vectors and thin blocks are too
short to pay for that: a solve took two to three times its processor time, and more beside busy
processes. Parts of long products run by `peewit.solvers.row_ranges`, whose threads sleep.
"""

import threading
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any, Final


class _OfThread(threading.local):
    """What each scope of a thread has changed for this thread alone, innermost last."""

    def __init__(self) -> None:
        self.scopes: list[dict[str, tuple[Any, int]]] = []


class _OneBlasThread(ContextDecorator):
    """A scope, also as a decorator, in which no BLAS library uses a second thread.

    Numbers of threads are restored unless somebody has changed them since: those per thread (MKL,
    OpenMP) at the end of the scope, those of the process when the last scope of any thread ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_scopes = 0
        self._of_process: dict[str, tuple[Any, int]] = {}
        self._of_thread = _OfThread()

    def __enter__(self) -> None:
        from threadpoolctl import get_cached_controller  # noqa: PLC0415 - slow, for solves alone

        own: dict[str, tuple[Any, int]] = {}
        with self._lock:
            for library in get_cached_controller().select(user_api="blas").lib_controllers:
                n_threads = library.get_num_threads()
                if n_threads in {None, 1}:
                    continue
                changed = own if _is_of_thread(library) else self._of_process
                changed[library.filepath] = library, n_threads
                _set(library, 1)
            self._n_scopes += 1
            self._of_thread.scopes.append(own)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._n_scopes -= 1
            changed = self._of_thread.scopes.pop()
            if self._n_scopes == 0:
                changed |= self._of_process
                self._of_process = {}
            for library, n_threads in changed.values():
                if library.get_num_threads() == 1:
                    _set(library, n_threads)


one_blas_thread: Final = _OneBlasThread()


def _is_of_thread(library: Any) -> bool:
    """Whether its number of threads holds for the calling thread alone."""
    return library.internal_api == "mkl" or getattr(library, "threading_layer", "") == "openmp"


def _set(library: Any, n_threads: int) -> None:
    """Set the number, past threadpoolctl's claim of OpenBLAS for a single thread."""
    is_claimed = library.internal_api == "openblas"
    if is_claimed:
        library.clear_controlling_thread(force=True)
    library.set_num_threads(n_threads)
    if is_claimed:
        library.clear_controlling_thread(force=True)
