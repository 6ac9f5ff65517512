"""Chains of many classes: all pairs of a fold in compiled code, on one matrix for all folds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from maxmargin.estimators.inputs import TrainingData
from maxmargin.estimators.multiclass import pairs_of_classes
from maxmargin.monitor import Interrupt
from maxmargin.parallel import n_threads, split
from maxmargin.search.folds import Fold
from maxmargin.solvers.pairs import HARD, follow_pairs, type_of_copies
from maxmargin.solvers.path import submatrix

# Part of all samples that a fold must train with: the steps look at the others as well.
_LEAST_SHARE = 0.5
# Kernel values of the pairs of one compiled call, about, for each C: some milliseconds.
_VALUES_PER_CALL = 2_000_000
# Calls per thread from which on their lengths hardly matter.
_CALLS_PER_THREAD = 6
# Scored samples whose kernel values are gathered at a time.
_ROWS = 512


def _data(fold: Fold) -> TrainingData:
    assert isinstance(fold.data, TrainingData)
    return fold.data


def classes_of(fold: Fold) -> tuple:
    return tuple(_data(fold).classes.tolist())


def blocks_of(samples: np.ndarray) -> list[slice]:
    """Samples whose decision values are computed at a time."""
    return split(len(samples), _ROWS)


class ClassOrder:
    """Samples in the order of their classes, so that those of a class lie side by side.

    Parameters
    ----------
    folds : they know the classes of their training samples
    n : number of samples

    Attributes
    ----------
    order : sample numbers in that order; None where it is theirs already
    place : the place of each sample in it
    """

    def __init__(self, folds: list[Fold], n: int):
        data = [_data(fold) for fold in folds]
        self._classes = np.unique(np.concatenate([one.classes for one in data]))
        code = np.full(n, len(self._classes))  # of samples that no fold trains with: the last
        for fold, one in zip(folds, data, strict=True):
            known = one.codes >= 0
            code[fold.train[known]] = np.searchsorted(self._classes, one.classes)[one.codes[known]]
        order = np.argsort(code, kind="stable")
        self.place = np.empty(n, np.int64)
        self.place[order] = np.arange(n)
        self.order = order if (order != self.place).any() or (np.diff(order) != 1).any() else None
        self._bounds = np.searchsorted(code[order], np.arange(len(self._classes) + 1))

    def bounds_of(self, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the samples of each of these classes begin and end."""
        group = np.searchsorted(self._classes, classes)
        return self._bounds[group], self._bounds[group + 1]


def is_for_pairs(fold: Fold, n: int, multi_class: str) -> bool:
    """Whether the pairs of a fold can be solved together."""
    train = fold.train
    return (
        multi_class == "ovo"
        and len(_data(fold).classes) > 2
        and len(train) >= _LEAST_SHARE * n
        and len(np.unique(train)) == len(train)
    )


