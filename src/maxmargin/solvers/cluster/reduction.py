"""The reduced problem of ClusterSVM: samples, and representatives of clusters."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from maxmargin.kernels.interface import KernelMatrix
from maxmargin.kernels.user_values import PrecomputedKernelMatrix
from maxmargin.problem import ROUNDING_OF_BOUND, Problem
from maxmargin.run import Run
from maxmargin.solvers.cluster.averaged_kernel import averaged_kernel

# A C times kernel value up to which a problem is solved at once, not by continuation.
EASY_C = 100.0
# Reduced problems up to this size are solved with float64 kernel values, whatever the type of the
# whole matrix: where C is large, float32 values cost more time in steps than they save.
_DOUBLE_PRECISION_BYTES = 2**29
# Up to this many units all their kernel values in one product cost less than the values that a
# solver requests, a few rows at a time, and then again for its certificate.
_HELD_UNITS = 2048


@dataclass(frozen=True, eq=False)
class Reduction:
    """Which unit of the reduced problem stands for which samples, and with what kernel values.

    Units are samples that take part themselves, then parts of clusters.

    Attributes
    ----------
    owner, capacity : unit of each sample, and what it adds to the unit's bound on |β|
    members, starts, weights : the samples whose weighted means are the units' kernel
        values (`AveragedKernelMatrix`); a single one where they are not averaged
    stands_for_cluster : whether the unit is the pseudo-centre of a cluster
    is_mean : whether the unit is the mean of a part of a cluster
    """

    owner: np.ndarray
    capacity: np.ndarray
    members: np.ndarray
    starts: np.ndarray
    weights: np.ndarray
    stands_for_cluster: np.ndarray
    is_mean: np.ndarray

    @classmethod
    def of(cls, problem: Problem, cluster, averaged, centre, bounds: str) -> Reduction:
        """The reduction by clusters and their averaged parts.

        A pseudo-centre has its "own" bounds, or the "mean" or the "sum" of its cluster's.
        A mean always has the sum (Proposition 2.1).
        """
        alone = np.flatnonzero(cluster < 0)
        grouped = np.flatnonzero(cluster >= 0)
        parts, numbers = np.unique(2 * cluster[grouped] + averaged[grouped], return_inverse=True)
        owner = np.empty(problem.n, np.int64)
        owner[alone] = np.arange(len(alone))
        owner[grouped] = len(alone) + numbers
        is_mean = np.concatenate([np.zeros(len(alone), bool), parts % 2 == 1])
        stands_for_cluster = np.concatenate([np.zeros(len(alone), bool), parts % 2 == 0])
        trained = (cluster < 0) | averaged
        trained[centre[parts[parts % 2 == 0] // 2]] = True
        members = np.flatnonzero(trained)
        members = members[np.argsort(owner[members], kind="stable")]
        sizes = np.bincount(owner[members])
        capacity = width = problem.upper - problem.lower
        if bounds == "own":
            capacity = np.where(trained, width, 0.0)
        elif bounds == "mean":
            capacity = width / np.where(stands_for_cluster, np.bincount(owner), 1)[owner]
        share = width / np.bincount(owner, width)[owner]
        weights = np.where(is_mean[owner[members]], share[members], 1.0)
        starts = np.cumsum(sizes) - sizes
        return cls(owner, capacity, members, starts, weights, stands_for_cluster, is_mean)

    @property
    def first(self) -> np.ndarray:
        """A sample of each unit."""
        return self.members[self.starts]

    @property
    def bound(self) -> np.ndarray:
        """What |β| of each unit can be."""
        return np.bincount(self.owner, self.capacity)

    def problem(
        self, whole: Problem, run: Run, beta: np.ndarray, exact: bool = True
    ) -> tuple[Problem, Run]:
        """The reduced problem and its run; a unit starts with the β of all its samples together.

        Unless it is to be `exact`, kernel values may stay in the precision of the rows.
        """
        n = len(self.starts)
        bound = self.bound
        positive = whole.upper[self.first] > 0
        kernel, memory = self._kernel(whole, run.cache_bytes, exact)
        reduced = Problem(
            kernel,
            linear=whole.linear[self.first],
            lower=np.where(positive, 0.0, -bound),
            upper=np.where(positive, bound, 0.0),
            labels=None if whole.labels is None else whole.labels[self.first],
        )
        start = np.bincount(self.owner, beta, n) if beta.any() else None
        return reduced, replace(run, cache_bytes=memory, start=start, start_residual=None)

    def _kernel(self, whole: Problem, cache_bytes: int, exact: bool) -> tuple[KernelMatrix, int]:
        """The kernel matrix of the units, and the memory that it leaves to the base solver."""
        n = len(self.starts)
        if len(self.members) > n:
            held = min(cache_bytes // 2, _DOUBLE_PRECISION_BYTES)
            kernel = averaged_kernel(whole.kernel, self.members, self.starts, self.weights, held)
            return kernel, cache_bytes - (8 * n * n if 8 * n * n <= held else 0)
        kernel = whole.kernel.restrict(self.members)
        fits = 8 * n * n <= min(cache_bytes, _DOUBLE_PRECISION_BYTES)
        if fits and hardness(kernel, whole) > EASY_C:
            kernel = whole.kernel.restrict(self.members, np.float64)
        elif fits and not exact and n <= _HELD_UNITS:
            values = kernel.block(np.arange(n))
            return PrecomputedKernelMatrix(values, parent=kernel), cache_bytes - values.nbytes
        return kernel, cache_bytes

    def distribute(self, beta: np.ndarray) -> np.ndarray:
        """β of all samples: each has its share of its unit's (Proposition 2.1)."""
        return self.capacity * (beta / self.bound)[self.owner]

    def contradicted(self, beta: np.ndarray) -> np.ndarray:
        """Samples of the units that do not stand for what they should.

        A mean that is not at its bound does not stand for boundary support vectors, nor
        a pseudo-centre that is at its own for samples that are no support vectors.
        """
        at_bound = np.abs(beta) >= (1 - ROUNDING_OF_BOUND) * self.bound
        return np.where(self.is_mean, ~at_bound, self.stands_for_cluster & at_bound)[self.owner]

    def expansion(self, beta: np.ndarray) -> np.ndarray:
        """Coefficients of the decision function that the units' β define, one per sample."""
        sizes = np.diff(np.append(self.starts, len(self.members)))
        coefficients = np.zeros(len(self.owner))
        coefficients[self.members] = np.repeat(beta, sizes) * self.weights
        return coefficients


def hardness(kernel: KernelMatrix, problem: Problem) -> float:
    """A typical C times a typical kernel value: steps that bring a sample to its bound."""
    return float(np.median(problem.upper - problem.lower) * kernel.diagonal().mean())
