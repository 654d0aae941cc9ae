"""numba's `njit` for the kernels, whose compiled code is kept once for a user and an installation.

numba's own cache fails where its directory cannot be written, does not see that a kernel calls one
of another file that has changed, and lets two processes that compile one kernel for different types
at once take the code of the one for that of the other.
"""

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.event import Event, Listener, install_listener

from peewit.solvers.kernels.cache_directory import cache_directory

Function = TypeVar("Function", bound=Callable[..., Any])

_LOCK: Final = "lock"
_PACKAGE: Final = "peewit."

_kernels: dict[str, Any] = {}
"""Compiled functions of the modules that were imported so far, by `name_of`."""


def njit(*, cache: bool, **options: Any) -> Callable[[Function], Function]:
    """Decorator of a function to compile: numba's, with code that `KernelCache` keeps."""

    def compiled(function: Function) -> Function:
        kernel: Any = numba.njit(**options)(function)
        is_compiled = hasattr(kernel, "enable_caching")  # not under NUMBA_DISABLE_JIT
        if cache and is_compiled and cache_directory() is not None:
            kernel._cache = KernelCache(function)  # as that does, with numba's cache
            if options.get("inline") != "always":  # no code of its own
                _kernels[name_of(function)] = kernel
        return cast("Function", kernel)

    return compiled


def name_of(function: Callable[..., Any]) -> str:
    """Module and name of a kernel, without the package: ``solvers.kernels.adjacency.row_sums``."""
    return f"{function.__module__.removeprefix(_PACKAGE)}.{function.__qualname__}"


def n_kept() -> dict[str, int]:
    """For how many combinations of types each kernel is kept, of the modules imported so far."""
    return {name: kernel._cache.n_kept() for name, kernel in _kernels.items()}


def not_kept(names: Iterable[str]) -> set[str]:
    """Those of some kernels of which nothing is kept; their modules are imported."""
    for module in {name.rpartition(".")[0] for name in names}:
        import_module(_PACKAGE + module)
    kept = n_kept()
    return {name for name in names if not kept.get(name)}


@contextmanager
def told_of_compilations(tell: Callable[[str], object]) -> Iterator[None]:
    """Call ``tell`` with the name of each kernel that is compiled in the block, before it is.

    One that was kept is not compiled.
    """
    with install_listener("numba:compile", _Teller(tell)):
        yield


class _Teller(Listener):
    """Hears of compilations in this process; those of what numba itself is made of do not count."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell

    def on_start(self, event: Event) -> None:
        """Tell it if the kernel is one of ours."""
        function = event.data["dispatcher"].py_func
        if function.__module__.startswith(_PACKAGE):
            self._tell(name_of(function))

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
