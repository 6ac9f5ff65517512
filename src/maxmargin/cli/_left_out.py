"""Imports that scikit-learn makes and the commands do not need.

They take longer than most commands do. Only for a process that is the command line's own.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from importlib.abc import MetaPathFinder

_PUT_OFF = "scipy.stats"
_LEFT_OUT = "pandas"  # which scikit-learn imports if it is installed; no file is read with it


class _Deferred(types.ModuleType):
    """Stands for a module that is imported when an attribute of it is asked for."""

    def __getattr__(self, attribute: str):
        name = self.__name__
        if sys.modules.get(name) is self:
            del sys.modules[name]
            self.__dict__.update(importlib.import_module(name).__dict__)
        return getattr(sys.modules[name], attribute)


class _LeftOut(MetaPathFinder):
    """Says of a package that it is not installed."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname == _LEFT_OUT:
            raise ModuleNotFoundError(f"{fullname} is left out by maxmargin's command line.")
        return None


def defer_imports() -> None:
    """Import scipy.stats when it is used, and pandas not at all."""
    sys.meta_path.insert(0, _LeftOut())
    spec = importlib.util.find_spec(_PUT_OFF)
    if spec is None or _PUT_OFF in sys.modules:
        return
    module = _Deferred(_PUT_OFF)
    module.__spec__ = spec
    module.__path__ = list(spec.submodule_search_locations or [])
    sys.modules[_PUT_OFF] = module
