"""All binary problems of a fit as one job, on the session's threads.

Kernel values are computed in float64, and only once: all of them beforehand where most will be
wanted, else the rows that steps ask for. Each thread works on problems of its own inside compiled
code. What turns out to be hard is left to another solver.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from maxmargin import constants
from maxmargin.clock import working_time
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.in_memory import BufferLease, InMemoryKernel
from maxmargin.kernels.interface import KernelMatrix
from maxmargin.parallel import n_threads, run_blocks
from maxmargin.solvers.common.interior_point import CLOSE, steps_before, steps_of_row
from maxmargin.solvers.common.pair_steps import diagonal_for_gains
from maxmargin.solvers.pairs.copies import type_of_copies
from maxmargin.solvers.pairs.few import SMALL
from maxmargin.solvers.pairs.linear import solve_linear
from maxmargin.solvers.pairs.problems import MANY_STEPS, STEP_BUDGET, solve_problems

# Problems of few samples leave hardly a kernel value unused; those of twice as many samples leave
# some, which cost less than rows one by one as long as the matrix is small.
_FEW_SAMPLES = 64
# Samples of a problem up to which SMO steps without working sets are the faster way: of few
# features, of many, whose values within a group are all computed, and of one problem alone, which
# more than one thread could work on; the last are of a linear kernel with few features.
# (benchmarks/classes.py, benchmarks/small.py)
_MOST_SAMPLES = 32_768
_MOST_SAMPLES_WIDE = 8192
_MOST_SAMPLES_ALONE = 1024
_MOST_SAMPLES_FEW_FEATURES = 4096
# Kernel matrix of one problem of many features, or of problems of rather few samples, up to which
# all of it is computed at once, half by symmetry. (benchmarks/everyday.py, benchmarks/classes.py)
_BYTES_AT_ONCE = 2**25
# Kernel matrix of one problem of very few features up to which all of it is computed: of a larger
# one the rows that steps ask for are fewer values than half of it. (benchmarks/small.py)
_BYTES_NARROW = 8 * 192**2
# Samples of a problem up to which steps are taken on copies of the rows that they want, where all
# are in memory.
_MOST_COPIED = 512
# Values that the problems of one compiled call have, about: some milliseconds.
_VALUES_PER_CALL = 400_000
# Kernel rows that a thread can at least keep of a problem.
_FEWEST_ROWS = 64


@dataclass(frozen=True, eq=False)
class Batch:
    """The binary problems of a fit, for samples in the order of their groups.

    Attributes
    ----------
    problems : array of shape (n_problems, 3): class with label +1, its group, the other group
        or −1 where one group has all samples
    bounds : where each group begins among the samples, and where the last ends
    codes, costs : class number of each sample; its C, with ν its weight
    by_pair : whether groups are classes and problems their pairs
    nu : ν where the problems are ν-SVCs, pairs of classes; None for C-SVCs
    tol, max_iter : when a problem is solved, and when its steps end (−1: never)
    refine : whether problems of few samples are solved to the exact optimum
    few_features : whether the kernel is linear, of so few features that the interior-point method
        is for it
    wide : whether samples are dense and have so many features that kernel values cost much less
        by large matrix products than row by row
    at_once : whether the same holds for all kernel values of one problem, of sparse samples too
    narrow : whether samples are dense and have so few features that a kernel value costs no more
        by itself than as part of a matrix product
    """

    problems: np.ndarray
    bounds: np.ndarray
    codes: np.ndarray
    costs: np.ndarray
    by_pair: bool
    tol: float
    max_iter: int = -1
    refine: bool = False
    few_features: bool = False
    wide: bool = False
    at_once: bool = False
    narrow: bool = False
    nu: float | None = None

    @property
    def n(self) -> int:
        return len(self.codes)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Samples of each problem."""
        of_group = np.zeros(len(self.bounds), np.int64)  # the last entry is that of no group
        of_group[:-1] = self.bounds[1:] - self.bounds[:-1]
        return of_group[self.problems[:, 1]] + of_group[self.problems[:, 2]]

    def places(self, number: int, samples: np.ndarray) -> tuple:
        """Where the coefficients of some samples of a problem are, see `shape`."""
        if not self.by_pair:
            return number, samples
        g, h = self.problems[number, 1:]
        return np.where(self.codes[samples] == g, h - 1, g), samples

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the coefficients of all problems.

        Pairs share an array of shape (n_classes − 1, n): as in LIBSVM's layout a sample of
        class i has one coefficient for each other class. Else there is a row per problem.
        """
        return len(self.bounds) - 2 if self.by_pair else len(self.problems), self.n


class BatchOutcome:
    """What became of the problems of a batch: arrays with an entry for each, unless said.

    Attributes
    ----------
    coefficients : β, laid out as `Batch.shape` says
    status : CONVERGED, STEP_LIMIT, or HARD where another solver takes over
    stopped : whether it was too late for its steps
    n_iter, evaluations, n_support, n_bounded, objective, duality_gap, kkt_violation, intercept
    rho : half the distance of the levels of the two classes, of ν-SVCs
    seconds : of the problem, or the mean of the problems that the same call solved
    """

    def __init__(self, coefficients: np.ndarray, n: int):
        self.coefficients = coefficients
        self.counts, self.numbers = np.zeros((5, n), np.int64), np.zeros((5, n))
        self.status, self.n_iter, self.evaluations, self.n_support, self.n_bounded = self.counts
        self.objective, self.duality_gap, self.kkt_violation = self.numbers[:3]
        self.intercept, self.rho = self.numbers[3:]
        self.seconds, self.stopped = np.zeros(n), np.zeros(n, bool)


def worth_it(batch: Batch, memory: int) -> bool:
    """Whether the problems are of the kind and size that this is for."""
    sizes = batch.sizes
    if _wants_all_values(batch, sizes, memory):
        return True
    largest = int(sizes.max())
    rows = 8 * largest * _FEWEST_ROWS * n_threads()
    most = _MOST_SAMPLES_WIDE if batch.wide else _MOST_SAMPLES
    if len(sizes) == 1:
        most = _MOST_SAMPLES_FEW_FEATURES if batch.few_features else _MOST_SAMPLES_ALONE
    return largest <= most and rows <= memory // 2


def _wants_all_values(batch: Batch, sizes: np.ndarray, memory: int) -> bool:
    """Whether most kernel values will be used, or all are so few, that all are computed at once."""
    n_bytes = 8 * batch.n**2
    if batch.narrow and len(sizes) == 1 and n_bytes > _BYTES_NARROW:
        return False
    mean = float(sizes.mean())
    few = n_bytes <= constants.DOUBLE_PRECISION_BYTES or mean <= _FEW_SAMPLES
    at_once = batch.at_once if len(sizes) == 1 else mean <= 2 * _FEW_SAMPLES
    return (few or (at_once and n_bytes <= _BYTES_AT_ONCE)) and n_bytes <= memory


def _given(kernel: KernelMatrix, memory: int) -> bool:
    """Whether the values are the user's, and may be held as well."""
    return not isinstance(kernel, FeatureKernelMatrix) and 8 * kernel.n**2 <= memory


