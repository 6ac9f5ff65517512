"""Support vector machines, trained fast and to a proven optimum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxmargin.late_names import late_names

if TYPE_CHECKING:
    from maxmargin import io, plotting, solvers
    from maxmargin.estimators.nu_svc import NuSVC
    from maxmargin.estimators.one_class import OneClassSVM
    from maxmargin.estimators.regression import SVR, NuSVR
    from maxmargin.estimators.svc import SVC
    from maxmargin.search.svc_search import SVCSearch
    from maxmargin.search.svr_search import SVRSearch

__version__ = "0.2.0"
__all__ = [
    "SVC",
    "SVR",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "SVCSearch",
    "SVRSearch",
    "io",
    "plotting",
    "solvers",
]

# Loaded when first used, so that `import maxmargin` costs what scikit-learn's import costs.
__getattr__ = late_names(
    __name__,
    {
        "SVC": "maxmargin.estimators.svc",
        "SVR": "maxmargin.estimators.regression",
        "NuSVC": "maxmargin.estimators.nu_svc",
        "NuSVR": "maxmargin.estimators.regression",
        "OneClassSVM": "maxmargin.estimators.one_class",
        "SVCSearch": "maxmargin.search.svc_search",
        "SVRSearch": "maxmargin.search.svr_search",
        "io": None,
        "plotting": None,
        "solvers": None,
    },
)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
