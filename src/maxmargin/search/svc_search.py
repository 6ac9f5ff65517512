"""`SVCSearch`: what `GridSearchCV(SVC(), …)` finds, with everything shared that can be."""

from __future__ import annotations

from maxmargin.estimators.svc import SVC
from maxmargin.search.base_search import SharedSearch


class SVCSearch(SharedSearch):
    """Parameters of an SVC by cross-validation over a grid.

    The results are those of ``GridSearchCV(SVC(), param_grid)``, within the
    tolerance of the solver, and so are the attributes. It is faster because
    candidates share: kernel values over all folds and all C, solutions from one C to
    the next larger one. No candidate is given up on a guess. Where a larger C cannot
    change the solution any more, it is not computed again.

    The solutions behind the scores are optimal to `tol` by the certificate of every fit,
    from kernel values in float64; `best_estimator_` is fitted anew to all samples.

    Parameters
    ----------
    estimator : SVC
        Whose parameters the candidates have, apart from the grid's. It may be left out:
        ``SVCSearch(param_grid)``.
    param_grid : dict or list of dicts
        Names of parameters of `SVC` and the values to try, as for `GridSearchCV`.
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
    error_score : "raise" or number, default=nan
        The score of a fit that fails.
    return_train_score : bool, default=False
        Whether the training samples of each fold are scored, too.
    pre_dispatch : int or str, default="2*n_jobs"
        Taken so that a `GridSearchCV` becomes this search by renaming. It has no effect: threads
        share the data, and no candidate is sent to a process in advance.

    Attributes
    ----------
    cv_results_, best_params_, best_score_, best_index_, best_estimator_, scorer_, n_splits_, \
    refit_time_, multimetric_, classes_, n_features_in_ : as of `GridSearchCV`
        The `fit_time` in `cv_results_` is what the candidate took after those it
        started from; kernel matrices are in nobody's time.

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

    _tunes = SVC
