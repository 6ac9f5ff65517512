"""Values of the binary decision functions of a fitted model, class by class.

One-vs-one stores n_classes − 1 coefficients per support vector. The kernel values of a
tile of samples with the support vectors of class i, times the coefficients of that class,
are what class i contributes to its n_classes − 1 pairs: 2·n·n_SV·(n_classes − 1) operations
for all pairs together. What does not depend on the samples is made once per model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin._decision_leaves import confidences, products_of_few, votes
from maxmargin.coefficients import Coefficients
from maxmargin.kernels.buffers import thread_scratch
from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.gauss_transform import GaussSums, cost_of_sums
from maxmargin.kernels.samples.dense import DenseSamples, dense_rows
from maxmargin.kernels.tiles import cancels, kernel_tile, samples_for
from maxmargin.kernels.user_values import call_kernel
from maxmargin.parallel import n_threads, run_blocks, session, split
from maxmargin.single_precision import SinglePrecision, label_of_two

# Samples of one tile of kernel values, and bytes of a tile of decision values, which has whole
# vector registers of float32 samples.
_TILE_ROWS = 512
_TILE_BYTES = 2**23
_LANES = 16
# Samples of a tile of float32 values at least, where there are more threads than whole tiles.
_FEWEST_ROWS = 128
# Products up to which one compiled loop is faster than to wake BLAS and its threads.
_FEW_PRODUCTS = 1_000_000
# Products from which on labels are sought in float32 first, and the part of the samples that must
# be certain by them for others to follow.
_WORTH_SINGLE = 4_000_000
# Products from which on another thread has done its part before one alone has done all.
_WORTH_THREADS = 8_000_000
_MOSTLY_CERTAIN = 0.75
# Rows up to which sparse vectors are faster without a panel, and features that a row may have then.
_FEW_ROWS = 4
_MOST_FEATURES = 2**15


class DecisionFunctions:
    """All binary decision functions of a model, in LIBSVM's sign.

    Parameters
    ----------
    values : where the terms of the sums come from
    intercept : array of shape (n_tasks,)
    n_classes : number of classes
    """

    def __init__(self, values: _Terms, intercept: np.ndarray, n_classes: int):
        self._terms, self._n_classes = values, n_classes
        # Running count of labels in doubt after float32 values, less the tolerated share. A thread
        # that reads it too early, or for other samples, loses time alone.
        self._in_doubt = 0.0
        self._products = 0.0  # of all samples so far
        self._intercept = np.ascontiguousarray(intercept, np.float64)[:, np.newaxis]

    def evaluate(self, X, form: str, n_jobs: int) -> np.ndarray:
        """The decision values of all samples in one of the forms of `in_form`, tile by tile."""
        terms = self._terms.prepared(X, n_jobs)
        n = terms.n_samples(X)
        self._products += n * terms.products

        def evaluate(rows: slice) -> np.ndarray:
            return in_form(self._values(terms, X, rows), form, self._n_classes)

        if n * terms.products <= _FEW_PRODUCTS:
            return evaluate(slice(0, n))
        fitting = _TILE_BYTES // (8 * len(self._intercept))
        with session(n_jobs if n * terms.products > _WORTH_THREADS else 1):
            tiles = split(n, min(_TILE_ROWS, max(_LANES, fitting // _LANES * _LANES)))
            # A model that is too large for the caches is read in float32 for few samples too.
            many = self._products if terms.products > _FEW_PRODUCTS else n * terms.products
            if form in ("votes", "largest") and many >= _WORTH_SINGLE:
                single = self._single if terms is self._terms else None
                if single is not None and self._in_doubt <= _LANES:
                    return self._labels(single, X, form, tiles, evaluate)
            return np.concatenate(run_blocks(evaluate, tiles))

    def _values(self, terms: _Terms, X, rows: slice) -> np.ndarray:
        """The decision values of one tile, in memory that the next one of this thread takes."""
        shape = len(self._intercept), rows.stop - rows.start
        tile = thread_scratch("decisions").array(shape, np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            terms.fill(X, rows, tile)
            tile += self._intercept
        return tile

    @cached_property
    def _single(self) -> SinglePrecision | None:
        return self._terms.single_precision(self._intercept)

    def _labels(
        self, single: SinglePrecision, X, form: str, tiles: list[slice], evaluate: Callable
    ) -> np.ndarray:
        """The labels that evaluate(rows) has tile by tile, most of them from float32 values.

        The rows in doubt have float64 values among themselves, whose sums may have another order
        than in their tile; where that could matter, the tile decides.
        """
        n = tiles[-1].stop
        labels, certain = np.zeros(n, np.intp), np.zeros(n, bool)

        def look(rows: slice) -> None:
            if self._in_doubt <= _LANES:
                labels[rows], certain[rows] = single.labels(X[rows], form)
                self._in_doubt = max(0.0, self._in_doubt + _beyond(certain[rows]))

        # What is proven does not depend on tiles, so that every thread may have one.
        run_blocks(look, split(n, min(tiles[0].stop, max(_FEWEST_ROWS, -(-n // n_threads())))))
        doubtful = np.flatnonzero(~certain) if _beyond(certain) <= 0 else np.empty(0, np.intp)

        def look_closely(part: slice) -> None:
            rows = X[doubtful[part]]
            tile = self._values(self._terms, rows, slice(0, rows.shape[0]))
            labels[doubtful[part]], certain[doubtful[part]] = single.judge(tile, rows, form)

        def take(rows: slice) -> None:
            labels[rows] = evaluate(rows)

        run_blocks(look_closely, split(len(doubtful), tiles[0].stop))
        run_blocks(take, [rows for rows in tiles if not certain[rows].all()])
        return labels


def _beyond(certain: np.ndarray) -> float:
    """Labels in doubt, less the number up to which float32 values pay."""
    return _MOSTLY_CERTAIN * len(certain) - np.count_nonzero(certain)


def in_form(tile: np.ndarray, form: str, n_classes: int) -> np.ndarray:
    """Decision values of shape (n_tasks, n_samples) in the form that is asked for.

    Parameters
    ----------
    form : "tasks" for the values themselves, of shape (n_samples, n_tasks), and "largest" for the
        task with the largest one, of equals the first; of pairs also "votes" for the class with
        most wins, of equals the first, and "classes" for wins and confidences of shape
        (n_samples, n_classes)
    """
    if form == "largest":
        return tile.argmax(axis=0)
    if form == "votes":
        return label_of_two(tile) if len(tile) == 1 else votes(tile, n_classes)
    return confidences(tile, n_classes) if form == "classes" else tile.T.copy()


class _Terms(ABC):
    """Puts the sums over support vectors into tiles of decision values.

    Attributes
    ----------
    products : multiplications per sample, about
    """

    products: float

    def prepared(self, X, n_jobs: int) -> _Terms:
        """The terms for these samples, where something is computed for all of them at once."""
        return self

    def n_samples(self, X) -> int:
        return X.shape[0]

    def single_precision(self, intercept: np.ndarray) -> SinglePrecision | None:
        """The decision values in float32, where labels can be proven from them."""
        return None

    @abstractmethod
    def fill(self, X, rows: slice, tile: np.ndarray) -> None:
        """tile[task, r] = Σ_s coefficient[task, s] · k(row rows.start + r of X, vector s)."""


class NoTerms(_Terms):
    """The sums over no support vectors, as of a fit that was stopped before its first step."""

    products = 0.0

    def fill(self, X, rows, tile):
        tile[:] = 0.0


class FeatureTerms(_Terms):
    """Kernel values of samples with features."""

    def __init__(self, function: KernelFunction, vectors, coefficients: Coefficients):
        self._function, self._coefficients = function, coefficients
        self._basis: Any = samples_for(function, vectors, np.float64)
        self._parts: list[Any] = [self._basis.part(chunk) for chunk in coefficients]
        # Sums of one task over sparse vectors need no kernel values in memory.
        summable = coefficients.n_tasks == 1 and function.name == "rbf" and coefficients.n_vectors
        self._of_task = coefficients.of_task() if summable else None
        each = self._basis.multiplies_per_value + coefficients.size / max(1, self._basis.n)
        self.products = self._basis.n * each

    def prepared(self, X, n_jobs):
        basis, n, n_tasks = self._basis, X.shape[0], self._coefficients.n_tasks
        dense = self._function.name == "rbf" and not basis.is_sparse
        if not dense or cost_of_sums(basis.n_features, basis.n, n, n_tasks) == np.inf:
            return self
        with session(n_jobs):
            sums = GaussSums.prepare(
                self._function.gamma, basis.X, self._coefficients.of_task, n_tasks,
                lambda rows: basis.like(X[rows]).X, n,
            )  # fmt: skip
        return self if sums is None else _SummedTerms(sums, basis)

    def single_precision(self, intercept):
        # Sums of one task over sparse vectors are faster without values in memory.
        if self._of_task is not None and self._basis.is_sparse:
            return None
        return SinglePrecision.of(self._function, self._basis, self._coefficients, intercept)

    def fill(self, X, rows, tile):
        basis, part, function = self._basis, X[rows], self._function
        self._coefficients.clear(tile)
        if self._few(part):
            samples = DenseSamples(dense_rows(part), np.float64, basis.origin)
            if not cancels(function, basis, samples):
                self._fill_few(samples, tile)
                return
        samples, everything = basis.like(part), slice(0, part.shape[0])
        if self._of_task is not None and basis.is_sparse and not cancels(function, basis, samples):
            basis.add_rbf_expansion(function.gamma, self._of_task, samples, everything, tile[0])
            return
        for place, vectors in enumerate(self._parts):
            values = kernel_tile(function, vectors, samples, everything)
            self._coefficients.add(place, values, tile)

    def _few(self, rows) -> bool:
        n, basis = rows.shape[0], self._basis
        if basis.is_sparse and (n > _FEW_ROWS or basis.n_features > _MOST_FEATURES):
            return False
        return n * self.products <= _FEW_PRODUCTS

    def _fill_few(self, samples: DenseSamples, tile: np.ndarray) -> None:
        """The same for few samples, with neither BLAS nor the layout of panels."""
        for place, vectors in enumerate(self._parts):
            values = np.empty((samples.n, vectors.n))
            if vectors.is_sparse:
                for own, sample in zip(values, samples.X, strict=True):
                    own[:] = vectors.times(sample, slice(0, vectors.n))
            else:
                products_of_few(samples.X, vectors.X, values)
            self._function.from_products(values, samples.norms, vectors.norms)
            self._coefficients.add_few(place, values, tile)


class _SummedTerms(_Terms):
    """Sums of Gaussians of few features, without kernel values."""

    products = float(_FEW_PRODUCTS)

    def __init__(self, sums: GaussSums, basis):
        self._sums, self._basis = sums, basis

    def fill(self, X, rows, tile):
        tile[:] = self._sums.at(self._basis.like(X[rows]).X).T


class PrecomputedTerms(_Terms):
    """Kernel values from a matrix whose column s belongs to training sample s."""

    def __init__(self, support: np.ndarray, coefficients: Coefficients):
        self._support, self._coefficients = support, coefficients
        self.products = coefficients.size

    def fill(self, X, rows, tile):
        self._coefficients.clear(tile)
        for place, chunk in enumerate(self._coefficients):
            values = X[rows, self._support[chunk]].T.astype(np.float64)
            self._coefficients.add(place, values, tile)


class CallableTerms(_Terms):
    """Kernel values of a user's function, which sees all training samples as in scikit-learn."""

    def __init__(self, function, X_fit, support: np.ndarray, coefficients: Coefficients):
        self._function, self._X_fit = function, X_fit
        self._of_matrix = PrecomputedTerms(support, coefficients)

    def prepared(self, X, n_jobs):
        return _CalledTerms(call_kernel(self._function, X, self._X_fit), self._of_matrix)

    def fill(self, X, rows, tile):
        raise NotImplementedError("Call prepared(X) first.")


