"""Compile ahead of time what fits would compile when they first need it."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp

import maxmargin
from maxmargin.clock import compile_seconds, watch_compiler

# Numbers of samples that take the paths of the default solver: steps for a few, all kernel values
# in memory, rows on demand, and the block method.
_SIZES = (20, 300, 900, 3000)


def warm_up() -> float:
    """Fit and predict with small data of every kind; the seconds that the compiler took.

    What was compiled is kept on disk, for all processes of this user. It is done once for a
    machine and a version; afterwards this takes about as long as loading the code.
    """
    SVC = maxmargin.SVC
    watch_compiler()
    before = compile_seconds()
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in _SIZES:
            X = rng.normal(size=(n, 6))
            y = (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)
            thin = sp.csr_array(np.where(np.abs(X) > 1.5, X, 0.0))
            for samples in (X, X.astype(np.float32), thin):
                SVC().fit(samples, y).predict(samples)
        few, many = X[:900], np.digitize(X[:900, 1], (-0.5, 0.5))
        for samples in (few, thin[:900]):
            SVC().fit(samples, many).predict(thin if samples is not few else X)
        SVC(kernel="linear").fit(X, y).predict(X)
        SVC().fit(rng.normal(size=(600, 48)), y[:600])  # kernel values all at once
        for n in (300, 1500):  # many steps, second-order steps
            SVC(C=1e4).fit(X[:n], rng.integers(0, 2, n))
        SVC(warm_start=True).fit(few, y[:900]).fit(few, y[:900])
        maxmargin.SVR().fit(X, X[:, 0]).predict(X)
        maxmargin.OneClassSVM().fit(X).predict(X)
        for labels in (y[:900], many):
            maxmargin.SVCSearch({"C": [1.0, 10.0]}, cv=2).fit(few, labels)
    return compile_seconds() - before
