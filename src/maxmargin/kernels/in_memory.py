"""Kernel matrices of small problems, with all their values in memory in float64."""

from __future__ import annotations

import numpy as np

from maxmargin.kernels._rows import gather_block
from maxmargin.kernels.buffers import Returned, borrow
from maxmargin.kernels.feature_matrix import KernelMatrix, precision_of_rows

# Memory of this size is not worth borrowing.
_SMALL_BYTES = 2**17
_VALUE_BYTES = 8


class _Tenant:
    """Lives as long as one of those who read the memory that was borrowed for it."""


def _values(n_values: int, tenant: _Tenant) -> np.ndarray:
    n_bytes = n_values * _VALUE_BYTES
    small = n_bytes <= _SMALL_BYTES
    memory = np.empty(n_bytes, np.uint8) if small else borrow(n_bytes, tenant, Returned())
    return memory.view(np.float64)


class HeldKernelMatrix(KernelMatrix):
    """All values of n samples, written by its maker; a subset has a copy of its part of them."""

    dtype = np.dtype(np.float64)

    def __init__(self, n: int, positions: np.ndarray, parent: KernelMatrix | None = None):
        super().__init__(parent)
        self.n, self._positions = n, positions
        self._tenant = _Tenant()
        self._K = _values(n * n, self._tenant).reshape(n, n)

    @classmethod
    def of(cls, kernel: KernelMatrix) -> HeldKernelMatrix:
        """The same matrix as another one, all of it computed now."""
        held = cls(kernel.n, kernel.positions(), kernel)
        kernel.rows(np.arange(kernel.n), held._K)
        held.source = kernel
        return held

    def held(self):
        return self

    def in_memory(self):
        return self._K

    def positions(self):
        return self._positions

    def diagonal(self):
        return self._K.diagonal()

    def rows(self, index, out, slots=None):
        out[slice(len(index)) if slots is None else slots, : self.n] = self._K[index]

    def cross(self, index, columns, out, slots):
        gather_block(self._K, index, columns.astype(np.uint32), out, slots)

    def product(self, index, coefficients):
        return coefficients @ self._K[index]

    def partial_product(self, rows, index, coefficients):
        return self._K[rows][:, index] @ coefficients

    def columns(self, index):
        return self._K[:, index]

    def block(self, index):
        return self._K[index].take(index, axis=1)

    def restrict(self, index):
        part = HeldKernelMatrix(len(index), self._positions[index], self)
        self.cross(index, index, part._K, np.arange(len(index)))
        return part


class PairsOfClasses:
    """The matrices of all pairs of classes, in the order of the first one.

    Two classes have one block of values, which only their own pair wants, while the
    values within a class are wanted by all its pairs: each is computed once. The blocks of
    a class with those after it are computed together.
    """

    def __init__(self, kernel: KernelMatrix, members: list[np.ndarray]):
        self._kernel, self._members = kernel, members
        self._sizes = [len(samples) for samples in members]
        self._tenant = _Tenant()
        self._memory = _values(_values_of_pairs(self._sizes), self._tenant)
        self._within: dict[int, np.ndarray] = {}
        self._first = -1

    @staticmethod
    def worth_it(sizes: list[int], memory: int) -> bool:
        """Whether classes of these sizes are small enough for it, and for the memory."""
        # Float32 rows are the faster ones for larger pairs, in pair steps as well.
        small = precision_of_rows(sum(sorted(sizes)[-2:])) == np.float64
        return small and _VALUE_BYTES * _values_of_pairs(sizes) <= memory

    def pair(self, first: int, second: int) -> HeldKernelMatrix:
        before, m = self._kernel.evaluations, self._sizes[first]
        positions = np.concatenate([self._members[first], self._members[second]])
        part = HeldKernelMatrix(len(positions), positions)
        between, K = self._between(first, second), part.in_memory()
        K[:m, :m], K[m:, m:] = self._within_class(first), self._within_class(second)
        K[:m, m:], K[m:, :m] = between, between.T
        part.count(self._kernel.evaluations - before)
        return part

    def _within_class(self, number: int) -> np.ndarray:
        """Values of the samples of a class with each other."""
        if number not in self._within:
            n = self._sizes[number]
            before = sum(m * m for m in self._sizes[:number])
            values = self._memory[before : before + n * n].reshape(n, n)
            members = self._members[number]
            self._kernel.cross(members, members, values, np.arange(n))
            self._within[number] = values
        return self._within[number]

    def _between(self, first: int, second: int) -> np.ndarray:
        """Values of the samples of one class with those of a later one."""
        n = self._sizes[first]
        if first != self._first:
            after = np.concatenate(self._members[first + 1 :])
            start = sum(m * m for m in self._sizes)
            self._rows = self._memory[start : start + n * len(after)].reshape(n, -1)
            self._kernel.cross(self._members[first], after, self._rows, np.arange(n))
            self._first = first
        start = sum(self._sizes[first + 1 : second])
        return self._rows[:, start : start + self._sizes[second]]


def _values_of_pairs(sizes: list[int]) -> int:
    """Values that are held at the same time: those within classes, those of one with others."""
    return sum(m * m for m in sizes) + max(sizes) * sum(sizes)