class _CalledTerms(_Terms):
    def __init__(self, K: np.ndarray, terms: PrecomputedTerms):
        self._K, self._terms, self.products = K, terms, terms.products

    def n_samples(self, X):
        return len(self._K)

    def fill(self, X, rows, tile):
        self._terms.fill(self._K, rows, tile)


class LinearTerms(_Terms):
    """Weights of the features, of which sparse data have only the ones that occur.

    Parameters
    ----------
    vectors : the support vectors, dense or CSR
    coefficients : array or sparse array of shape (n_tasks, n_support_vectors)
    """

    def __init__(self, vectors, coefficients):
        self._features = occurring_features(vectors) if sp.issparse(vectors) else None
        weights = coefficients @ _columns(vectors, self._features)
        dense = weights.toarray() if sp.issparse(weights) else weights
        self._weights = np.ascontiguousarray(dense, np.float64)
        self.products = self._weights.size

    def fill(self, X, rows, tile):
        if self._features is not None:
            tile[:] = (_columns(X[rows], self._features) @ self._weights.T).T
            return
        part = np.ascontiguousarray(X[rows], np.float64)
        if len(part) * self.products <= _FEW_PRODUCTS:
            products_of_few(self._weights, part, tile)
        else:
            np.matmul(self._weights, part.T, out=tile)


def occurring_features(vectors) -> np.ndarray:
    """Numbers of the features that a sparse matrix has, in order."""
    return np.unique(vectors.indices)


def _columns(X, features: np.ndarray | None):
    """Those columns of X; its rows must be canonical CSR."""
    if features is None:
        return X
    place = np.searchsorted(features, X.indices)
    known = np.append(features, -1)[place] == X.indices
    ends = np.concatenate([[0], np.cumsum(known)])[X.indptr]
    return sp.csr_array((X.data[known], place[known], ends), shape=(X.shape[0], len(features)))
