"""Chains of many classes: all pairs of a fold in compiled code, on one matrix for all folds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from maxmargin.estimators.inputs import TrainingData
from maxmargin.estimators.multiclass import pairs_of_classes
from maxmargin.monitor import Interrupt
from maxmargin.parallel import split
from maxmargin.search.folds import Fold
from maxmargin.solvers.pairs import HARD, follow_pairs
from maxmargin.solvers.path import submatrix

# Part of all samples that a fold must train with: the steps look at the others as well.
_LEAST_SHARE = 0.5
# Kernel values of the pairs of one compiled call, about, for each C: some milliseconds.
_VALUES_PER_CALL = 2_000_000
# The tol from which on the steps may keep their residual, of the size of the labels, in single
# precision: rounding over some thousand steps is then small beside what they leave of tol.
_TOL_OF_SINGLE = 1e-4
# Scored samples whose kernel values are gathered at a time.
_ROWS = 512


def _data(fold: Fold) -> TrainingData:
    assert isinstance(fold.data, TrainingData)
    return fold.data


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


@dataclass(eq=False)
class PairsOfFold:
    """All pairs of classes of a fold for growing C, with one kernel.

    Parameters
    ----------
    fold, samples : the fold, and the order of all samples
    K : their kernel matrix in that order, float64
    growing : values of C in ascending order
    tol : the KKT violation at which a solution counts as found

    Attributes
    ----------
    beta : array of shape (n_C, n_classes − 1, n), in LIBSVM's layout
    status, solved_at, intercepts : arrays of shape (n_C, n_pairs): HARD where the pair is left to
        another solver, the place of the C that has the same solution, and the intercept
    """

    fold: Fold
    samples: ClassOrder
    K: np.ndarray
    growing: np.ndarray
    tol: float

    def __post_init__(self):
        classes = _data(self.fold).classes
        self._starts, self._stops = self.samples.bounds_of(classes)
        self._pairs = np.stack(pairs_of_classes(len(classes)), axis=1)
        shape = len(self.growing), len(self._pairs)
        self.beta = np.zeros((shape[0], len(classes) - 1, len(self.K)))
        self.status, self.solved_at = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self.intercepts = np.zeros(shape)

    @cached_property
    def costs(self) -> np.ndarray:
        """C of all samples at C = 1: zero of samples that take no part."""
        costs = np.zeros(len(self.K))
        data = _data(self.fold)
        costs[self.samples.place[self.fold.train]] = np.where(data.codes >= 0, data.costs, 0.0)
        return costs

    def solve(self, interrupt: Interrupt) -> None:
        sizes = self._stops - self._starts
        work = np.cumsum(sizes[self._pairs].sum(axis=1).astype(float) ** 2)
        ends = np.flatnonzero(np.diff((work / _VALUES_PER_CALL).astype(int), append=-1)) + 1
        outcome = self.status, self.solved_at, self.intercepts
        running = np.empty(0, np.float32 if self.tol >= _TOL_OF_SINGLE else np.float64)
        for begin, end in zip(np.append(0, ends[:-1]), ends, strict=True):
            if interrupt.requested:
                raise KeyboardInterrupt
            follow_pairs(
                self.K, self._pairs, begin, end, self._starts, self._stops, self.costs,
                self.growing, self.tol, running, self.beta, outcome,
            )  # fmt: skip

    def hard(self) -> list[tuple[int, int]]:
        """Pairs that another solver has to go on with, and the C from which on."""
        found = self.status == HARD
        return [(int(pair), int(found[:, pair].argmax())) for pair in np.flatnonzero(found.any(0))]

    def answers(self, at: int) -> list[tuple[np.ndarray, float]]:
        """β and intercept of all pairs at one C."""
        pairs = range(len(self._pairs))
        return [(self.beta_of(at, pair), float(self.intercepts[at, pair])) for pair in pairs]

    def beta_of(self, at: int, pair: int) -> np.ndarray:
        """β of a pair at one C, in the order of its task."""
        return self.beta[at][self._where(pair)]

    def set_beta(self, at: int, pair: int, beta: np.ndarray) -> None:
        self.beta[at][self._where(pair)] = beta

    def _where(self, pair: int) -> tuple[np.ndarray, np.ndarray]:
        """Where the samples of a task are in `beta`."""
        first, second = self._pairs[pair]
        index = self.fold.tasks[pair].index
        of_first = _data(self.fold).codes[index] == first
        return np.where(of_first, second - 1, first), self.samples.place[self.fold.train[index]]

    def decisions(self, samples: np.ndarray) -> np.ndarray:
        """Decision values of these places, of shape (n_C, n_pairs, n_samples).

        Kernel values with the support vectors of a class, times its coefficients, are what it
        adds to its pairs, for all C at once.
        """
        out = np.zeros((*self.status.shape, len(samples)))
        used = np.flatnonzero(self.beta.any(axis=(0, 1)))
        # Solutions that a smaller C has already are not multiplied once more.
        at, number = np.nonzero(self.solved_at == np.arange(len(out))[:, np.newaxis])
        for rows in split(len(samples), _ROWS):
            values = submatrix(self.K, samples[rows], used)
            for i, (start, stop) in enumerate(zip(self._starts, self._stops, strict=True)):
                a, b = np.searchsorted(used, (start, stop))
                first, second = self._pairs[number].T
                mine = np.flatnonzero((first == i) | (second == i))
                if a == b or len(mine) == 0:
                    continue
                line = np.where(first[mine] == i, second[mine] - 1, first[mine])
                coefficients = self.beta[at[mine], line][:, used[a:b]]
                out[at[mine], number[mine], rows] += coefficients @ values[:, a:b].T
        out = np.take_along_axis(out, self.solved_at[:, :, np.newaxis], axis=0)
        out += self.intercepts[:, :, np.newaxis]
        return out
