"""Many classes from binary problems: the split, and the merge into LIBSVM's layout.

Coefficients of one-vs-one are stored as LIBSVM and scikit-learn do: a support
vector of class i has n_classes − 1 coefficients, one for each other class, in
the order of the classes. One-vs-rest has one coefficient per class.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from maxmargin.estimators.tasks import Task
from maxmargin.formulations import (
    LEAST_PART_OF_TOL,
    c_svc,
    divisor_of,
    nu_svc,
    tol_for_margin,
)
from maxmargin.solution import GAVE_UP, Status
from maxmargin.warn import warn_user


@dataclass(frozen=True, eq=False)
class BinaryTask(Task):
    """One binary problem, whose samples of the class `positive` have label +1: its C-SVC."""

    signs: np.ndarray
    positive: int
    negative: int | None  # None: all the other classes

    def name(self, data) -> str:
        """What the report calls it."""
        other = "rest" if self.negative is None else data.classes[self.negative]
        return f"{data.classes[self.positive]} vs {other}"

    def formulate(self, data, scale: float) -> dict:
        linear, lower, upper = c_svc(self.signs, data.costs[self.index], scale)
        labels = data.codes[self.index]
        return {"linear": linear, "lower": lower, "upper": upper, "labels": labels}


@dataclass(frozen=True, eq=False)
class NuBinaryTask(BinaryTask):
    """The same as a ν-SVC; the decision function is divided by ρ, so that the margin is at ±1."""

    nu: float

    def formulate(self, data, scale: float) -> dict:
        problem = nu_svc(self.signs, data.costs[self.index], self.nu)
        return problem | {"labels": data.codes[self.index]}

    def answer(self, outcome):
        rho = self._rho(outcome)
        if outcome.status == Status.CONVERGED:
            self.warn_without_margin(rho, outcome.kkt_violation)
        divisor = float(divisor_of(rho, outcome.kkt_violation))
        return outcome.beta / divisor, outcome.intercept / divisor

    def warn_without_margin(self, rho: float, violation: float) -> None:
        """Say it in one sentence where the optimum has no margin."""
        if not rho > violation:
            warn_user(
                f"NuSVC found no margin between two classes (rho = {rho:.2g}): with "
                f"nu={self.nu:g} and this kernel they overlap, and the scale of the decision "
                "function is arbitrary; raise nu or change the kernel.",
                UserWarning,
            )

    def judged(self, problem, outcome, tol):
        # A tol that was lowered to find the margin may be out of reach.
        reached = outcome.status == Status.STALLED and outcome.kkt_violation <= tol
        return replace(outcome, status=Status.CONVERGED) if reached else outcome

    def lower_tol(self, found, tol):
        return tol_for_margin(self._rho(found), found.kkt_violation, tol, LEAST_PART_OF_TOL * tol)

    def follow_up(self, problem, outcome, run, tol):
        """The same problem with a lower tol, where the margin could be mere violation."""
        if outcome.status != Status.CONVERGED or outcome.kkt_violation > run.tol:
            return None
        if outcome.details.get(GAVE_UP):
            return None
        lower = self.lower_tol(outcome, tol)
        return (problem, replace(run, start=outcome.beta, tol=lower)) if lower < run.tol else None

    def quantities(self, outcome):
        rho = self._rho(outcome)
        return {"nu": float(self.nu), "rho": rho, "C": 1.0 / rho if rho > 0 else np.inf}

    def _rho(self, found) -> float:
        """Half the distance of the levels of the two classes."""
        return 0.5 * (found.levels[1] - found.levels[0])


def members_of_classes(codes: np.ndarray, n_classes: int) -> list[np.ndarray]:
    """The samples of each class, in their own order."""
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(n_classes + 1))
    return [order[start:stop] for start, stop in pairwise(ends)]


@lru_cache(maxsize=1)
def pairs_of_classes(n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """First and second class of each pair, in LIBSVM's order."""
    first, second = np.triu_indices(n_classes, 1)
    for classes in (first, second):
        classes.flags.writeable = False  # all fits share them
    return first, second


class PairTasks(Sequence[BinaryTask]):
    """The tasks of all pairs of classes, each made when it is read: there may be many."""

    def __init__(self, codes: np.ndarray, n_classes: int, nu: float | None = None):
        self._nu, self._codes, self._n_classes = nu, codes, n_classes
        self._first, self._second = pairs_of_classes(n_classes)

    @cached_property
    def _members(self) -> list[np.ndarray]:
        return members_of_classes(self._codes, self._n_classes)

    def __len__(self) -> int:
        return len(self._first)

    def __getitem__(self, at):
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        i, j = int(self._first[at]), int(self._second[at])
        positives, negatives = self._members[i], self._members[j]
        index = np.concatenate([positives, negatives])
        signs = np.repeat([1.0, -1.0], [len(positives), len(negatives)])
        return _task(index, signs, i, j, self._nu)


