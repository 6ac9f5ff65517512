"""The reduced problem of ClusterSVM: samples, and representatives of clusters."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from maxmargin.kernels.averaged import averaged_kernel
from maxmargin.kernels.matrix import KernelMatrix
from maxmargin.problem import Problem
from maxmargin.solvers._partition import pseudo_centre

# A C times kernel value up to which a problem is solved at once, not by continuation.
EASY_C = 100.0
# Reduced problems up to this size are solved with float64 kernel values, whatever the whole has:
# where C is large, float32 ones cost more steps than they save time.
_DOUBLE_PRECISION_BYTES = 2**29


@dataclass(frozen=True, eq=False)
class Reduction:
    """Which unit of the reduced problem stands for which samples, and with what kernel values.

    Units are samples that take part themselves, then parts of clusters.

    Attributes
    ----------
    owner, share : unit of each sample, and its part of the unit's β and bounds
    members, starts, weights : the samples whose weighted means are the units' kernel
        values (`AveragedKernelMatrix`); a single one where they are not averaged
    stands_for_cluster : whether the unit is the pseudo-centre of a cluster
    """

    owner: np.ndarray
    share: np.ndarray
    members: np.ndarray
    starts: np.ndarray
    weights: np.ndarray
    stands_for_cluster: np.ndarray

    @classmethod
    def of(cls, problem: Problem, cluster, averaged, features, own_bounds: bool) -> Reduction:
        """The reduction by clusters and their averaged parts.

        A pseudo-centre has the bounds of its whole cluster, or its own alone.
        """
        alone = np.flatnonzero(cluster < 0)
        grouped = np.flatnonzero(cluster >= 0)
        owner = np.empty(problem.n, np.int64)
        owner[alone] = np.arange(len(alone))
        parts, numbers = np.unique(2 * cluster[grouped] + averaged[grouped], return_inverse=True)
        owner[grouped] = len(alone) + numbers
        order = grouped[np.argsort(numbers, kind="stable")]
        of_parts = np.split(order, np.cumsum(np.bincount(numbers))[:-1]) if len(parts) else []
        is_mean = np.concatenate([np.zeros(len(alone), bool), parts % 2 == 1])
        chosen = [
            part if mean else part[[pseudo_centre(features[part])]]
            for part, mean in zip(of_parts, is_mean[len(alone) :])
        ]
        members = np.concatenate([alone, *chosen])
        sizes = np.array([1] * len(alone) + [len(part) for part in chosen])
        room = problem.upper - problem.lower
        if own_bounds:
            room = np.where(np.isin(np.arange(problem.n), members), room, 0.0)
        share = room / np.bincount(owner, room)[owner]
        weights = np.where(np.repeat(is_mean, sizes), share[members], 1.0)
        stands = ~is_mean & (np.arange(len(sizes)) >= len(alone))
        return cls(owner, share, members, np.cumsum(sizes) - sizes, weights, stands)

    @property
    def first(self) -> np.ndarray:
        """A sample of each unit."""
        return self.members[self.starts]

    def problem(self, whole: Problem, beta: np.ndarray) -> Problem:
        """The reduced problem; a unit has the bounds and the start of all its samples together."""
        n = len(self.starts)
        kernel, memory = self._kernel(whole)
        return replace(
            whole,
            kernel=kernel,
            linear=whole.linear[self.first],
            lower=np.bincount(self.owner, np.where(self.share > 0, whole.lower, 0.0), n),
            upper=np.bincount(self.owner, np.where(self.share > 0, whole.upper, 0.0), n),
            cache_bytes=memory,
            start=np.bincount(self.owner, beta, n) if beta.any() else None,
            groups=None if whole.groups is None else whole.groups[self.first],
        )

    def _kernel(self, whole: Problem) -> tuple[KernelMatrix, int]:
        """The kernel matrix of the units, and the memory that it leaves to the base solver."""
        n_bytes = 8 * len(self.starts) ** 2
        if len(self.members) == len(self.starts):
            kernel = whole.kernel.restrict(self.members)
            fits = n_bytes <= min(whole.cache_bytes, _DOUBLE_PRECISION_BYTES)
            if fits and hardness(kernel, whole) > EASY_C:
                kernel = whole.kernel.restrict_in_double(self.members)
            return kernel, whole.cache_bytes
        held = min(whole.cache_bytes // 2, _DOUBLE_PRECISION_BYTES)
        kernel = averaged_kernel(whole.kernel, self.members, self.starts, self.weights, held)
        return kernel, whole.cache_bytes - (n_bytes if n_bytes <= held else 0)

    def spread(self, beta: np.ndarray) -> np.ndarray:
        """β of all samples: each has its share of its unit's (Proposition 2.1)."""
        return self.share * beta[self.owner]

    def expansion(self, beta: np.ndarray) -> np.ndarray:
        """Coefficients of the decision function that the units' β define, one a sample."""
        sizes = np.diff(np.append(self.starts, len(self.members)))
        coefficients = np.zeros(len(self.owner))
        coefficients[self.members] = np.repeat(beta, sizes) * self.weights
        return coefficients


def hardness(kernel: KernelMatrix, problem: Problem) -> float:
    """A typical C times a typical kernel value: steps that bring a sample to its bound."""
    return float(np.median(problem.upper - problem.lower) * kernel.diagonal().mean())
