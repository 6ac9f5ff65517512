"""The examination of an answer by the partitions that stay on their workers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from maxmargin.dask_collections.partitions import Partition, Rows, TravellingSamples, added
from maxmargin.formulations import c_svc
from maxmargin.model import kernel_expansion
from maxmargin.optimality import gap_of
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
    margin_violation : how far the samples of each partition are on the wrong side of their
        margin, ∞ where that is not known
    intercept : that of the answer
    """

    extremes: tuple[Extremes, ...]
    violators: Support
    margin_violation: tuple[np.ndarray, ...]
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
    distances: tuple = (None,) * len(partitions)
    if last is not None:
        distances = last.margin_violation
        look.start_from(before, last.intercept)
    found = [look.at(partition, distance) for partition, distance in zip(partitions, distances)]
    extremes, violators, distances = zip(*found)
    return PartitionCheck(extremes, _joined(violators), distances, answer.intercept)


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
        self.pair = samples.pairs[request.number]
        self._change: Support | None = None
        self._intercept = 0.0

    def start_from(self, before: Support | None, intercept: float) -> None:
        """Evaluate only what changed since an answer, where that is less work and suffices."""
        if before is None or not self.request.provisional:
            return
        taken_back = replace(before, beta=-before.beta)
        samples, beta, rows = added([self.answer, taken_back])
        changed = np.flatnonzero(beta)
        if len(changed) < len(self.answer.beta):
            self._change = Support(samples[changed], beta[changed], rows[changed])
            self._intercept = intercept

    def at(
        self, partition: Partition, distance: np.ndarray | None
    ) -> tuple[Extremes, Support, np.ndarray]:
        """What one partition says, its violators, and its part of `PartitionCheck.beyond`."""
        rows, answer, provisional = partition.rows, self.answer, self.request.provisional
        members = partition.members(self.pair)
        positive = rows.codes[members] == self.pair[0]
        linear, lower, upper = c_svc(np.where(positive, 1.0, -1.0), rows.costs[members])
        beta = partition.beta_of(answer)[members]
        outside = beta == 0
        distance = np.full(len(beta), np.inf) if distance is None else distance.copy()
        index = np.arange(len(beta))
        if provisional:
            index = np.flatnonzero(outside & (distance > -self.request.screening_radius))
        known = np.zeros(len(index), bool) if self._change is None else np.isfinite(distance[index])
        residual = linear[index]
        old, new = index[known], index[~known]
        residual[known] = self._intercept + np.where(positive[old], distance[old], -distance[old])
        evaluations = self._subtract(residual, known, self._change, rows, members[old])
        evaluations += self._subtract(residual, ~known, answer, rows, members[new])
        beta, lower, upper = beta[index], lower[index], upper[index]
        gap = gap_of(beta, residual, lower, upper, 0.0, answer.intercept, answer.intercept)
        highest = float(np.max(residual[beta < upper], initial=-np.inf))
        lowest = float(np.min(residual[beta > lower], initial=np.inf))
        zero = beta == 0
        index, residual = index[zero], residual[zero]
        distance[~outside] = np.inf  # not known, should they drop out
        distance[index] = beyond_margin(residual, answer.intercept, lower[zero], upper[zero])
        back = samples_to_readmit(distance[index], len(answer.beta))
        chosen = np.sort(back[:_MOST_VIOLATORS])
        extremes = Extremes(highest, lowest, gap, len(back), evaluations)
        return extremes, partition.chosen(members[index[chosen]], residual[chosen]), distance

    def _subtract(self, residual, where, support: Support | None, rows: Rows, of) -> int:
        """residual[where] −= Kβ of a support at these rows; the kernel values that it took."""
        if support is None or not len(support.beta) or not len(of):
            return 0
        dtype = np.float32 if self.request.provisional else np.float64
        beta = support.beta[:, np.newaxis]
        values = kernel_expansion(self.function, rows.X, support.rows.X, beta, dtype, of)
        residual[where] -= values[:, 0]
        return len(of) * len(support.beta)
