"""Training and prediction on Dask collections, whose partitions stay on their workers."""

from maxmargin.dask_collections.fit import source
from maxmargin.dask_collections.predict import lazily

__all__ = ["lazily", "source"]
