"""Partitions of a Dask collection, and what workers do with them.

Rows leave their worker only as support vectors, as violators, or as a loan to a partition
without their class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from maxmargin.dask_collections.problems import PairOfClasses, Regression
from maxmargin.estimators.inputs import costs_of, valid_csr, valid_weights
from maxmargin.estimators.variance import moments
from maxmargin.kernels.budget import cache_bytes, precision_of_rows
from maxmargin.kernels.buffers import BufferPool
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.samples import as_samples
from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solvers.hierarchical.subproblem import Samples, Support, Task, solve_union

# Rows of a class that a partition lends to a partition without that class.
LOAN = 250


def _bytes(X) -> int:
    return X.data.nbytes + X.indices.nbytes if sp.issparse(X) else X.nbytes


@dataclass(frozen=True, eq=False)
class Rows:
    """Samples that travel: their features, class numbers or targets, and costs."""

    X: Any
    values: np.ndarray
    costs: np.ndarray

    def __getitem__(self, index) -> Rows:
        return Rows(self.X[index], self.values[index], self.costs[index])

    def without_features(self, index) -> Rows:
        """The rows `index` as far as bounds and targets need them, without their features."""
        return Rows(None, self.values[index], self.costs[index])

    def __sizeof__(self) -> int:
        # Dask moves a task to an idle worker where its data seem small, so it must know.
        return _bytes(self.X)

    @classmethod
    def joined(cls, parts: list[Rows]) -> Rows:
        blocks = [part.X for part in parts]
        X = sp.vstack(blocks, "csr") if sp.issparse(blocks[0]) else np.concatenate(blocks)
        values, costs = ([getattr(p, name) for p in parts] for name in ("values", "costs"))
        return cls(X, np.concatenate(values), np.concatenate(costs))


@dataclass(frozen=True, eq=False)
class Block:
    """A partition as the user gave it, checked."""

    X: Any
    y: np.ndarray
    weights: np.ndarray

    def __sizeof__(self) -> int:
        return _bytes(self.X)


@dataclass(frozen=True, eq=False)
class Summary:
    """The facts about a partition that the client needs."""

    n: int
    n_features: int
    sparse: bool
    classes: np.ndarray
    counts: np.ndarray
    weighted_counts: np.ndarray
    weight: float
    mean: float
    squares: float
    sums_of_targets: tuple[float, float]


def check_block(X, y, weights, regression: bool = False) -> Block:
    """scikit-learn's checks of one partition; an empty one is fine."""
    X = sp.csr_array(valid_csr(X)) if sp.issparse(X) else X
    X = check_array(X, dtype="numeric", accept_sparse="csr", ensure_min_samples=0)
    y = column_or_1d(y)
    if len(y) != X.shape[0]:
        raise ValueError(
            f"A partition of X has {X.shape[0]} rows where that of y has {len(y)}: X and y must "
            "be divided alike."
        )
    if regression:
        y = check_array(y, dtype=np.float64, ensure_2d=False, ensure_min_samples=0, input_name="y")
    elif len(y):
        check_classification_targets(y)
    return Block(X, y, valid_weights(weights, len(y)))


