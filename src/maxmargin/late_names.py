"""Names of a module that are imported when they are first used (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def late_names(module: str, homes: Mapping[str, str | None]) -> Callable[[str], Any]:
    """The `__getattr__` of a module.

    Parameters
    ----------
    module : its own name
    homes : by name, the module that it comes from; None for a submodule of `module` itself
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(
                f"module {module!r} has no attribute {name!r}; it has {', '.join(homes)}"
            )
        home = homes[name]
        if home is None:
            return import_module(f"{module}.{name}")
        return getattr(import_module(home), name)

    return find
