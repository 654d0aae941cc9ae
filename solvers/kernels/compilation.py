"""numba's `njit` for the kernels, which loads numba when the first of them is called.

Most processes call none: commands that list, an idle API, the parent of a worker. numba would cost
each a quarter of a second and 50 MB.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from importlib import import_module
from threading import RLock
from types import CodeType
from typing import Any, Final, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

_PACKAGE: Final = "peewit."

_lock: Final = RLock()
_kernels: dict[str, "Kernel"] = {}
"""Kernels with code of their own, of all modules imported so far, by `name_of`."""


class Kernel:
    """A function that numba compiles when first called; other attributes are numba's.

    ``options`` are those of ``numba.njit``; ``keep`` says whether its code is kept for other
    processes.
    """

    def __init__(
        self, function: Callable[..., Any], options: dict[str, Any], *, keep: bool
    ) -> None:
        update_wrapper(self, function)
        self._function = function
        self._options = options
        self._keep = keep
        self._compiled: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Call numba's function."""
        compiled = self._compiled
        return (self.compiled() if compiled is None else compiled)(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.compiled(), name)

    def __reduce__(self) -> tuple[Callable[[str, str], Any], tuple[str, str]]:
        return _loaded, (self._function.__module__, self._function.__name__)

    def compiled(self) -> Any:
        """The function that numba makes, now unless it exists.

        numba must see its own functions wherever the code of a kernel names another kernel, so
        these replace ours in the module.
        """
        with _lock:
            if self._compiled is None:
                from peewit.solvers.kernels.kept_code import compiled  # noqa: PLC0415 - numba

                seen = self._function.__globals__
                for name in _names(self._function.__code__):
                    if isinstance(other := seen.get(name), Kernel) and other is not self:
                        seen[name] = other.compiled()
                self._compiled = compiled(self._function, self._options, keep=self._keep)
                if seen.get(self._function.__name__) is self:
                    seen[self._function.__name__] = self._compiled
            return self._compiled


def njit(*, cache: bool, **options: Any) -> Callable[[Function], Function]:
    """Decorator of a function to compile: like numba's, but later and with kept code."""

    def kernel_of(function: Function) -> Function:
        kernel = Kernel(function, options, keep=cache)
        if cache and options.get("inline") != "always":  # else it has no code of its own
            _kernels[name_of(function)] = kernel
        return cast("Function", kernel)

    return kernel_of


def load_numba() -> None:
    """Load numba now, while there is time, rather than at the first call of a kernel."""
    import_module("peewit.solvers.kernels.kept_code")


def name_of(function: Callable[..., Any]) -> str:
    """Module and name of a kernel, without the package: ``solvers.kernels.adjacency.row_sums``."""
    return f"{function.__module__.removeprefix(_PACKAGE)}.{function.__qualname__}"


def n_kept() -> dict[str, int]:
    """Number of type combinations kept for each kernel, of the modules imported so far."""
    caches: dict[str, Any] = {
        name: getattr(kernel.compiled(), "_cache", None) for name, kernel in list(_kernels.items())
    }
    return {name: cache.n_kept() for name, cache in caches.items() if hasattr(cache, "n_kept")}


def not_kept(names: Iterable[str]) -> set[str]:
    """Names of kernels of which nothing is kept; imports their modules."""
    for module in {name.rpartition(".")[0] for name in names}:
        import_module(_PACKAGE + module)
    n_before = n_kept()
    return {name for name in names if not n_before.get(name)}


@contextmanager
def told_of_compilations(tell: Callable[[str], object]) -> Iterator[None]:
    """Call ``tell`` with the name of each kernel before it is compiled in the block.

    Kernels loaded from kept code and numba's own functions do not count.
    """
    from peewit.solvers.kernels.kept_code import told  # noqa: PLC0415 - loads numba

    def tell_of_ours(function: Callable[..., Any]) -> None:
        if function.__module__.startswith(_PACKAGE):
            tell(name_of(function))

    with told(tell_of_ours):
        yield


def _loaded(module: str, name: str) -> Any:
    """A kernel by its name, for a process that unpickles it."""
    return getattr(import_module(module), name)


def _names(code: CodeType) -> set[str]:
    """Names that code and the code within it refer to."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names
