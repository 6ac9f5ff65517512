"""`SVRSearch`: what `GridSearchCV(SVR(), …)` finds, with everything shared that can be."""

from __future__ import annotations

from maxmargin.estimators.documentation import with_parameters_of
from maxmargin.estimators.regression import SVR
from maxmargin.search.base_search import SharedSearch
from maxmargin.search.svc_search import SVCSearch


@with_parameters_of(SVCSearch)
class SVRSearch(SharedSearch):
    """Parameters of an SVR by cross-validation over a grid.

    The results are those of ``GridSearchCV(SVR(), param_grid)``, within the
    tolerance of the solver, and so are the attributes. It is faster because
    candidates share: kernel values over all folds, all C and all epsilon, solutions
    from one C to the next larger one and from one epsilon to another. No candidate is
    given up on a guess. Where a larger C cannot change the solution any more, it is not
    computed again.

    The solutions behind the scores are optimal to `tol` by the certificate of every fit,
    from kernel values in float64; `best_estimator_` is fitted anew to all samples.

    Parameters
    ----------
    estimator : SVR
        Whose parameters the candidates have, apart from the grid's. It may be left out:
        ``SVRSearch(param_grid)``.
    param_grid : dict or list of dicts
        Names of parameters of `SVR` and the values to try, as for `GridSearchCV`.
    cv : int, cross-validation generator or iterable, default=5
        Folds. A number means so many of them, without shuffling.
    scoring : str, callable, list, tuple or dict, default=None
        As for `GridSearchCV`; None is R².
    refit, n_jobs, verbose, error_score, return_train_score, pre_dispatch
        As of :class:`SVCSearch`.

    Attributes
    ----------
    cv_results_, best_params_, best_score_, best_index_, best_estimator_, scorer_, n_splits_, \
    refit_time_, multimetric_, n_features_in_ : as of `GridSearchCV`
        The `fit_time` in `cv_results_` is what the candidate took after those it
        started from; kernel matrices are in nobody's time.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from maxmargin import SVRSearch
    >>> X, y = load_diabetes(return_X_y=True)
    >>> grid = {"C": [1, 10, 100], "gamma": [0.001, 0.01], "epsilon": [1, 10]}
    >>> search = SVRSearch(grid).fit(scale(X), y)
    >>> search.best_params_
    {'C': 100, 'epsilon': 1, 'gamma': 0.01}
    """

    _tunes = SVR