def summarise(block: Block, regression: bool = False) -> Summary:
    """Counts by class, and mean and variance of all entries for gamma='scale'.

    The samples of a regression are of one class.
    """
    X, weights = block.X, block.weights
    labels = np.zeros(len(block.y)) if regression else block.y
    classes, codes = np.unique(labels, return_inverse=True)
    counts = np.bincount(codes, minlength=len(classes))
    positive = np.bincount(codes, weights > 0, minlength=len(classes))
    total, mean, squares = moments(X, weights)
    return Summary(
        len(block.y), X.shape[1], sp.issparse(X), classes, counts, positive, total, mean, squares,
        (block.y.sum(), np.square(block.y).sum()) if regression else (0.0, 0.0),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Partition:
    """A partition with class numbers (−1 for rows without weight) or targets, and costs."""

    rows: Rows
    offset: int

    def __sizeof__(self) -> int:
        return self.rows.__sizeof__()

    def part(self, problem: PairOfClasses | Regression) -> Support:
        """The rows of one problem."""
        return self.chosen(problem.members(self.rows))

    def of_rows(self, answer: Support, values: np.ndarray, other: float) -> np.ndarray:
        """The values that the samples of an answer have, row by row; of rows outside it `other`."""
        found = np.full(len(self.rows.costs), other)
        here = answer.samples - self.offset
        own = (here >= 0) & (here < len(found))
        found[here[own]] = values[own]
        return found

    def chosen(self, index: np.ndarray, residual: np.ndarray | None = None) -> Support:
        return Support(self.offset + index, np.zeros(len(index)), self.rows[index], residual)


def encode(block: Block, classes, class_weight, C: float, offset: int) -> Partition:
    codes = np.searchsorted(classes, block.y)
    weights = block.weights * class_weight[codes]
    costs = costs_of(C, weights)
    return Partition(Rows(block.X, np.where(weights > 0, codes, -1), costs), offset)


def with_targets(block: Block, C: float, offset: int) -> Partition:
    return Partition(Rows(block.X, block.y, costs_of(C, block.weights)), offset)


def diagonal_sums(partition: Partition, function: KernelFunction, problems: list) -> list[float]:
    """Σ|k(x, x)| over the rows of each problem, for the scale of its kernel values."""
    rows = partition.rows
    values = np.abs(function.diagonal(as_samples(rows.X, np.float64).norms))
    return [float(values[problem.members(rows)].sum()) for problem in problems]


def added(parts: list[Support]) -> tuple[np.ndarray, np.ndarray, Rows]:
    """All samples of the parts, the sum of their β, and their rows."""
    numbers = np.concatenate([part.samples for part in parts])
    samples, first, where = np.unique(numbers, return_index=True, return_inverse=True)
    beta = np.bincount(where, np.concatenate([part.beta for part in parts]), len(samples))
    return samples, beta, Rows.joined([part.rows for part in parts])[first]


class TravellingSamples(Samples):
    """Samples that come with the support sets, and the problems of the fit."""

    def __init__(self, function: KernelFunction, tol: float, cache_size, seed: int, problems: list):
        self.function, self.tol, self.cache_size = function, tol, cache_size
        self.seed, self.problems = seed, problems
        self._row_buffers = BufferPool(for_many=True)

    def union(self, parts, number):
        samples, beta, rows = added(parts)
        memory = cache_bytes(self.cache_size, len(rows.costs))
        run = Run(tol=self.tol, cache_bytes=memory, random_state=self.seed, start=beta)
        return samples, self.problem(rows, number), run, rows

    def problem(self, rows: Rows, number: int) -> Problem:
        kernel = FeatureKernelMatrix(rows.X, self.function, precision_of_rows(len(rows.costs)))
        kernel.origin.row_buffers = self._row_buffers  # the same for one subproblem after the other
        return Problem(kernel, **self.problems[number].fields(rows))


def lend(partition: Partition, pair: PairOfClasses, positive: bool, seed: int) -> Support:
    """A few rows of one side of a problem, for partitions without rows of that side."""
    part = partition.part(pair)
    side = np.flatnonzero((part.rows.values == pair.positive) == positive)
    random = np.random.default_rng([seed, partition.offset])
    chosen = np.sort(random.permutation(side)[:LOAN])
    return Support(part.samples[chosen], part.beta[chosen], part.rows[chosen])


def solve_local(
    samples: TravellingSamples, partition: Partition, loans: list[Support], task: Task
) -> Support:
    """The first step where rows stay: the problem of one partition's own rows."""
    return solve_union(samples, [partition.part(samples.problems[task.number]), *loans], task)


def without_rows(support: Support) -> Support:
    return replace(support, rows=None)


def all_without_rows(supports: list[Support]) -> list[Support]:
    return [without_rows(support) for support in supports]