def binary_tasks(
    codes: np.ndarray, n_classes: int, multi_class: str, nu: float | None = None
) -> Sequence[BinaryTask]:
    """The binary problems of a training set.

    Parameters
    ----------
    codes : class number of each sample, −1 for samples that take no part
    multi_class : "ovo" or "ovr"; two classes are one problem either way
    nu : that of ν-SVC; None for C-SVC
    """
    if multi_class == "ovr" or n_classes == 2:
        # All samples in their own order: nothing has to be copied or gathered.
        everything = np.flatnonzero(codes >= 0)
        other = 1 if n_classes == 2 else None
        return [
            _task(everything, np.where(codes[everything] == i, 1.0, -1.0), i, other, nu)
            for i in range(1 if n_classes == 2 else n_classes)
        ]
    return PairTasks(codes, n_classes, nu)


def _task(index, signs, positive: int, negative: int | None, nu: float | None) -> BinaryTask:
    if nu is None:
        return BinaryTask(index, signs, positive, negative)
    return NuBinaryTask(index, signs, positive, negative, nu)


def merge(
    tasks: Sequence[BinaryTask], betas: list[np.ndarray], codes: np.ndarray, n_classes: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Support vectors of all problems together: (support, n_support, dual_coef)."""
    nonzero = [np.flatnonzero(beta) for beta in betas]
    members = [task.index[place] for task, place in zip(tasks, nonzero, strict=True)]
    used = np.zeros(len(codes), bool)
    used[np.concatenate(members)] = True
    support = np.flatnonzero(used)
    support = support[np.argsort(codes[support], kind="stable")]
    n_support = np.bincount(codes[support], minlength=n_classes).astype(np.int32)
    position = np.empty(len(codes), np.int64)
    position[support] = np.arange(len(support))
    one_vs_one = tasks[0].negative is not None
    dual_coef = np.zeros((n_classes - 1 if one_vs_one else n_classes, len(support)))
    for task, beta, place, samples in zip(tasks, betas, nonzero, members, strict=True):
        line: np.ndarray | int = task.positive
        if task.negative is not None:
            # Class i keeps its coefficient against j > i in row j − 1, and class j in row i.
            line = np.where(codes[samples] == task.positive, task.negative - 1, task.positive)
        dual_coef[line, position[samples]] = beta[place]
    return support, n_support, dual_coef


def coefficients_by_task(dual_coef, n_support: np.ndarray) -> sp.csr_array:
    """The coefficients of the binary decision functions, of shape (n_tasks, n_support_vectors).

    Sparse: a support vector of class i takes part in n_classes − 1 of n_classes (n_classes − 1) / 2
    pairs, and in few of these with a coefficient that is not zero.
    """
    n_classes = len(n_support)
    if dual_coef.shape[0] != n_classes - 1:
        return sp.csr_array(dual_coef)
    entries = sp.coo_array(dual_coef)
    other, vector = entries.coords
    own = np.repeat(np.arange(n_classes), n_support)[vector]
    # Row r of the coefficients of class i belongs to class r, or to class r + 1 from i on.
    first, second = np.minimum(own, other), np.maximum(own, other + 1)
    n_tasks = n_classes * (n_classes - 1) // 2
    shape = n_tasks, dual_coef.shape[1]
    return sp.csr_array((entries.data, (pair_number(first, second, n_classes), vector)), shape)


def blocks_of_classes(
    dual_coef, n_support: np.ndarray, n_tasks: int
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """The coefficients of the binary decision functions, class by class.

    For the support vectors of each class their slice, their coefficients, of shape (n_vectors,
    n_classes − 1), and the pairs that these are for. Else one block for all tasks.
    """
    n_classes = len(n_support)
    dual_coef = dual_coef.toarray() if sp.issparse(dual_coef) else dual_coef
    if n_tasks == 1 or dual_coef.shape[0] != n_classes - 1:
        yield slice(0, dual_coef.shape[1]), dual_coef.T, np.arange(n_tasks)
        return
    ends = np.concatenate([[0], np.cumsum(n_support)])
    for own in range(n_classes):
        other = np.delete(np.arange(n_classes), own)
        tasks = pair_number(np.minimum(own, other), np.maximum(own, other), n_classes)
        part = slice(int(ends[own]), int(ends[own + 1]))
        yield part, dual_coef[:, part].T, tasks


def pair_number(first, second, n_classes: int):
    """The place of a pair of classes among all pairs, as LIBSVM orders them; first < second."""
    return first * (2 * n_classes - first - 1) // 2 + second - first - 1
