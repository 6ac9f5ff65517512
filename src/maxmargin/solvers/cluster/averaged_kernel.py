"""The kernel matrix after groups of samples were replaced by their weighted means.

The mean is taken in the kernel's feature space, where it has no pre-image in
general; its kernel values are means of rows and columns (Boley and Cao,
Proposition 2.1 and the remark that follows it).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.interface import KernelMatrix, put
from maxmargin.kernels.user_values import PrecomputedKernelMatrix
from maxmargin.parallel import split

# Members of units whose kernel values are averaged at a time.
_TILE_ROWS = 256


def averaged_kernel(kernel: KernelMatrix, members, starts, weights, n_bytes: int) -> KernelMatrix:
    """The averaged matrix: computed once where it fits `n_bytes`, else block by block."""
    if isinstance(kernel, FeatureKernelMatrix) and kernel.function.name == "linear":
        return _linear_kernel_of_means(kernel, members, starts, weights)
    averaged = AveragedKernelMatrix(kernel, members, starts, weights)
    if 8 * averaged.n**2 > n_bytes:
        return averaged
    values = averaged.block(np.arange(averaged.n))
    return PrecomputedKernelMatrix(0.5 * (values + values.T), parent=kernel)


def _linear_kernel_of_means(kernel, members, starts, weights) -> KernelMatrix:
    """Where the feature space is that of the samples, the means are samples like any other."""
    ends = np.append(starts, len(members))
    means = sp.csr_array((weights, members, ends), shape=(len(starts), kernel.n))
    averaged = FeatureKernelMatrix(means @ kernel.features(), kernel.function, np.float64)
    averaged.share_counter(kernel)
    return averaged


class AveragedKernelMatrix(KernelMatrix):
    """K̄_gh = Σ_i∈g Σ_j∈h w_i w_j K_ij; a group of one sample is that sample.

    Parameters
    ----------
    members : samples of the first group, then those of the second, …
    starts : where each group begins in `members`; none is empty
    weights : of the members; they sum to one in each group
    """

    def __init__(self, kernel: KernelMatrix, members, starts, weights):
        super().__init__(kernel)
        self._of_members = kernel.restrict(members, np.float64)
        self._starts, self._weights = starts, weights
        self._sizes = np.diff(np.append(starts, len(members)))
        self.n, self.dtype = len(starts), np.dtype(np.float64)

    def block(self, rows, columns=None, dtype=None, out=None, slots=None):
        if columns is not None:
            return put(self.block(rows)[:, columns], out, slots)
        members = self._members_of(rows)
        target = np.repeat(np.arange(len(rows)), self._sizes[rows])
        values = np.zeros((len(rows), self.n))
        for part in split(len(members), _TILE_ROWS):
            tile = self._of_members.block(members[part])
            tile *= self._weights
            averaged = np.add.reduceat(tile, self._starts, axis=1)
            averaged *= self._weights[members[part], np.newaxis]
            np.add.at(values, target[part], averaged)
        return put(values, out, slots)

    def diagonal(self):
        diagonal = self._of_members.diagonal()[self._starts]
        for group in np.flatnonzero(self._sizes > 1):
            index = np.array([group])
            diagonal[group] = self.multiply(index, np.ones(1), index)[0]
        return diagonal

    def multiply(self, index, coefficients, rows=None, precise=False):
        members = self._members_of(index)
        shares = np.repeat(coefficients, self._sizes[index]) * self._weights[members]
        if rows is None:
            products = self._of_members.multiply(members, shares, precise=True)
            return np.add.reduceat(products * self._weights, self._starts)
        targets = self._members_of(rows)
        products = self._of_members.multiply(members, shares, targets, precise=True)
        return np.add.reduceat(products * self._weights[targets], self._starts_of(rows))

    def restrict(self, index, dtype=None):
        members, starts = self._members_of(index), self._starts_of(index)
        return AveragedKernelMatrix(self._of_members, members, starts, self._weights[members])

    def _starts_of(self, index) -> np.ndarray:
        """Where each of the groups `index` begins among their members."""
        return np.concatenate([[0], np.cumsum(self._sizes[index])[:-1]])

    def _members_of(self, index) -> np.ndarray:
        """Members of the groups `index`, one group after the other."""
        sizes = self._sizes[index]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return np.repeat(self._starts[index], sizes) + within
