"""`warm` compiles what later work needs: nothing is left to compile in the first job."""

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher

import peewit.solvers.kernels
import peewit.streaming.kernels
from peewit.service.kernel_warmup import warm
from peewit.solvers.kernels.compilation import Kernel


def kernels(package: ModuleType) -> Iterator[tuple[str, Any]]:
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        for name, kernel in list(vars(import_module(module.name)).items()):
            value = kernel.compiled() if isinstance(kernel, Kernel) else kernel
            if isinstance(value, Dispatcher) and value.py_func.__module__ == module.name:
                yield f"{module.name}.{name}", value


@pytest.mark.slow
def test_every_kernel_is_compiled() -> None:
    everything = dict(kernels(peewit.solvers.kernels)) | dict(kernels(peewit.streaming.kernels))
    if not everything:
        pytest.skip("needs compiled kernels; unset NUMBA_DISABLE_JIT")
    assert len(everything) > 15
    warm()
    used_by_kernels = {
        name for kernel in everything.values() for name in kernel.py_func.__code__.co_names
    }
    missing = [
        name
        for name, kernel in everything.items()
        if not kernel.signatures and name.rpartition(".")[2] not in used_by_kernels
    ]
    assert missing == []
