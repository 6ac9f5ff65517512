"""Training and prediction on Dask collections, whose partitions stay on their workers.

Dask is an optional dependency; it is imported when a fit or a prediction needs it.
"""

from __future__ import annotations


def fit_collection(estimator, solver, X, y, sample_weight):
    """`fit` of an estimator to a dask array or dataframe."""
    try:
        from maxmargin.dask_collections.fit import fit_collection
    except ImportError as error:
        raise ImportError(
            "Dask collections need dask.distributed: pip install maxmargin[distributed]."
        ) from error
    return fit_collection(estimator, solver, X, y, sample_weight)
