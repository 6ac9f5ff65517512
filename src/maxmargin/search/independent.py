"""Fits of candidates that cannot share kernels: one by one, each as the estimator does it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from sklearn.base import clone

from maxmargin.parallel import n_threads
from maxmargin.search.folds import CVData, Fold
from maxmargin.solvers.registry import make_solver

# Parameters along which one solution is the start of the next.
_ALONG = ("C", "epsilon")


def fit_independently(
    cv_data: CVData, estimators: dict, fits: list[tuple[int, int]]
) -> Iterator[tuple]:
    """Fit candidates to splits, given as pairs of their numbers.

    Those of one split that differ in C and ε alone come in that order, each starting from the
    solution of the last one where the solver is exact: the answer does not depend on it.

    Yields
    ------
    candidate, fold, fitted model or None, seconds, error or None
    """
    last: Any = None
    key: tuple | None = None
    for number, split in sorted(fits, key=lambda fit: _order(estimators[fit[0]], *fit)):
        estimator = estimators[number]
        previous, key = key, _order(estimator, number, split)[:2]
        if last is None or key != previous or not _continues(estimator):
            last = clone(estimator)
            if estimator.n_jobs is None:
                last.set_params(n_jobs=n_threads())
            fold = Fold(cv_data, split, last)
        elif not last.warm_start:
            last.set_params(warm_start=True)
        last.set_params(**_along(estimator))
        start, error = time.perf_counter(), None
        try:
            last.fit(fold.X_train, fold.y_train, **fold.fit_params)
        except Exception as failure:
            error, last = failure, None
        if last is not None and last.fit_report_.status == "interrupted":
            raise KeyboardInterrupt
        yield number, fold, last, time.perf_counter() - start, error


def _along(estimator) -> dict:
    return {name: getattr(estimator, name) for name in _ALONG if hasattr(estimator, name)}


def _order(estimator, number: int, split: int) -> tuple:
    others = {name: value for name, value in estimator.get_params().items() if name not in _ALONG}
    return split, repr(others), *map(float, _along(estimator).values()), number


def _continues(estimator) -> bool:
    """Whether the last solution may be the start of the next: not where limits could show it."""
    limited = estimator.max_iter != -1 or estimator.time_limit is not None
    return make_solver(estimator.solver).exact and not limited
