"""Kept code: numba's compiled code of the kernels, once for a user and an installation.

numba's own cache fails if its directory is read-only, does not notice changes of kernels in other
files that a kernel calls, and may mix up the code of two processes that compile one kernel for
different types at once.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.event import Event, Listener, install_listener

from peewit.solvers.kernels.cache_directory import cache_directory

_LOCK: Final = "lock"


def compiled(function: Callable[..., Any], options: dict[str, Any], *, keep: bool) -> Any:
    """A function as numba compiles it, with code that is kept if ``keep`` and possible.

    It is the function itself under ``NUMBA_DISABLE_JIT``. ``options`` are those of ``numba.njit``.
    Kernels alone call one whose name begins with an underscore, so it is compiled without the code
    by which Python would call it.
    """
    if function.__name__.startswith("_"):
        options = options | {"no_cpython_wrapper": True}
    kernel: Any = numba.njit(**options)(function)
    is_compiled = hasattr(kernel, "enable_caching")  # false under NUMBA_DISABLE_JIT
    if keep and is_compiled and cache_directory() is not None:
        kernel._cache = KernelCache(function)  # as numba's cache=True does
    return kernel


@contextmanager
def told(tell: Callable[[Callable[..., Any]], object]) -> Iterator[None]:
    """Call ``tell`` with each function before it is compiled in the block."""
    with install_listener("numba:compile", _Teller(tell)):
        yield


class _Teller(Listener):
    """Listener to compilations in this process."""

    def __init__(self, tell: Callable[[Callable[..., Any]], object]) -> None:
        self._tell = tell

    def on_start(self, event: Event) -> None:
        """Call ``tell``."""
        self._tell(event.data["dispatcher"].py_func)

    def on_end(self, event: Event) -> None:
        """Do nothing."""


class _Place:
    """numba's cache locator: where a function is kept, and a stamp of its sources."""

    def __init__(self, function: Any, file: str) -> None:
        self._py_file = file
        self._lineno = function.__code__.co_firstlineno
        self._folder = Path(file).absolute().parent
        installed = _digest(str(self._folder).encode())
        self._path = Path(str(cache_directory()), f"{self._folder.parent.name}-{installed}")

    @classmethod
    def from_function(cls, function: Any, file: str) -> "_Place":
        """The place of a function, which may not exist."""
        return cls(function, file)

    def ensure_cache_path(self) -> None:
        """Make the directory; nobody else may write code that this user would run."""
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        """The directory."""
        return str(self._path)

    def get_source_stamp(self) -> str:
        """Digest of every kernel that this one may call."""
        return _sources(self._folder)

    def get_disambiguator(self) -> str:
        """Distinguishes functions of one name and file."""
        return str(self._lineno)


class _Implementation(CompileResultCacheImpl):
    _locator_classes: list[type[object]] = [_Place]  # noqa: RUF012 - numba declares no ClassVar


class KernelCache(FunctionCache):
    """Compiled code of one kernel on disk, for concurrent readers and writers.

    A kernel that cannot be read is compiled; if nothing can be written, every process compiles its
    own, which `peewit doctor` reports.
    """

    _impl_class = _Implementation

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for these types, or None."""
        try:
            with _locked(self.cache_path, os.O_RDONLY, fcntl.LOCK_SH):
                return super().load_overload(sig, target_context)
        except OSError:  # nothing is there, or not for this user
            return None

    def n_kept(self) -> int:
        """Number of type combinations with code."""
        try:
            with _locked(self.cache_path, os.O_RDONLY, fcntl.LOCK_SH):
                return len(self._cache_file._load_index())
        except OSError:
            return 0

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code for these types if possible."""
        try:
            self._impl.locator.ensure_cache_path()
            with _locked(self.cache_path, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX):
                super().save_overload(sig, data)
        except OSError:  # a full disk, or one that is read only: the code serves this process
            return


@contextmanager
def _locked(directory: str, flags: int, kind: int) -> Iterator[None]:
    """Lock of a directory: one process writes index and code while none reads them."""
    lock = os.open(Path(directory, _LOCK), flags, 0o600)
    try:
        fcntl.flock(lock, kind)
        yield
    finally:
        os.close(lock)


@lru_cache
def _sources(folder: Path) -> str:
    """Digest of the kernels in a folder and of those here, which they may call."""
    files = {file for each in (folder, Path(__file__).parent) for file in each.glob("*.py")}
    return _digest(b"".join(file.read_bytes() for file in sorted(files)))


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:16]
