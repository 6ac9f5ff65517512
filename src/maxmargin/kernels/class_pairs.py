"""Kernel matrices of all pairs of classes of few samples, with shared values."""

from __future__ import annotations

import numpy as np

from maxmargin.kernels.budget import precision_of_rows
from maxmargin.kernels.in_memory import VALUE_BYTES, BufferLease, InMemoryKernel
from maxmargin.kernels.interface import KernelMatrix


class ClassPairs:
    """The matrices of all pairs of classes, in the order of the first one.

    The block of values between two classes is needed by their own pair alone, the values
    within a class by all its pairs: each is computed once. The blocks of a class with the
    classes after it are computed together.
    """

    def __init__(self, kernel: KernelMatrix, members: list[np.ndarray]):
        self._kernel, self._members = kernel, members
        self._sizes = [len(samples) for samples in members]
        self._lease = BufferLease()
        self._memory = self._lease.values(_values_of_pairs(self._sizes))
        self._within: dict[int, np.ndarray] = {}
        self._first = -1

    @staticmethod
    def worth_it(sizes: list[int], memory: int) -> bool:
        """Whether classes of these sizes are small enough, and their values fit the memory."""
        # For larger pairs float32 rows are faster, in SMO steps as well.
        small = precision_of_rows(sum(sorted(sizes)[-2:])) == np.float64
        return small and VALUE_BYTES * _values_of_pairs(sizes) <= memory

    def pair(self, first: int, second: int) -> InMemoryKernel:
        before, m = self._kernel.evaluations, self._sizes[first]
        positions = np.concatenate([self._members[first], self._members[second]])
        part = InMemoryKernel(len(positions), positions)
        between, K = self._between(first, second), part.as_array()
        K[:m, :m], K[m:, m:] = self._within_class(first), self._within_class(second)
        K[:m, m:], K[m:, :m] = between, between.T
        part.counter.add(self._kernel.evaluations - before)
        return part

    def _within_class(self, number: int) -> np.ndarray:
        """Values of the samples of a class with each other."""
        if number not in self._within:
            n = self._sizes[number]
            before = sum(m * m for m in self._sizes[:number])
            values = self._memory[before : before + n * n].reshape(n, n)
            members = self._members[number]
            self._kernel.block(members, members, out=values)
            self._within[number] = values
        return self._within[number]

    def _between(self, first: int, second: int) -> np.ndarray:
        """Values of the samples of one class with those of a later one."""
        n = self._sizes[first]
        if first != self._first:
            after = np.concatenate(self._members[first + 1 :])
            start = sum(m * m for m in self._sizes)
            self._rows = self._memory[start : start + n * len(after)].reshape(n, -1)
            self._kernel.block(self._members[first], after, out=self._rows)
            self._first = first
        start = sum(self._sizes[first + 1 : second])
        return self._rows[:, start : start + self._sizes[second]]


def _values_of_pairs(sizes: list[int]) -> int:
    """Values in memory at the same time: within all classes, and of one class with the others."""
    return sum(m * m for m in sizes) + max(sizes) * sum(sizes)
