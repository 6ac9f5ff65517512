"""The part of the search that trains, loaded with the first search: Numba comes with it."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType


@cache
def engine() -> ModuleType:
    return import_module("maxmargin.search.candidates")
