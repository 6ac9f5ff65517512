"""Many classes from binary problems: the split, and the merge into LIBSVM's layout.

Coefficients of one-vs-one are stored as LIBSVM and scikit-learn do: a support
vector of class i has n_classes − 1 coefficients, one for each other class, in
the order of the classes. One-vs-rest has one coefficient a class.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from maxmargin.formulations import c_svc, n_at_largest_cost


@dataclass(frozen=True, eq=False)
class BinaryTask:
    """One binary problem: samples `index`, of which those of `positive` have label +1."""

    positive: int
    negative: int | None  # None: all the other classes
    index: np.ndarray
    signs: np.ndarray

    def name(self, data) -> str:
        """What the report calls it."""
        other = "rest" if self.negative is None else data.classes[self.negative]
        return f"{data.classes[self.positive]} vs {other}"

    def formulate(self, data, scale: float) -> dict:
        """Its C-SVC: the fields of a `Problem` but for the kernel, whose values have that scale."""
        linear, lower, upper = c_svc(self.signs, data.costs[self.index], scale)
        labels = data.codes[self.index]
        return {"linear": linear, "lower": lower, "upper": upper, "labels": labels}

    def n_beyond_bounds(self, data, beta: np.ndarray, scale: float) -> int:
        """Samples whose C is too large to be a bound, and that would need it."""
        return n_at_largest_cost(beta, data.costs[self.index], scale)


def members_of_classes(codes: np.ndarray, n_classes: int) -> list[np.ndarray]:
    """The samples of each class, in their own order."""
    return [np.flatnonzero(codes == code) for code in range(n_classes)]


def binary_tasks(codes: np.ndarray, n_classes: int, multi_class: str) -> list[BinaryTask]:
    """The binary problems of a training set.

    Parameters
    ----------
    codes : class number of each sample, −1 for samples that take no part
    multi_class : "ovo" or "ovr"; two classes are one problem either way
    """
    if multi_class == "ovr" or n_classes == 2:
        # All samples in their own order: nothing has to be copied or gathered.
        everything = np.flatnonzero(codes >= 0)
        other = 1 if n_classes == 2 else None
        return [
            BinaryTask(i, other, everything, np.where(codes[everything] == i, 1.0, -1.0))
            for i in range(1 if n_classes == 2 else n_classes)
        ]
    members = members_of_classes(codes, n_classes)
    return [_task(i, j, members[i], members[j]) for i, j in combinations(range(n_classes), 2)]


def _task(positive, negative, positives, negatives) -> BinaryTask:
    index = np.concatenate([positives, negatives])
    signs = np.repeat([1.0, -1.0], [len(positives), len(negatives)])
    return BinaryTask(positive, negative, index, signs)


def merge(
    tasks: list[BinaryTask], betas: list[np.ndarray], codes: np.ndarray, n_classes: int
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


def coefficients_by_task(dual_coef: np.ndarray, n_support: np.ndarray, n_tasks: int) -> np.ndarray:
    """The (n_support_vectors, n_tasks) coefficients of the binary decision functions."""
    n_classes = len(n_support)
    if dual_coef.shape[0] != n_classes - 1:
        return np.ascontiguousarray(dual_coef.T)
    ends = np.concatenate([[0], np.cumsum(n_support)])
    coefficients = np.zeros((dual_coef.shape[1], n_tasks))
    for task, (i, j) in enumerate(combinations(range(n_classes), 2)):
        of_i, of_j = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
        coefficients[of_i, task] = dual_coef[j - 1, of_i]
        coefficients[of_j, task] = dual_coef[i, of_j]
    return coefficients


def votes(decisions: np.ndarray, n_classes: int) -> np.ndarray:
    """The class with most pairwise wins; of equals the first, as in LIBSVM."""
    count = np.zeros((len(decisions), n_classes), np.int64)
    for task, (i, j) in enumerate(combinations(range(n_classes), 2)):
        first_wins = decisions[:, task] > 0
        count[:, i] += first_wins
        count[:, j] += ~first_wins
    return np.argmax(count, axis=1)
