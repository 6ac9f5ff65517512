"""A training set on the workers of a cluster, and the client's knowledge of it."""

from __future__ import annotations

from functools import partial

import dask
import dask.array as da
import numpy as np
from distributed import Client

from maxmargin.dask_collections.partitions import (
    Summary,
    check_block,
    encode,
    summarise,
    with_targets,
)
from maxmargin.estimators.inputs import class_weights
from maxmargin.estimators.variance import variance_of


def blocks_of(X) -> list:
    """The partitions of a dask array or dataframe as delayed objects, whole rows each."""
    if isinstance(X, da.Array):
        if X.ndim == 2 and X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        return list(X.to_delayed().ravel())
    return list(X.to_delayed())


def aligned(values, X, name: str) -> list:
    """y or weights in the partitions of X."""
    if values is None:
        return [None] * len(blocks_of(X))
    known = isinstance(X, da.Array) and not np.isnan(X.shape[0])
    if not hasattr(values, "__dask_graph__"):
        if not known:
            raise ValueError(
                f"{name} must be a Dask collection divided like X, whose partitions have sizes "
                "that only the workers know."
            )
        values = da.from_array(np.asarray(values), chunks=(X.chunks[0],))
    if isinstance(values, da.Array):
        values = values.ravel() if values.ndim > 1 else values
        if known and not np.isnan(values.shape[0]) and values.shape[0] == X.shape[0]:
            values = values.rechunk((X.chunks[0],))
    blocks = blocks_of(values)
    if len(blocks) != len(blocks_of(X)):
        raise ValueError(
            f"{name} has {len(blocks)} partitions and X has {len(blocks_of(X))}: they must be "
            "divided alike."
        )
    return blocks


class Collection:
    """The partitions of a training set on their workers, and what the client knows of them."""

    def __init__(self, estimator, client: Client, X, y, sample_weight):
        self.client, regression = client, estimator._formulation == "epsilon_svr"
        check = dask.delayed(check_block, pure=False)
        made = [
            check(*parts, regression)
            for parts in zip(blocks_of(X), aligned(y, X, "y"),
                             aligned(sample_weight, X, "sample_weight"), strict=True)
        ]  # fmt: skip
        blocks = client.compute(made)
        summaries = client.gather(client.map(summarise, blocks, regression=regression, pure=False))
        self.summaries: list[Summary] = [s for s in summaries if s.n]
        blocks = [block for block, s in zip(blocks, summaries) if s.n]
        self._describe()
        offsets = np.cumsum([0, *(s.n for s in self.summaries)])
        self.n = int(offsets[-1])
        C = float(estimator.C)
        if regression:
            self._describe_targets()
            prepare = partial(with_targets, C=C)
        else:
            self._describe_classes(estimator)
            prepare = partial(encode, classes=self.classes, class_weight=self.class_weight, C=C)
        self.partitions = [
            client.submit(prepare, block, offset=int(offset), pure=False)
            for block, offset in zip(blocks, offsets)
        ]

    def _describe(self) -> None:
        found = self.summaries
        if not found:
            raise ValueError("Found array with 0 sample(s) in all partitions; at least 2 needed.")
        widths = sorted({s.n_features for s in found})
        if len(widths) > 1:
            raise ValueError(f"Partitions of X have different numbers of features: {widths}.")
        if len({s.sparse for s in found}) > 1:
            raise ValueError("Some partitions of X are sparse and others dense.")
        self.n_features, self.sparse = widths[0], found[0].sparse

    def _describe_targets(self) -> None:
        """Rows with a positive weight, and the standard deviation of the targets."""
        self.classes = np.zeros(1)
        self.counts = self._by_class("weighted_counts")
        if not self.counts.any():
            raise ValueError("Invalid input - all samples have zero or negative weights.")
        total, squares = np.sum([s.sums_of_targets for s in self.summaries], axis=0) / self.n
        self.deviation = float(np.sqrt(max(0.0, squares - total**2)))

    def _describe_classes(self, estimator) -> None:
        found = self.summaries
        self.classes = np.unique(np.concatenate([s.classes for s in found]))
        if len(self.classes) < 2:
            raise ValueError(
                f"The number of classes has to be greater than one; got {len(self.classes)} class"
            )
        counts = self._by_class("counts")
        if estimator.class_weight == "balanced":
            self.class_weight = counts.sum() / (len(self.classes) * counts.sum(axis=0))
        else:
            self.class_weight = class_weights(estimator.class_weight, self.classes, self.classes)
        # Rows of each class with a positive weight, partition by partition.
        self.counts = self._by_class("weighted_counts") * (self.class_weight > 0)
        missing = self.classes[self.counts.sum(axis=0) == 0]
        if len(missing):
            raise ValueError(
                f"All samples of class {missing[0]!r} have zero or negative weights; every class "
                "needs at least one sample with a positive weight."
            )

    def _by_class(self, name: str) -> np.ndarray:
        table = np.zeros((len(self.summaries), len(self.classes)), np.int64)
        for line, summary in zip(table, self.summaries):
            line[np.searchsorted(self.classes, summary.classes)] = getattr(summary, name)
        return table

    def variance(self) -> float:
        """Variance of all entries, from the partitions' means and squares."""
        weights = np.array([s.weight for s in self.summaries])
        means = np.array([s.mean for s in self.summaries])
        mean = float(weights @ means / weights.sum())
        squares = sum(s.squares for s in self.summaries) + weights @ (means - mean) ** 2
        return variance_of(mean, float(squares / weights.sum()))
