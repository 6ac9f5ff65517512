"""Imports that scikit-learn makes and the commands do not need.

They take longer than most commands do. Only for a process that is the command line's own.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from importlib.abc import MetaPathFinder

# SciPy asks NumPy for all of its public modules, and scikit-learn imports all statistics.
_PUT_OFF = ("numpy.f2py", "numpy.testing", "scipy.stats")
_LEFT_OUT = "pandas"  # which scikit-learn imports if it is installed; no file is read with it


class _Deferred(types.ModuleType):
    """Stands for a module that is imported when one of its attributes is first used."""

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
    """Import what is put off when it is used, and pandas not at all."""
    sys.meta_path.insert(0, _LeftOut())
    for name in _PUT_OFF:
        spec = importlib.util.find_spec(name)
        if spec is None or name in sys.modules:
            continue
        module = _Deferred(name)
        module.__spec__ = spec
        module.__path__ = list(spec.submodule_search_locations or [])
        sys.modules[name] = module
        package, _, own_name = name.rpartition(".")
        setattr(sys.modules[package], own_name, module)
