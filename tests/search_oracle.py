"""A search beside scikit-learn's GridSearchCV over the same candidates and folds."""

import numpy as np
from sklearn.model_selection import GridSearchCV

# Both sides are solved closely, so that no sample lies between two answers within tol.
CLOSE = {"tol": [1e-6]}


def closely(grid):
    grids = grid if isinstance(grid, list) else [grid]
    return [CLOSE | one for one in grids]


def assert_same_results(found, expected, atol=1e-9):
    """Equal but for times, and for parameters that only one of the two has."""
    ours, theirs = found.cv_results_, expected.cv_results_
    assert set(ours) == set(theirs)
    assert ours["params"] == theirs["params"]
    for name, values in theirs.items():
        if ("test_" in name or "train_" in name) and not name.startswith("rank"):
            np.testing.assert_allclose(ours[name], values, rtol=1e-4, atol=atol, err_msg=name)
        if name.startswith("param_"):
            assert list(ours[name]) == list(values)


def same_results(search, estimator, grid, data, *, fit_params=None, atol=1e-9, **options):
    """Fit both, and compare: `search` is our class, `estimator` what GridSearchCV tunes."""
    X, y = data
    fit_params = fit_params or {}
    found = search(closely(grid), **options).fit(X, y, **fit_params)
    options = {name: value for name, value in options.items() if name != "verbose"}
    expected = GridSearchCV(estimator, closely(grid), **options).fit(X, y, **fit_params)
    assert_same_results(found, expected, atol)
    return found, expected