def solve_batch(
    batch: Batch,
    kernel: KernelMatrix,
    memory: int,
    should_stop: Callable[[], bool],
    coefficients: np.ndarray | None = None,
) -> BatchOutcome | None:
    """Solve the problems, each to its certificate; None if the kernel has no rows for it.

    Parameters
    ----------
    kernel : the matrix of all samples in the order of the batch, in float64
    memory : bytes that kernel values may take
    should_stop : asked between two calls of some milliseconds
    coefficients : β to start from, feasible; changed in place
    """
    sizes = batch.sizes
    values: _AllValues | _RowsOnDemand | None = (
        _AllValues(kernel)
        if _wants_all_values(batch, sizes, memory) or _given(kernel, memory)
        else _RowsOnDemand.of(kernel, batch, sizes, memory)
    )
    if values is None and 8 * batch.n**2 <= min(constants.DOUBLE_PRECISION_BYTES, memory):
        values = _AllValues(kernel)  # inner products do not suffice for rows
    if values is None:
        return None
    # What is None is not compiled: most fits need little of it.
    begun = None if coefficients is None else True
    few = True if sizes.min() <= SMALL else None
    refine = True if batch.refine else None
    copied, in_place = None, True if sizes.max() > SMALL else None
    if in_place and values.complete and batch.nu is None and sizes.max() <= _MOST_COPIED:
        copied, in_place = True, None
    running = type_of_copies(0.0 if batch.refine else batch.tol)
    if coefficients is None:
        coefficients = np.zeros(batch.shape)
    _check_shapes(batch, kernel, coefficients)
    found = BatchOutcome(coefficients, len(sizes))
    features = None
    if batch.few_features and not batch.refine and batch.nu is None:
        features = kernel.few_features()
    usual = np.maximum(constants.STEPS_PER_SAMPLE * sizes, constants.STEPS_PER_TURN)
    to_the_end, first = (usual, 0, 0.0), (usual, 0, 0.0)
    if features is not None:
        n_features = features.shape[1]
        first = steps_before(sizes, n_features), steps_of_row(n_features), CLOSE
    diagonal = diagonal_for_gains(kernel.diagonal())
    max_steps = batch.max_iter if batch.max_iter >= 0 else np.iinfo(np.int64).max

    def solve(part: slice) -> None:
        start = working_time()
        stopped = should_stop()
        with values.lent() as lent:
            memory, on_demand, *scratch = lent[:6]
            places = np.empty((2, int(sizes[part].max())), np.int64)
            left = np.zeros(2, np.int64)

            def call(begin: int, end: int, limits: tuple, *variant: bool | None) -> int:
                turns, price, close = limits
                return solve_problems(  # type: ignore[call-arg]
                    batch.problems, begin, end, batch.bounds, batch.codes, batch.costs,
                    diagonal, batch.by_pair, coefficients, memory, price if on_demand else None,
                    *scratch, places, left, *lent[6:], batch.tol, 0 if stopped else max_steps,
                    STEP_BUDGET, turns, close, found.counts, found.numbers, batch.nu, refine,
                    running, *variant,
                )  # fmt: skip

            following = part.start
            while following < part.stop:
                following = call(following, part.stop, first, begun, few, None, copied, in_place)
                number = following - 1
                if found.status[number] != MANY_STEPS:
                    continue
                if features is not None and sizes[number] <= constants.INTERIOR_POINT_SAMPLES:
                    solve_linear(
                        batch.problems, number, batch.bounds, batch.codes, batch.costs,
                        batch.by_pair, features, batch.tol, max_steps, coefficients,
                        found.counts, found.numbers,
                    )  # fmt: skip
                if found.status[number] == MANY_STEPS:
                    call(number, following, to_the_end, None, None, True, None, True)
        found.stopped[part] = stopped
        found.seconds[part] = (working_time() - start) / (part.stop - part.start)

    run_blocks(solve, _calls(sizes))
    values.count_shared(batch, found.evaluations)
    return found


