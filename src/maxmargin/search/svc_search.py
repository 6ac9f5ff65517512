"""`SVCSearch`: what `GridSearchCV(SVC(), …)` finds, with everything shared that can be."""

from __future__ import annotations

import time
from numbers import Integral

import numpy as np
from sklearn.base import _fit_context, clone
from sklearn.metrics import get_scorer_names
from sklearn.metrics._scorer import _MultimetricScorer
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.model_selection._validation import (
    _insert_error_scores,
    _score,
    _warn_or_raise_about_fit_failures,
)
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import _check_method_params, indexable

from maxmargin.estimators.svc import SVC
from maxmargin.parallel import resolve_n_jobs, session
from maxmargin.search.deferred import engine

_VERBOSE_SECONDS = 1.0


class SVCSearch(BaseSearchCV):
    """Parameters of an SVC by cross-validation over a grid.

    The results are those of ``GridSearchCV(SVC(), param_grid)``, within the
    tolerance of the solver, and so are the attributes. It is faster because
    candidates share: kernel values over all folds and all C, solutions from one C to
    the next larger one. No candidate is given up on a guess. Where a larger C cannot
    change the solution any more, it is not computed again.

    The solutions behind the scores are optimal to `tol` by the stored kernel values,
    of float32 where their rounding is small beside `tol`; `best_estimator_` is
    fitted anew to all samples, and certified like every fit.

    Parameters
    ----------
    param_grid : dict or list of dicts
        Names of parameters of `SVC` and the values to try, as for `GridSearchCV`. A
        parameter to be fixed is a list of one value: ``{"kernel": ["poly"], …}``.
    cv : int, cross-validation generator or iterable, default=5
        Folds. A number means stratified folds, without shuffling.
    scoring : str, callable, list, tuple or dict, default=None
        As for `GridSearchCV`; None is the accuracy.
    refit : bool, str or callable, default=True
        Whether to fit the best candidate to all samples, and, with several scores, by
        which of them.
    n_jobs : int, default=None
        Threads; None takes all cores that joblib's context leaves, −1 all.
    verbose : int, default=0
        Whether to print how far the search is, and which candidates could not share.

    Attributes
    ----------
    cv_results_, best_params_, best_score_, best_index_, best_estimator_, scorer_, n_splits_, \
    refit_time_, multimetric_, classes_, n_features_in_ : as of `GridSearchCV`
        The `fit_time` in `cv_results_` is what the candidate took after those it
        started from; kernel kernels are in nobody's time.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from maxmargin import SVCSearch
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = SVCSearch({"C": [1, 10, 100], "gamma": [0.001, 0.01]}).fit(scale(X), y)
    >>> search.best_params_
    {'C': 10, 'gamma': 0.01}
    """

    _parameter_constraints: dict = {
        "param_grid": [dict, list],
        "cv": ["cv_object"],
        "scoring": [StrOptions(set(get_scorer_names())), callable, list, tuple, dict, None],
        "refit": ["boolean", str, callable],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }
    # What BaseSearchCV reads, and has no parameter here.
    error_score = np.nan
    return_train_score = False

    def __init__(self, param_grid, *, cv=5, scoring=None, refit=True, n_jobs=None, verbose=0):
        self.param_grid = param_grid
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.n_jobs = n_jobs
        self.verbose = verbose

    @property
    def estimator(self) -> SVC:
        """An SVC with the parameters that are the same for all candidates."""
        grids = self.param_grid if isinstance(self.param_grid, list) else [self.param_grid]
        common = {}
        for name, values in grids[0].items() if grids and isinstance(grids[0], dict) else ():
            if all(name in grid and len(grid[name]) == 1 for grid in grids):
                first = values[0]
                if all(grid[name][0] is first or grid[name][0] == first for grid in grids):
                    common[name] = first
        return SVC(**{k: v for k, v in common.items() if k in SVC._parameter_constraints})

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y=None, sample_weight=None, **params):
        """Try all candidates, and fit the best one to all samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or \
                (n_samples, n_samples)
            Training samples; for ``kernel="precomputed"`` their kernel matrix.
        y : array-like of shape (n_samples,)
            Class labels of any type.
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
        candidates = list(ParameterGrid(self.param_grid))
        scorers, refit_metric = self._get_scorers()
        X, y = indexable(X, y)
        if sample_weight is not None:
            params["sample_weight"] = sample_weight
        params = _check_method_params(X, params=params)
        routed = self._get_routed_params_for_fit(params)
        unknown = set(routed.estimator.fit) - {"sample_weight"}
        if unknown:
            raise TypeError(f"SVC.fit() got an unexpected keyword argument {unknown.pop()!r}")
        callback_data = {"X": X, "y": y, "metadata": _metadata(params)}
        context = self._init_callback_context(max_subtasks=1 + (self.refit is not False))
        context.call_on_fit_task_begin(estimator=self, **callback_data)
        cv = check_cv(self.cv, y, classifier=True)
        splits = list(cv.split(X, y, **routed.splitter.split))
        self.n_splits_ = cv.get_n_splits(X, y, **routed.splitter.split)
        if len(splits) != self.n_splits_:
            raise ValueError(
                "cv.split and cv.get_n_splits return inconsistent results. "
                f"Expected {self.n_splits_} splits, got {len(splits)}"
            )
        cv_data = engine().CVData(X, y, splits, routed.estimator.fit, routed.scorer.score)
        out = self._evaluate(candidates, cv_data, scorers, context)
        self._choose(candidates, out, scorers, refit_metric)
        if self.refit:
            self._refit(X, y, routed.estimator.fit, context, callback_data)
        self.scorer_ = scorers._scorers if isinstance(scorers, _MultimetricScorer) else scorers
        context.call_on_fit_task_end(estimator=self, **callback_data)
        return self

    def _evaluate(self, candidates, cv_data, scorers, context) -> list[dict]:
        """Results of all candidates on all splits, in the order of `GridSearchCV`."""
        n_splits = len(cv_data.splits)
        total = n_splits * len(candidates)
        inner = context.subcontext(
            task_name="search", max_subtasks=total, sequential_subtasks=False
        ).call_on_fit_task_begin(estimator=self)
        results: dict[int, dict] = {}
        start, said = time.perf_counter(), -np.inf
        with session(resolve_n_jobs(self.n_jobs)):
            for number, fold, model, seconds, error in engine().fit_candidates(
                candidates, cv_data, self.verbose
            ):
                task = inner.subcontext(
                    task_name="candidate-split-evaluation", task_id=len(results)
                ).call_on_fit_task_begin(estimator=self)
                result = _result(model, fold, scorers, seconds, error, self.error_score)
                results[number * n_splits + fold.split] = result
                task.call_on_fit_task_end(estimator=self)
                self._report(len(results), total)
                now = time.perf_counter() - start
                if self.verbose and (now - said >= _VERBOSE_SECONDS or len(results) == total):
                    said = now
                    print(f"[maxmargin] {now:7.1f} s  {len(results)} of {total} fits", flush=True)
        inner.call_on_fit_task_end(estimator=self)
        out = [results[at] for at in range(total)]
        if not out:
            raise ValueError("No fits were performed. Was the CV iterator empty?")
        _warn_or_raise_about_fit_failures(out, self.error_score)
        if callable(self.scoring):
            _insert_error_scores(out, self.error_score)
        return out

    def _report(self, done: int, total: int) -> None:
        """Called after each fit, for a progress bar."""

    def _choose(self, candidates, out, scorers, refit_metric) -> None:
        results = self._format_results(candidates, self.n_splits_, out)
        first = out[0]["test_scores"]
        self.multimetric_ = isinstance(first, dict)
        if callable(self.scoring) and self.multimetric_:
            self._check_refit_for_multimetric(first)
            refit_metric = self.refit
        if self.refit or not self.multimetric_:
            self.best_index_ = self._select_best_index(self.refit, refit_metric, results)
            if not callable(self.refit):
                self.best_score_ = results[f"mean_test_{refit_metric}"][self.best_index_]
            self.best_params_ = results["params"][self.best_index_]
        self.cv_results_ = results

    def _refit(self, X, y, fit_params, context, callback_data) -> None:
        best = SVC().set_params(**clone(self.best_params_, safe=False))
        if "n_jobs" not in self.best_params_:
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


def _result(model, fold, scorers, seconds: float, error: str | None, error_score) -> dict:
    """One entry of the list that `BaseSearchCV._format_results` takes."""
    start = time.perf_counter()
    if error is None:
        scores = _score(model, fold.X_test, fold.y_test, scorers, fold.score_params, error_score)
    elif isinstance(scorers, _MultimetricScorer):
        scores = dict.fromkeys(scorers._scorers, error_score)
    else:
        scores = error_score
    return {
        "test_scores": scores,
        "fit_time": seconds,
        "score_time": time.perf_counter() - start if error is None else 0.0,
        "fit_error": error,
    }
