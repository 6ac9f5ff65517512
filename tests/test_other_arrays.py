"""Arrays and frames of other libraries train as NumPy's do, and predictions are NumPy's."""

import os
import warnings
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_array_equal

from maxmargin import SVC, SVR


def _frame(X):
    return pd.DataFrame(X, columns=[f"f{k}" for k in range(X.shape[1])])


def _polars(values):
    import polars

    if values.ndim == 1:
        return polars.Series(values)
    return polars.DataFrame(values, schema=[f"f{k}" for k in range(values.shape[1])])


def _arrow(values):
    import pyarrow

    return pyarrow.array(values) if values.ndim == 1 else pyarrow.Table.from_pandas(_frame(values))


def _torch(values):
    import torch

    return torch.asarray(values)


def _strict(values):
    import array_api_strict

    return array_api_strict.asarray(values)


CONTAINERS = {
    "pandas": lambda values: _frame(values) if values.ndim == 2 else pd.Series(values),
    "polars": _polars,
    "pyarrow": _arrow,
    "torch": _torch,
    "array_api_strict": _strict,
}


@pytest.fixture(params=CONTAINERS)
def container(request):
    if find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed.")
    return CONTAINERS[request.param]


@pytest.mark.parametrize("dispatch", [False, True])
@pytest.mark.parametrize("kind", [SVC, SVR])
def test_they_are_numbers_like_others(kind, container, dispatch, binary):
    X, y = binary
    weights = np.linspace(0.5, 1.5, len(y))
    expected = kind().fit(X, y, weights)
    if dispatch and os.environ.get("SCIPY_ARRAY_API") != "1":
        pytest.skip("array_api_dispatch needs SCIPY_ARRAY_API=1 in the environment.")
    with warnings.catch_warnings(), sklearn.config_context(array_api_dispatch=dispatch):
        warnings.simplefilter("error")
        model = kind().fit(container(X), container(y), container(weights))
        predicted = model.predict(container(X))
    assert type(predicted) is np.ndarray
    assert_array_equal(predicted, expected.predict(X))
    assert_array_equal(model.dual_coef_, expected.dual_coef_)


def test_names_of_columns_are_kept(container, binary):
    X, y = binary
    held = container(X)
    model = SVC().fit(held, y)
    # Of frames scikit-learn knows the names of the columns.
    named = type(held).__module__.startswith(("pandas", "polars", "pyarrow"))
    assert hasattr(model, "feature_names_in_") == named