def _check_shapes(batch: Batch, kernel: KernelMatrix, coefficients: np.ndarray) -> None:
    """Compiled code relies on them."""
    if coefficients.shape != batch.shape or coefficients.dtype != np.float64:
        raise ValueError(
            f"The start has shape {coefficients.shape} and type {coefficients.dtype}; the "
            f"problems have coefficients of shape {batch.shape} and type float64."
        )
    if kernel.n != batch.n:
        raise ValueError(f"The kernel matrix has {kernel.n} samples, the problems {batch.n}.")


def _calls(sizes: np.ndarray) -> list[slice]:
    """Problems one after the other, in calls of some milliseconds and of about the same work."""
    values = sizes.astype(np.float64) ** 2
    n_calls = np.ceil(values.sum() / _VALUES_PER_CALL)
    if len(sizes) == 1 or n_calls <= 1:
        return [slice(0, len(sizes))]
    work = np.cumsum(values)
    # Where the middle of a problem is: a last call of little would leave threads without work.
    number = ((work - 0.5 * values) * (n_calls / work[-1])).astype(np.int64)
    ends = np.append(np.flatnonzero(np.diff(number)) + 1, len(sizes))
    return [slice(int(a), int(b)) for a, b in zip(np.append(0, ends[:-1]), ends, strict=True)]


