"""The examination of an answer by the partitions that stay on their workers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from maxmargin.dask_collections.partitions import (
    Partition,
    Rows,
    TravellingSamples,
    added,
    without_rows,
)
from maxmargin.model import kernel_expansion
from maxmargin.optimality import extremes, gap_of
from maxmargin.solution import STOPPED
from maxmargin.solvers.hierarchical.subproblem import (
    Support,
    Task,
    beyond_margin,
    samples_to_readmit,
    solve_union,
)

# Violators that a partition sends in one round of readmission.
_MOST_VIOLATORS = 2000


@dataclass(frozen=True, eq=False)
class Extremes:
    """The examination of an answer by one partition.

    Attributes
    ----------
    highest : the largest p − Kβ of a sample whose β may grow
    lowest : the smallest of one whose β may shrink
    gap : its part of the duality gap
    n_violators : samples with β = 0 to readmit
    evaluations : kernel values that it took
    """

    highest: float
    lowest: float
    gap: float
    n_violators: int
    evaluations: int


@dataclass(frozen=True, eq=False)
class Verdict:
    """The examination of an answer by the partitions of one worker, as it travels.

    Attributes
    ----------
    extremes : of each partition
    violators : the samples to readmit
    """

    extremes: tuple[Extremes, ...]
    violators: Support

    def __sizeof__(self) -> int:
        return self.violators.__sizeof__()


@dataclass(frozen=True, eq=False)
class PartitionCheck:
    """A verdict, and the state that the next one starts from. It stays on its worker.

    Attributes
    ----------
    verdict : what travels
    residual : p − Kβ of the samples of each partition with β = 0, NaN where it is not known
    intercept : that of the answer
    """

    verdict: Verdict
    residual: tuple[np.ndarray, ...]
    intercept: float

    def __sizeof__(self) -> int:
        return self.verdict.__sizeof__() + sum(each.nbytes for each in self.residual)


@dataclass(frozen=True, eq=False)
class CheckRequest:
    """The request to examine an answer; see `HierarchicalRun.examine`.

    Attributes
    ----------
    number : which of the fit's problems it is about
    provisional : whether samples with β = 0 alone are examined, in single precision, unless the
        solver was stopped
    screening_radius : how far on the right side of its margin a sample is still asked
    """

    number: int
    provisional: bool
    screening_radius: float


def check_partitions(
    samples: TravellingSamples, partitions: list[Partition], request: CheckRequest, answer: Support,
    before: Support | None, last: PartitionCheck | None,
) -> PartitionCheck:  # fmt: skip
    """Examine an answer on partitions; `last` is their examination of the answer `before`."""
    look = _Checker(samples, request, answer)
    residuals: tuple = (None,) * len(partitions)
    if last is not None:
        residuals = last.residual
        look.start_from(before, last.intercept)
    found = [look.at(partition, known) for partition, known in zip(partitions, residuals)]
    said, violators, residuals = zip(*found)
    return PartitionCheck(Verdict(said, _joined(violators)), residuals, answer.intercept)


def heads(verdicts: list[Verdict], answer: Support) -> tuple[list[tuple[Extremes, ...]], Support]:
    """What the client needs: the extremes of all partitions, and the answer without its rows."""
    return [verdict.extremes for verdict in verdicts], without_rows(answer)


def solve_readmission(
    samples: TravellingSamples, answer: Support, verdicts: list[Verdict], task: Task
) -> Support:
    """The subproblem of an answer and of the samples to readmit."""
    return solve_union(samples, [answer, *(verdict.violators for verdict in verdicts)], task)


def _joined(parts: tuple[Support, ...]) -> Support:
    """Samples with β = 0 of several partitions, in the order of their numbers."""
    numbers = np.concatenate([part.samples for part in parts])
    order = np.argsort(numbers)
    residual = np.concatenate([part.residual for part in parts if part.residual is not None])
    rows = Rows.joined([part.rows for part in parts])
    return Support(numbers[order], np.zeros(len(order)), rows[order], residual[order])


class _Checker:
    """Examines one answer on one partition after the other."""

    def __init__(self, samples: TravellingSamples, request: CheckRequest, answer: Support):
        self.function, self.request, self.answer = samples.function, request, answer
        self.provisional = request.provisional and answer.status not in STOPPED
        self.problem = samples.problems[request.number]
        self._change: Support | None = None
        self._intercept = 0.0

    def start_from(self, before: Support | None, intercept: float) -> None:
        """Evaluate only the change since an earlier answer, if that suffices and is less work."""
        self._intercept = intercept
        if before is None or not self.provisional:
            return
        taken_back = replace(before, beta=-before.beta)
        samples, beta, rows = added([self.answer, taken_back])
        changed = np.flatnonzero(beta)
        if len(changed) < len(self.answer.beta):
            self._change = Support(samples[changed], beta[changed], rows[changed])

    def at(
        self, partition: Partition, last: np.ndarray | None
    ) -> tuple[Extremes, Support, np.ndarray]:
        """Extremes and violators of one partition, and its part of `PartitionCheck.residual`."""
        rows, answer, provisional = partition.rows, self.answer, self.provisional
        members = self.problem.members(rows)
        problem = self.problem.fields(rows.without_features(members))
        linear, lower, upper = problem["linear"], problem["lower"], problem["upper"]
        epsilon = problem.get("epsilon", 0.0)
        beta = partition.of_rows(answer, answer.beta, 0.0)[members]
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
        certified = self._certified(partition, members[index])
        asked = ~known & np.isnan(certified)
        evaluations += self._subtract(residual, asked, answer, rows, members[index[asked]])
        residual = np.where(known | asked, residual, certified)
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

    def _certified(self, partition: Partition, of: np.ndarray) -> np.ndarray:
        """p − Kβ of these rows, where the certificate of the union has it in float64, else NaN."""
        answer = self.answer
        if self.provisional or not answer.proven or answer.residual is None:
            return np.full(len(of), np.nan)
        return partition.of_rows(answer, answer.residual, np.nan)[of]

    def _subtract(self, residual, where, support: Support | None, rows: Rows, of) -> int:
        """residual[where] −= Kβ of a support at these rows; the kernel values that it took."""
        if support is None or not len(support.beta) or not len(of):
            return 0
        dtype = np.float32 if self.provisional else np.float64
        beta = support.beta[:, np.newaxis]
        values = kernel_expansion(self.function, rows.X, support.rows.X, beta, dtype, of)
        residual[where] -= values[:, 0]
        return len(of) * len(support.beta)
