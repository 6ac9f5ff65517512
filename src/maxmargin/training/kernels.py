"""The kernel matrices of a fit: values that its binary problems share are computed once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from maxmargin.kernels.budget import precision_of_rows
from maxmargin.kernels.buffers import BufferPool
from maxmargin.kernels.class_pairs import ClassPairs
from maxmargin.kernels.deferred import cuda_matrices
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import BUILT_IN_KERNELS, KernelFunction
from maxmargin.kernels.in_memory import in_memory
from maxmargin.kernels.interface import KernelMatrix
from maxmargin.kernels.user_values import CallableKernelMatrix, PrecomputedKernelMatrix, call_kernel
from maxmargin.sklearn_private import num_samples


def kernels_of_tasks(
    estimator, data, tasks: Sequence, gamma: float, memory: int, only_values: bool, on_card=False
) -> Iterator[KernelMatrix]:
    """The kernel matrix of each task, made when its turn comes.

    `memory` limits the bytes of kernel values. `only_values` says that the solver uses kernel
    values alone, and no other data: then the values of few samples are computed at once, for all
    tasks. `on_card` says that the samples are to be on a GPU.
    """
    n = data.n
    hold = only_values and not on_card and len(tasks) > 1 and estimator.kernel in BUILT_IN_KERNELS
    all_fit = hold and precision_of_rows(n) == np.float64 and 8 * n * n <= memory
    if hold and not all_fit:
        classes, members = data.class_pairs(tasks)
        if classes and ClassPairs.worth_it([len(part) for part in members], memory):
            kernel = kernel_matrix(estimator, data.X, gamma, memory, np.float64)
            pairs = ClassPairs(kernel, members)
            yield from (pairs.pair(first, second) for first, second in classes)
            return
    if on_card:
        kernel = card_matrix(estimator, data, gamma)
    else:
        kernel = kernel_matrix(estimator, data.X, gamma, memory, precision_of_rows(n))
    kernel.origin.row_buffers = BufferPool(for_many=len(tasks) > 1)
    kernel = in_memory(kernel) if all_fit else kernel
    computed = kernel.evaluations
    for task in tasks:
        whole = len(task.index) == kernel.n  # then they are in their own order
        part = (kernel if whole else kernel.restrict(task.index)).with_own_counter()
        part.counter.add(computed)  # values that all tasks share count for the first
        computed = 0
        yield part


def kernel_matrix(estimator, X, gamma: float, memory: int, dtype) -> KernelMatrix:
    """The kernel matrix of the samples X; of a built-in kernel with values of that type."""
    n, kernel = num_samples(X), estimator.kernel
    if kernel == "precomputed":
        return PrecomputedKernelMatrix(np.asarray(X))
    if callable(kernel):
        if 8 * n * n <= memory:
            return PrecomputedKernelMatrix(call_kernel(kernel, X, X))
        return CallableKernelMatrix(X, kernel)
    function = KernelFunction(kernel, gamma, estimator.coef0, estimator.degree)
    return FeatureKernelMatrix(X, function, dtype)


def card_matrix(estimator, data, gamma: float) -> KernelMatrix:
    """The kernel matrix of the samples, on a GPU."""
    CudaKernelMatrix = cuda_matrices().CudaKernelMatrix
    X = data.X if data.on_card is None else data.on_card
    if estimator.kernel == "precomputed":
        return CudaKernelMatrix(X, None)
    return CudaKernelMatrix(
        X, KernelFunction(estimator.kernel, gamma, estimator.coef0, estimator.degree)
    )
