"""Support vector machines, trained fast and to a proven optimum."""

from __future__ import annotations

import importlib

__version__ = "0.1.0"
__all__ = ["SVC", "SVCSearch", "solvers"]

# Loaded when first used, so that `import maxmargin` costs what scikit-learn's import costs.
_HOMES = {
    "SVC": "maxmargin.estimators.svc",
    "SVCSearch": "maxmargin.search.svc_search",
}


def __getattr__(name: str):
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name == "solvers":
        return importlib.import_module("maxmargin.solvers")
    raise AttributeError(f"module 'maxmargin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
