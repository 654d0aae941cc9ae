"""Modules that load on first use.

scipy's and pyarrow's take a tenth of a second each; code that only names a graph, a store or a
model needs none of them.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


class LateModule:
    """A module by its import name; attributes are those of the module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)


def late_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package whose names load on first use.

    A notebook completes to these names, and to nothing that the package imports for itself.
    ``modules`` maps each name to its module; ``package`` is the ``__name__``.
    """
    own = vars(sys.modules[package])

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        own[name] = getattr(import_module(modules[name]), name)
        return own[name]

    def names() -> list[str]:
        return sorted({name for name in own if name.startswith("__")} | modules.keys())

    return get, names