class PairsOfFolds:
    """All pairs of classes of some folds for growing C, with one kernel.

    Parameters
    ----------
    folds, samples : the folds, which have the same classes, and the order of all samples
    K : their kernel matrix in that order, float64
    growing : values of C in ascending order
    tol : the KKT violation at which a solution counts as found

    Attributes
    ----------
    of_fold : what was found, fold by fold
    parts : slices of folds and pairs, each the work of one compiled call
    """

    def __init__(self, folds: list[Fold], samples: ClassOrder, K, growing: np.ndarray, tol: float):
        self._K, self._growing, self._tol = K, growing, tol
        classes = _data(folds[0]).classes
        self._starts, self._stops = samples.bounds_of(classes)
        self._pairs = np.stack(pairs_of_classes(len(classes)), axis=1)
        self._costs = np.array([_costs(fold, samples) for fold in folds])
        shape = len(folds), len(growing), len(self._pairs)
        self._beta = np.zeros((*shape[:2], len(classes) - 1, len(K)))
        status, solved_at = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self._outcome = status, solved_at, np.zeros(shape)
        self.of_fold = [
            PairsOfFold(fold, samples, K, self._pairs, self._beta[number],
                        *(found[number] for found in self._outcome))
            for number, fold in enumerate(folds)
        ]  # fmt: skip
        self.parts = self._parts()

    def _parts(self) -> list[tuple[slice, slice]]:
        """Slices of the folds and of the pairs: of fewer folds the fewer pairs there are.

        Folds that are solved one after the other share copies of kernel rows.
        """
        n_folds, _, n_pairs = self._outcome[0].shape
        sizes = self._stops - self._starts
        work = np.cumsum(sizes[self._pairs].sum(axis=1).astype(float) ** 2) * n_folds
        calls = _CALLS_PER_THREAD * n_threads()
        values = min(_VALUES_PER_CALL, work[-1] / calls)
        ends = np.flatnonzero(np.diff((work / values).astype(int), append=-1)) + 1
        pairs = [slice(*part) for part in zip(np.append(0, ends[:-1]), ends, strict=True)]
        folds = split(n_folds, min(n_folds, -(-n_folds * n_pairs // calls)))
        return list(product(folds, pairs))

    def solve(self, part: tuple[slice, slice], interrupt: Interrupt) -> None:
        """Solve some pairs in some folds, for all C."""
        if interrupt.requested:
            raise KeyboardInterrupt
        folds, pairs = part
        follow_pairs(
            self._K, self._pairs, pairs.start, pairs.stop, self._starts, self._stops,
            self._costs[folds], self._growing, self._tol, type_of_copies(self._tol),
            self._beta[folds], tuple(found[folds] for found in self._outcome),
        )  # fmt: skip


def _costs(fold: Fold, samples: ClassOrder) -> np.ndarray:
    """C of all samples at C = 1: zero of samples that take no part."""
    data, costs = _data(fold), np.zeros(len(samples.place))
    costs[samples.place[fold.train]] = np.where(data.codes >= 0, data.costs, 0.0)
    return costs


@dataclass(eq=False)
class PairsOfFold:
    """The solutions of all pairs of classes of one fold for growing C.

    Parameters
    ----------
    fold, samples, K : see `PairsOfFolds`
    pairs : array of shape (n_pairs, 2), the classes with labels +1 and −1
    beta : array of shape (n_C, n_classes − 1, n), in LIBSVM's layout
    status, solved_at, intercepts : arrays of shape (n_C, n_pairs): HARD where the pair is left to
        another solver, the place of the C that has the same solution, and the intercept
    """

    fold: Fold
    samples: ClassOrder
    K: np.ndarray
    pairs: np.ndarray
    beta: np.ndarray
    status: np.ndarray
    solved_at: np.ndarray
    intercepts: np.ndarray

    def hard(self) -> list[tuple[int, int]]:
        """Pairs that another solver has to go on with, and the C from which on."""
        found = self.status == HARD
        return [(int(pair), int(found[:, pair].argmax())) for pair in np.flatnonzero(found.any(0))]

    def answers(self, at: int) -> list[tuple[np.ndarray, float]]:
        """β and intercept of all pairs at one C."""
        pairs = range(len(self.pairs))
        return [(self.beta_of(at, pair), float(self.intercepts[at, pair])) for pair in pairs]

    def beta_of(self, at: int, pair: int) -> np.ndarray:
        """β of a pair at one C, in the order of its task."""
        return self.beta[at][self._where(pair)]

    def set_beta(self, at: int, pair: int, beta: np.ndarray) -> None:
        self.beta[at][self._where(pair)] = beta

    def _where(self, pair: int) -> tuple[np.ndarray, np.ndarray]:
        """Where the samples of a task are in `beta`."""
        first, second = self.pairs[pair]
        index = self.fold.tasks[pair].index
        of_first = _data(self.fold).codes[index] == first
        return np.where(of_first, second - 1, first), self.samples.place[self.fold.train[index]]

    def decisions(self, samples: np.ndarray) -> np.ndarray:
        """Decision values of these places, of shape (n_C, n_pairs, n_samples)."""
        out = np.empty((*self.status.shape, len(samples)))
        for rows in blocks_of(samples):
            self.decide(samples, rows, out)
        return out

    def decide(self, samples: np.ndarray, rows: slice, out: np.ndarray) -> None:
        """The same of some of the samples.

        Kernel values with the support vectors of a class, times its coefficients, are what it
        adds to its pairs, for all C at once.
        """
        part = np.zeros((*self.status.shape, rows.stop - rows.start))
        # Solutions that a smaller C has already are not multiplied once more.
        at, number = np.nonzero(self.solved_at == np.arange(len(out))[:, np.newaxis])
        values = submatrix(self.K, samples[rows], self._used)
        starts, stops = self.samples.bounds_of(_data(self.fold).classes)
        for i, (start, stop) in enumerate(zip(starts, stops, strict=True)):
            a, b = np.searchsorted(self._used, (start, stop))
            first, second = self.pairs[number].T
            mine = np.flatnonzero((first == i) | (second == i))
            if a == b or len(mine) == 0:
                continue
            line = np.where(first[mine] == i, second[mine] - 1, first[mine])
            coefficients = self.beta[at[mine], line][:, self._used[a:b]]
            part[at[mine], number[mine]] += coefficients @ values[:, a:b].T
        every = np.arange(len(self.pairs))
        for values_at, solved_at, intercepts in zip(
            out, self.solved_at, self.intercepts, strict=True
        ):
            values_at[:, rows] = part[solved_at, every] + intercepts[:, np.newaxis]

    @cached_property
    def _used(self) -> np.ndarray:
        """Places of the support vectors of any pair at any C."""
        return np.flatnonzero(self.beta.any(axis=(0, 1)))
