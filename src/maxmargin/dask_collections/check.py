"""The examination of an answer by the partitions that stay on their workers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from maxmargin.dask_collections.partitions import Partition, Rows, TravellingSamples, added
from maxmargin.model import kernel_expansion
from maxmargin.optimality import extremes, gap_of
from maxmargin.solvers.hierarchical.subproblem import (
    Support,
    beyond_margin,
    samples_to_readmit,
)

# Violators that a partition sends in one round of readmission.
_MOST_VIOLATORS = 2000


@dataclass(frozen=True, eq=False)
class Extremes:
    """What a partition says of an answer.

    Attributes
    ----------
    highest : the largest p − Kβ of a sample whose β may grow
    lowest : the smallest of one whose β may shrink
    gap : its part of the duality gap
    n_violators : samples with β = 0 that should come back
    evaluations : kernel values that it took
    """

    highest: float
    lowest: float
    gap: float
    n_violators: int
    evaluations: int


@dataclass(frozen=True, eq=False)
class PartitionCheck:
    """What partitions of one worker say of an answer. It stays there, and its parts travel.

    Attributes
    ----------
    extremes : of each partition
    violators : the samples that should come back
    residual : p − Kβ of the samples of each partition with β = 0, NaN where it is not known
    intercept : that of the answer
    """

    extremes: tuple[Extremes, ...]
    violators: Support
    residual: tuple[np.ndarray, ...]
    intercept: float


@dataclass(frozen=True, eq=False)
class CheckRequest:
    """What partitions are asked, as `HierarchicalRun.examine` says it.

    Attributes
    ----------
    number : which of the fit's problems it is about
    provisional : whether samples with β = 0 alone are examined, in single precision
    screening_radius : how far on the right side of its margin a sample is still asked
    """

    number: int
    provisional: bool
    screening_radius: float


def check_partitions(
    samples: TravellingSamples, partitions: list[Partition], request: CheckRequest, answer: Support,
    before: Support | None, last: PartitionCheck | None,
) -> PartitionCheck:  # fmt: skip
    """Evaluate an answer on partitions; `last` is what they said of the one `before`."""
    look = _Checker(samples, request, answer)
    residuals: tuple = (None,) * len(partitions)
    if last is not None:
        residuals = last.residual
        look.start_from(before, last.intercept)
    found = [look.at(partition, known) for partition, known in zip(partitions, residuals)]
    said, violators, residuals = zip(*found)
    return PartitionCheck(said, _joined(violators), residuals, answer.intercept)


def _joined(parts: tuple[Support, ...]) -> Support:
    """Samples with β = 0 of several partitions, in the order of their numbers."""
    numbers = np.concatenate([part.samples for part in parts])
    order = np.argsort(numbers)
    residual = np.concatenate([part.residual for part in parts if part.residual is not None])
    rows = Rows.joined([part.rows for part in parts])
    return Support(numbers[order], np.zeros(len(order)), rows[order], residual[order])


class _Checker:
    """One answer, as partitions look at it."""

    def __init__(self, samples: TravellingSamples, request: CheckRequest, answer: Support):
        self.function, self.request, self.answer = samples.function, request, answer
        self.problem = samples.problems[request.number]
        self._change: Support | None = None
        self._intercept = 0.0

    def start_from(self, before: Support | None, intercept: float) -> None:
        """Evaluate only what changed since an answer, where that is less work and suffices."""
        self._intercept = intercept
        if before is None or not self.request.provisional:
            return
        taken_back = replace(before, beta=-before.beta)
        samples, beta, rows = added([self.answer, taken_back])
        changed = np.flatnonzero(beta)
        if len(changed) < len(self.answer.beta):
            self._change = Support(samples[changed], beta[changed], rows[changed])

    def at(
        self, partition: Partition, last: np.ndarray | None
    ) -> tuple[Extremes, Support, np.ndarray]:
        """What one partition says, its violators, and its part of `PartitionCheck.residual`."""
        rows, answer, provisional = partition.rows, self.answer, self.request.provisional
        members = self.problem.members(rows)
        problem = self.problem.fields(rows[members])
        linear, lower, upper = problem["linear"], problem["lower"], problem["upper"]
        epsilon = problem.get("epsilon", 0.0)
        beta = partition.beta_of(answer)[members]
        outside = beta == 0
        every = np.full(len(beta), np.nan) if last is None else last.copy()
        index = np.arange(len(beta))
        if provisional:
            distance = beyond_margin(every, self._intercept, lower, upper, epsilon)
            near = np.isnan(every) | (distance > -self.request.screening_radius)
            index = np.flatnonzero(outside & near)
        known = np.isfinite(every[index]) & (self._change is not None)
        residual = np.where(known, every[index], linear[index])
        evaluations = self._subtract(residual, known, self._change, rows, members[index[known]])
        evaluations += self._subtract(residual, ~known, answer, rows, members[index[~known]])
        beta, lower, upper = beta[index], lower[index], upper[index]
        level = answer.intercept
        gap = gap_of(beta, residual, lower, upper, epsilon, level, level)
        highest, lowest, *_ = extremes(beta, residual, lower, upper, epsilon, False)
        zero = beta == 0
        index, residual = index[zero], residual[zero]
        every[~outside] = np.nan  # not known, should they drop out
        every[index] = residual
        distance = beyond_margin(residual, level, lower[zero], upper[zero], epsilon)
        back = samples_to_readmit(distance, len(answer.beta))
        chosen = np.sort(back[:_MOST_VIOLATORS])
        found = Extremes(highest, lowest, gap, len(back), evaluations)
        return found, partition.chosen(members[index[chosen]], residual[chosen]), every

    def _subtract(self, residual, where, support: Support | None, rows: Rows, of) -> int:
        """residual[where] −= Kβ of a support at these rows; the kernel values that it took."""
        if support is None or not len(support.beta) or not len(of):
            return 0
        dtype = np.float32 if self.request.provisional else np.float64
        beta = support.beta[:, np.newaxis]
        values = kernel_expansion(self.function, rows.X, support.rows.X, beta, dtype, of)
        residual[where] -= values[:, 0]
        return len(of) * len(support.beta)
