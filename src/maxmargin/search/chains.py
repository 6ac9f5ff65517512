"""Candidates and folds as chains of growing C, which share kernels and solutions."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxmargin.estimators.inputs import validate_features
from maxmargin.estimators.svc import SVC
from maxmargin.kernels._rows import subtract_rows
from maxmargin.kernels.budget import memory_budget
from maxmargin.kernels.functions import KernelFunction
from maxmargin.monitor import Interrupt
from maxmargin.parallel import n_threads, stream_blocks
from maxmargin.search.folds import CVData, Fold
from maxmargin.search.held_out import FoldSolution
from maxmargin.search.kernel_store import KernelStore
from maxmargin.solvers.path import NeedsFullSolver, RegularisationPath, submatrix

# Bytes a kernel value, and with the float64 matrix beside the float32 one.
_SINGLE, _BOTH = 4, 12
# Chains that are under way together, a thread: enough to keep all of them busy to the end.
_CHAINS_PER_THREAD = 4
# Solvers whose answer is the optimum, whoever finds it.
_EXACT = ("auto", "decomposition", "smo")


@dataclass(eq=False)
class Chain:
    """One fold with one kernel: candidates in the order of their C."""

    fold: Fold
    kernel: Any
    tol: float
    steps: list[tuple[float, int]] = field(default_factory=list)  # (C, number of the candidate)


def reason_not_shared(estimator: SVC) -> str | None:
    """The reason why a candidate can share nothing; None where it can."""
    if not isinstance(estimator.solver, str) or estimator.solver not in _EXACT:
        return f"solver={estimator.solver!r} has a way of its own"
    if estimator.probability not in ("deprecated", False):
        return "probability=True asks for fits of its own"
    if getattr(estimator, "device", "cpu") != "cpu":
        return "a GPU trains each model on its own"
    if estimator.max_iter != -1 or estimator.time_limit is not None:
        return "max_iter and time_limit hold for fits of their own"
    return None


def reason_too_large(estimators: list[SVC], n: int) -> str | None:
    """The reason why there is no room for a whole kernel matrix; None where there is."""
    budget = min(memory_budget(estimator.cache_size) for estimator in estimators)
    own = any(callable(one.kernel) or one.kernel == "precomputed" for one in estimators)
    needed = (8 if own else _SINGLE) * n * n * (1 + n_threads())
    if needed <= budget:
        return None
    return (
        f"whole kernel matrices of {n} samples take {needed / 2**20:.0f} MB, "
        f"cache_size allows {budget / 2**20:.0f} MB"
    )


class Chains:
    """All chains of the candidates that can share.

    Parameters
    ----------
    cv_data : what they are tried on
    estimators : candidates by their number
    n : number of samples
    interrupt : the flag that Ctrl-C sets
    """

    def __init__(
        self,
        cv_data: CVData,
        estimators: dict[int, SVC],
        n: int,
        interrupt: Interrupt,
    ):
        self.interrupt = interrupt
        self.failed: list[tuple[int, Fold]] = []
        self._folds: dict[tuple, Fold] = {}
        chains: dict[tuple, Chain] = {}
        for number, estimator in estimators.items():
            for split in range(len(cv_data.splits)):
                fold = self._fold(cv_data, split, estimator)
                if fold.error:
                    self.failed.append((number, fold))
                    continue
                kernel = fold.kernel(estimator)
                key = (id(fold), kernel, estimator.tol)
                chain = chains.setdefault(key, Chain(fold, kernel, estimator.tol))
                chain.steps.append((float(estimator.C), number))
        self.by_kernel: dict[Any, list[Chain]] = {}
        for chain in chains.values():
            chain.steps.sort()
            self.by_kernel.setdefault(chain.kernel, []).append(chain)
        features = [kernel for kernel in self.by_kernel if isinstance(kernel, KernelFunction)]
        X = cv_data.X
        if features:
            X = validate_features(SVC(), X)
        # Every thread has the part of its fold; what is left holds whole matrices.
        budget = min(memory_budget(estimator.cache_size) for estimator in estimators.values())
        room = budget // (n * n) - _SINGLE * n_threads()
        keep_products = len(features) > 1 and room >= 2 * _SINGLE
        room -= _SINGLE * keep_products
        self.may_refine = room >= _BOTH + (_BOTH - _SINGLE) * n_threads()
        self._room = max(1, room // _BOTH - n_threads())
        self.kernels = KernelStore(X, n, keep_products=keep_products)

    def _fold(self, cv_data: CVData, split: int, estimator: SVC) -> Fold:
        kind = estimator.kernel if callable(estimator.kernel) else estimator.kernel == "precomputed"
        key = (split, repr(estimator.class_weight), estimator.multi_class, kind)
        if key not in self._folds:
            plain = SVC(**estimator.get_params())
            self._folds[key] = Fold(cv_data, split, plain).prepare(plain)
        return self._folds[key]

    def solve(self):
        """Yields (number of the candidate, its FoldSolution, or the Fold to fit it to alone)."""
        kernels = list(self.by_kernel)
        while kernels:
            taken: list[Any] = []
            chains: list[Chain] = []
            while kernels and len(taken) < self._room:
                if len(chains) >= _CHAINS_PER_THREAD * n_threads():
                    break
                taken.append(kernels.pop(0))
                chains += self.by_kernel[taken[-1]]
            for kernel in taken:  # here, where all threads work on it
                self.kernels.get(kernel)
            for chain, answers in zip(chains, stream_blocks(self._follow, chains)):
                for (_, number), answer in zip(chain.steps, answers):
                    yield number, answer
            self.kernels.drop(taken)

    def _follow(self, chain: Chain) -> list[FoldSolution | Fold]:
        """Solutions of a chain, for every C in its order."""
        fold, values = chain.fold, [C for C, _ in chain.steps]
        shape = (len(values), len(fold.tasks))
        decisions = np.empty((*shape, len(fold.test)))
        intercepts, seconds = np.empty(shape), np.zeros(len(values))
        betas: list[list[np.ndarray]] = [[] for _ in values]
        solved = len(values)
        for number, task in enumerate(fold.tasks):
            start, path, at = time.perf_counter(), None, 0
            try:
                for at, C in enumerate(values[:solved]):
                    path = path or _TaskPath(self, chain, task)
                    beta, intercepts[at, number], decisions[at, number] = path.solve(C)
                    betas[at].append(beta)
                    now = time.perf_counter()
                    seconds[at] += now - start
                    start = now
            except NeedsFullSolver:
                solved = at
        answers = zip(betas, intercepts.tolist(), decisions.transpose(0, 2, 1), seconds.tolist())
        return [
            FoldSolution(fold, chain.kernel, *answer) if at < solved else fold
            for at, answer in enumerate(answers)
        ]


class _TaskPath:
    """The path of one binary task, with the decision values of the held-out samples."""

    def __init__(self, chains: Chains, chain: Chain, task):
        fold = chain.fold
        self.kernels, self.may_refine = chains.kernels, chains.may_refine
        self.kernel = chain.kernel
        self.train, self.test = fold.train[task.index], fold.test
        K = self.kernels.get(self.kernel)
        self.held_out = submatrix(K, self.train, self.test)
        self.path = RegularisationPath(
            submatrix(K, self.train, self.train), task.signs, fold.data.costs[task.index],
            self.kernels.duplicates(self.kernel)[self.train], chain.tol, chains.interrupt,
        )  # fmt: skip

    def solve(self, C: float) -> tuple[np.ndarray, float, np.ndarray]:
        """β, intercept and decision values for a C."""
        path = self.path
        path.solve(C)
        if not path.precise():
            if not self.may_refine:
                raise NeedsFullSolver
            K = self.kernels.get(self.kernel, np.float64)
            self.held_out = submatrix(K, self.train, self.test)
            path.refine(submatrix(K, self.train, self.train))
        values = np.full(len(self.test), -path.intercept)
        support = np.flatnonzero(path.beta)
        subtract_rows(values, self.held_out, support, path.beta[support], 0, len(values))
        return path.beta.copy(), path.intercept, -values
