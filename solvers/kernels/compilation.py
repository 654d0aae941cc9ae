"""numba's `njit` for the kernels, whose compiled code is kept once for a user and an installation.

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
from typing import Any, Final, TypeVar, cast

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.event import Event, Listener, install_listener

from peewit.solvers.kernels.cache_directory import cache_directory

Function = TypeVar("Function", bound=Callable[..., Any])

_LOCK: Final = "lock"


def njit(*, cache: bool, **options: Any) -> Callable[[Function], Function]:
    """Decorator of a function to compile: numba's, with code that `KernelCache` keeps."""

    def compiled(function: Function) -> Function:
        kernel: Any = numba.njit(**options)(function)
        is_compiled = hasattr(kernel, "enable_caching")  # not under NUMBA_DISABLE_JIT
        if cache and is_compiled and cache_directory() is not None:
            kernel._cache = KernelCache(function)  # as that does, with numba's cache
        return cast("Function", kernel)

    return compiled


@contextmanager
def told_of_compilations(tell: Callable[[], object]) -> Iterator[None]:
    """Call ``tell`` before each kernel that is compiled in the block, not for one that was kept."""
    with install_listener("numba:compile", _Teller(tell)):
        yield


class _Teller(Listener):
    """Hears of compilations in this process; those of what numba itself is made of do not count."""

    def __init__(self, tell: Callable[[], object]) -> None:
        self._tell = tell

    def on_start(self, event: Event) -> None:
        """Tell it if the kernel is one of ours."""
        if event.data["dispatcher"].py_func.__module__.startswith("peewit."):
            self._tell()

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
