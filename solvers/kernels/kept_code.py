"""Kept code: numba's compiled code of the kernels, once for a user and an installation.

numba's own cache fails where its directory cannot be written, does not see that a kernel calls one
of another file that has changed, and lets two processes that compile one kernel for different types
at once take the code of the one for that of the other.
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
    """What numba makes of a function, with code that is kept where it can be.

    It is the function itself under ``NUMBA_DISABLE_JIT``.

    Parameters
    ----------
    function : callable
        Python's function.
    options : dict
        Of ``numba.njit``.
    keep : bool
        Whether its code is kept.
    """
    kernel: Any = numba.njit(**options)(function)
    is_compiled = hasattr(kernel, "enable_caching")  # not under NUMBA_DISABLE_JIT
    if keep and is_compiled and cache_directory() is not None:
        kernel._cache = KernelCache(function)  # as that does, with numba's cache
    return kernel


@contextmanager
def told(tell: Callable[[Callable[..., Any]], object]) -> Iterator[None]:
    """Call ``tell`` with each function that is compiled in the block, before it is."""
    with install_listener("numba:compile", _Teller(tell)):
        yield


class _Teller(Listener):
    """Hears of compilations in this process."""

    def __init__(self, tell: Callable[[Callable[..., Any]], object]) -> None:
        self._tell = tell

    def on_start(self, event: Event) -> None:
        """Tell it."""
        self._tell(event.data["dispatcher"].py_func)

    def on_end(self, event: Event) -> None:
        """Nothing to tell."""


class _Place:
    """Where numba keeps a function and how it knows that it has changed: numba's cache locator."""

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
        """What tells functions of one name and file apart."""
        return str(self._lineno)


class _Implementation(CompileResultCacheImpl):
    _locator_classes: list[type[object]] = [_Place]  # noqa: RUF012 - numba declares no ClassVar


class KernelCache(FunctionCache):
    """Compiled code of one kernel on disk, for processes that read and write at once.

    Where nothing can be read, the kernel is compiled; where nothing can be written, every process
    compiles its own, which `peewit doctor` tells.
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
        """For how many combinations of types there is code."""
        try:
            with _locked(self.cache_path, os.O_RDONLY, fcntl.LOCK_SH):
                return len(self._cache_file._load_index())
        except OSError:
            return 0

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code for these types if that is possible."""
        try:
            self._impl.locator.ensure_cache_path()
            with _locked(self.cache_path, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX):
                super().save_overload(sig, data)
        except OSError:  # a full disk, or one that is read only: the code serves this process
            return


@contextmanager
def _locked(directory: str, flags: int, kind: int) -> Iterator[None]:
    """One process writes index and code of a directory while none reads them."""
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