class _AllValues:
    """All kernel values in memory."""

    complete = True

    def __init__(self, kernel: KernelMatrix):
        before = kernel.evaluations
        values = kernel.as_array()
        if values is None or values.dtype != np.float64:
            self._copy = InMemoryKernel(kernel.n, kernel.positions(), kernel)
            values = self._copy.as_array()
            if isinstance(kernel, FeatureKernelMatrix):
                kernel.fill_symmetric(values)
            else:
                kernel.block(np.arange(kernel.n), dtype=np.float64, out=values)
        source = None, None, None, None, 0.0, 0, 0.0, 0.0, 0
        self._lent = values.reshape(-1), None, 0, 0, None, None, *source
        self._computed = kernel.evaluations - before

    @contextmanager
    def lent(self) -> Iterator[tuple]:
        yield self._lent

    def count_shared(self, batch: Batch, evaluations: np.ndarray) -> None:
        evaluations[0] += self._computed


class _RowsOnDemand:
    """Rows that are computed when a step wants them: within groups for all, others for one."""

    complete = False

    def __init__(self, source: tuple, sizes: np.ndarray, of_group: np.ndarray, memory: int):
        table, one_by_one, features, norms, parameters = source
        by_products = features if features.size > 0 else None
        self._source = table, one_by_one, by_products, norms, *parameters
        threads, total = min(n_threads(), len(sizes)), memory // 8
        shared = int((of_group**2).sum()) if len(sizes) > 1 else 0
        self._shares = 0 < shared <= total // 2
        if not self._shares:
            shared = 0
        private = min((total - shared) // threads, int(sizes.max()) ** 2)
        self._store: tuple = None, None
        if self._shares:
            at = np.cumsum(of_group**2) - of_group**2
            self._store = at, np.zeros(int(of_group.sum()), np.int32)
        self._lease = BufferLease()
        self._memory = self._lease.values(shared + private * threads)
        self._scratches = deque(
            (shared + number * private, shared + (number + 1) * private)
            for number in range(threads)
        )

    @classmethod
    def of(cls, kernel: KernelMatrix, batch: Batch, sizes, memory: int) -> _RowsOnDemand | None:
        if not isinstance(kernel, FeatureKernelMatrix):
            return None
        source = kernel.row_source()
        # The rows of one problem are computed by one thread: large ones are better by blocks.
        if source is None or (source[2].size > 0 and len(sizes) == 1):
            return None
        rows = cls(source, sizes, np.diff(batch.bounds), memory)
        if rows._shares and source[2].size > 0:
            rows._fill_groups(kernel, batch.bounds)
        return rows

    def _fill_groups(self, kernel: FeatureKernelMatrix, bounds: np.ndarray) -> None:
        """Compute all values within groups, by matrix products."""
        at, ready = self._store
        for place, start, stop in zip(at, bounds[:-1], bounds[1:], strict=True):
            values = self._memory[place : place + (stop - start) ** 2]
            group = values.reshape(stop - start, stop - start)
            kernel.fill_symmetric(group, slice(int(start), int(stop)))
        ready[:] = 1

    @contextmanager
    def lent(self) -> Iterator[tuple]:
        """The values, with a part of the memory for one thread."""
        scratch = self._scratches.popleft()
        try:
            yield self._memory, True, *scratch, *self._store, *self._source
        finally:
            self._scratches.append(scratch)

    def count_shared(self, batch: Batch, evaluations: np.ndarray) -> None:
        """Values within a group count for its first problem."""
        if not self._shares:
            return
        of_group = np.diff(batch.bounds)
        rows = np.add.reduceat(self._store[1], batch.bounds[:-1])
        # The first problems are those of the first group with the others.
        evaluations[: len(rows) - 1] += (rows * of_group)[1:]
        evaluations[0] += rows[0] * of_group[0]
