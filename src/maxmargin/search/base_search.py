"""A search over a grid: scikit-learn's API around candidates that share their work."""

from __future__ import annotations

import time
from numbers import Integral, Real
from traceback import format_exception
from typing import Any, Self

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.metrics import get_scorer_names
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.utils.validation import indexable

from maxmargin.estimators.base import BaseSVM
from maxmargin.estimators.documentation import DocumentedMixin
from maxmargin.monitor import VERBOSE_SECONDS, Throttle
from maxmargin.parallel import resolve_n_jobs, session
from maxmargin.search.deferred import engine
from maxmargin.sklearn_private import (
    BaseSearchCV,
    CallbackSupportMixin,
    StrOptions,
    best_index,
    callback_context,
    check_method_params,
    check_parameters,
    check_refit_metric,
    fit_context,
    insert_error_scores,
    routed_parameters,
    score_estimator,
    scorers_by_name,
    scorers_of,
    table_of_results,
    warn_or_raise_about_fit_failures,
)


class SharedSearch(DocumentedMixin, BaseSearchCV, CallbackSupportMixin):
    """What the searches have in common. A search adds `_tunes`, the class of its candidates."""

    _tunes: type[BaseSVM]
    _parameter_constraints: dict = {
        "estimator": "no_validation",  # `_check_estimator` says more
        "param_grid": [dict, list],
        "cv": ["cv_object"],
        "scoring": [StrOptions(set(get_scorer_names())), callable, list, tuple, dict, None],
        "refit": ["boolean", str, callable],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "error_score": [StrOptions({"raise"}), Real],
        "return_train_score": ["boolean"],
        "pre_dispatch": [Integral, str],
    }

    def __init__(
        self,
        estimator: Any,
        param_grid: Any = None,
        *,
        cv: Any = 5,
        scoring: Any = None,
        refit: Any = True,
        n_jobs: int | None = None,
        verbose: int = 0,
        error_score: float | str = np.nan,
        return_train_score: bool = False,
        pre_dispatch: int | str = "2*n_jobs",
    ) -> None:
        if param_grid is None and isinstance(estimator, dict | list):
            estimator, param_grid = self._tunes(), estimator
        self.estimator = estimator
        self.param_grid = param_grid
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.error_score = error_score
        self.return_train_score = return_train_score
        self.pre_dispatch = pre_dispatch

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = all(
            kernel == "precomputed" for grid in self._grids() for kernel in self._kernels(grid)
        )
        return tags

    def _grids(self) -> list:
        return self.param_grid if isinstance(self.param_grid, list) else [self.param_grid]

    def _kernels(self, grid) -> list:
        """The kernels that a grid tries."""
        own = [getattr(self.estimator, "kernel", None)]
        return list(grid.get("kernel", own)) if isinstance(grid, dict) else own

    def _check_estimator(self) -> None:
        own, given = self._tunes, type(self.estimator)
        if given is own:
            return
        name, search = own.__name__, type(self).__name__
        advice = "GridSearchCV tunes everything else"
        if hasattr(self.estimator, "named_steps"):
            advice = f"put the {search} into the pipeline, or tune the pipeline by GridSearchCV"
        elif given.__name__ == name:
            advice = f"from maxmargin import {name}"
        raise TypeError(
            f"{search} tunes maxmargin.{name}, not {given.__module__.partition('.')[0]}."
            f"{given.__name__}: {advice}."
        )

    def _candidate(self, parameters: dict):
        candidate = clone(self.estimator).set_params(**clone(parameters, safe=False))
        check_parameters(candidate)
        return candidate

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **params: Any) -> Self:
        """Try all candidates, and fit the best one to all samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or \
                (n_samples, n_samples)
            Training samples; for ``kernel="precomputed"`` their kernel matrix.
        y : array-like of shape (n_samples,)
            Class labels of any type, or target values.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples, in fits and in scores that know weights.
        **params : dict
            ``groups`` for the splitter.

        Returns
        -------
        self : object
        """
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        self._check_estimator()
        candidates = list(ParameterGrid(self.param_grid))
        scorers, refit_metric = scorers_of(self)
        X, y = indexable(X, y)
        if sample_weight is not None:
            params["sample_weight"] = sample_weight
        params = check_method_params(X, params=params)
        routed = routed_parameters(self, params)
        unknown = set(routed.estimator.fit) - {"sample_weight"}
        if unknown:
            raise TypeError(
                f"{self._tunes.__name__}.fit() got an unexpected keyword argument {unknown.pop()!r}"
            )
        callback_data = {"X": X, "y": y, "metadata": _metadata(params)}
        context = callback_context(self, max_subtasks=1 + (self.refit is not False))
        context.call_on_fit_task_begin(estimator=self, **callback_data)
        cv = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        splits = list(cv.split(X, y, **routed.splitter.split))
        self.n_splits_ = cv.get_n_splits(X, y, **routed.splitter.split)
        if len(splits) != self.n_splits_:
            raise ValueError(
                "cv.split and cv.get_n_splits return inconsistent results. "
                f"Expected {self.n_splits_} splits, got {len(splits)}"
            )
        cv_data = engine().CVData(
            X, y, splits, routed.estimator.fit, routed.scorer.score, self.return_train_score
        )
        out = self._evaluate(candidates, cv_data, scorers, context)
        self._choose(candidates, out, refit_metric)
        if self.refit:
            self._refit(X, y, routed.estimator.fit, context, callback_data)
        named = scorers_by_name(scorers)
        self.scorer_ = scorers if named is None else named
        context.call_on_fit_task_end(estimator=self, **callback_data)
        return self

    def _evaluate(self, candidates, cv_data, scorers, context) -> list[dict]:
        """Results of all candidates on all splits, in the order of `GridSearchCV`."""
        n_splits = len(cv_data.splits)
        total = n_splits * len(candidates)
        inner = context.subcontext(
            task_name="search", max_subtasks=total, sequential_subtasks=False
        ).call_on_fit_task_begin(estimator=self)
        estimators = {number: self._candidate(one) for number, one in enumerate(candidates)}
        results: dict[int, dict] = {}
        start, line_is_due = time.perf_counter(), Throttle(VERBOSE_SECONDS)
        with session(resolve_n_jobs(self.n_jobs)):
            for number, fold, model, seconds, error in engine().fit_candidates(
                estimators, cv_data, self.verbose
            ):
                task = inner.subcontext(
                    task_name="candidate-split-evaluation", task_id=len(results)
                ).call_on_fit_task_begin(estimator=self)
                result = _result(model, fold, scorers, seconds, error, self.error_score)
                results[number * n_splits + fold.split] = result
                task.call_on_fit_task_end(estimator=self)
                self._report(len(results), total)
                if self.verbose and (line_is_due() or len(results) == total):
                    now = time.perf_counter() - start
                    print(f"[maxmargin] {now:7.1f} s  {len(results)} of {total} fits", flush=True)
        inner.call_on_fit_task_end(estimator=self)
        out = [results[at] for at in range(total)]
        if not out:
            raise ValueError("No fits were performed. Was the CV iterator empty?")
        warn_or_raise_about_fit_failures(out, self.error_score)
        if callable(self.scoring):
            insert_error_scores(out, self.error_score)
        return out

    def _report(self, done: int, total: int) -> None:
        """Called after each fit, for a progress bar."""

    def _choose(self, candidates, out, refit_metric) -> None:
        results = table_of_results(self, candidates, self.n_splits_, out)
        first = out[0]["test_scores"]
        self.multimetric_ = isinstance(first, dict)
        if callable(self.scoring) and self.multimetric_:
            check_refit_metric(self, first)
            refit_metric = self.refit
        if self.refit or not self.multimetric_:
            self.best_index_ = best_index(self, refit_metric, results)
            if not callable(self.refit):
                self.best_score_ = results[f"mean_test_{refit_metric}"][self.best_index_]
            self.best_params_ = results["params"][self.best_index_]
        self.cv_results_ = results

    def _refit(self, X, y, fit_params, context, callback_data) -> None:
        best = self._candidate(self.best_params_)
        if best.n_jobs is None:
            best.set_params(n_jobs=self.n_jobs)
        task = context.subcontext(task_name="refit-with-best-params")
        with task.propagate_callback_context(best):
            task.call_on_fit_task_begin(estimator=self, **callback_data)
            start = time.perf_counter()
            self.best_estimator_ = best.fit(X, y, **fit_params)
            self.refit_time_ = time.perf_counter() - start
        if hasattr(best, "feature_names_in_"):
            self.feature_names_in_ = best.feature_names_in_
        task.call_on_fit_task_end(estimator=self, **callback_data)


def _metadata(params: dict) -> dict | None:
    weights = params.get("sample_weight")
    return None if weights is None else {"sample_weight": weights}


def _result(model, fold, scorers, seconds: float, error, error_score) -> dict:
    """One entry of the list that `table_of_results` takes."""
    if error is not None and error_score == "raise":
        raise error

    def scores(X, y, params):
        if error is None:
            return score_estimator(model, X, y, scorers, params, error_score)
        named = scorers_by_name(scorers)
        return error_score if named is None else dict.fromkeys(named, error_score)

    start = time.perf_counter()
    result = {"test_scores": scores(fold.X_test, fold.y_test, fold.score_params)}
    result["score_time"] = time.perf_counter() - start if error is None else 0.0
    if fold.train_params is not None:
        result["train_scores"] = scores(fold.X_train, fold.y_train, fold.train_params)
    trace = None if error is None else "".join(format_exception(error))
    return result | {"fit_time": seconds, "fit_error": trace}
