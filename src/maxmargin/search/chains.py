"""Candidates and folds as chains of growing C, which share kernels and solutions."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from maxmargin.estimators.inputs import validate_features
from maxmargin.estimators.tasks import Task
from maxmargin.kernels.budget import memory_budget
from maxmargin.kernels.functions import KernelFunction
from maxmargin.monitor import Interrupt
from maxmargin.optimality import certificate_from
from maxmargin.parallel import n_threads, stream_blocks
from maxmargin.problem import Problem
from maxmargin.search.folds import CVData, Fold
from maxmargin.search.held_out import FoldSolution
from maxmargin.search.kernel_store import KernelStore
from maxmargin.solvers.path import NeedsFullSolver, RegularisationPath

# Bytes of a stored kernel value, and those of inner products as a multiple of them.
_SINGLE, _PRODUCTS = 4, 2
# Chains that are under way together, a thread: enough to keep all of them busy to the end.
_CHAINS_PER_THREAD = 4
# Solvers whose answer is the optimum, whoever finds it.
_EXACT = ("auto", "decomposition", "smo")


@dataclass(eq=False)
class Chain:
    """One fold with one kernel: candidates in the order of their C, and of their ε.

    `steps` has C, ε and the number of the candidate of each.
    """

    fold: Fold
    kernel: Any
    tol: float
    steps: list[tuple[float, float, int]] = field(default_factory=list)


def reason_not_shared(estimator) -> str | None:
    """The reason why a candidate can share nothing; None where it can."""
    if not isinstance(estimator.solver, str) or estimator.solver not in _EXACT:
        return f"solver={estimator.solver!r} has a way of its own"
    if getattr(estimator, "probability", False) not in ("deprecated", False):
        return "probability=True asks for fits of its own"
    if estimator.device != "cpu":
        return "a GPU trains each model on its own"
    if estimator.max_iter != -1 or estimator.time_limit is not None:
        return "max_iter and time_limit hold for fits of their own"
    return None


def reason_too_large(estimators: list, n: int) -> str | None:
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

    def __init__(self, cv_data: CVData, estimators: dict, n: int, interrupt: Interrupt):
        self.interrupt, self.train_scores = interrupt, cv_data.train_scores
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
                epsilon = float(getattr(estimator, "epsilon", 0.0))
                chain.steps.append((float(estimator.C), epsilon, number))
        self.by_kernel: dict[Any, list[Chain]] = {}
        for chain in chains.values():
            chain.steps.sort()
            self.by_kernel.setdefault(chain.kernel, []).append(chain)
        features = [kernel for kernel in self.by_kernel if isinstance(kernel, KernelFunction)]
        X = cv_data.X
        if features:
            X = validate_features(clone(next(iter(estimators.values()))), X)
        # Every thread has the part of its fold; what is left holds whole matrices.
        budget = min(memory_budget(estimator.cache_size) for estimator in estimators.values())
        room = budget // (_SINGLE * n * n) - n_threads()
        keep_products = len(features) > 1 and room > _PRODUCTS
        self._room = max(1, room - _PRODUCTS * keep_products)
        self.kernels = KernelStore(X, n, keep_products=keep_products)

    def _fold(self, cv_data: CVData, split: int, estimator) -> Fold:
        """The fold of a candidate: one for all that slice samples and weigh classes alike."""
        kind = estimator.kernel if callable(estimator.kernel) else estimator.kernel == "precomputed"
        classes = [getattr(estimator, name, None) for name in ("class_weight", "multi_class")]
        key = (split, repr(classes), kind)
        if key not in self._folds:
            self._folds[key] = Fold(cv_data, split, estimator).prepare(estimator)
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
                for (*_, number), answer in zip(chain.steps, answers):
                    yield number, answer
            self.kernels.drop(taken)

    def _follow(self, chain: Chain) -> list[FoldSolution | Fold]:
        """Solutions of a chain, for every C and ε in its order."""
        fold, n_steps = chain.fold, len(chain.steps)
        tasks = [_TaskPath(self, chain, task) for task in fold.tasks]
        for task in tasks:
            task.follow()
        answers: list[FoldSolution | Fold] = []
        for at in range(n_steps):
            parts = [task.answers[at] for task in tasks if at in task.answers]
            if len(parts) < len(tasks):
                answers.append(fold)
                continue
            betas, intercepts, decisions = zip(*parts)
            seconds = sum(task.seconds[at] for task in tasks)
            answers.append(
                FoldSolution(
                    fold, chain.kernel, list(betas), list(intercepts), np.array(decisions), seconds
                )
            )
        return answers


class _TaskPath:
    """The path of one task, with the decision values of the samples that are scored.

    Attributes
    ----------
    answers : β, intercept and decision values of the steps that were solved to tol, as a
        certificate in float64 says
    seconds : what each step took
    """

    def __init__(self, chains: Chains, chain: Chain, task: Task):
        self.chains, self.chain, self.task = chains, chain, task
        self.train = chain.fold.train[task.index]
        self.answers: dict[int, tuple[np.ndarray, float, np.ndarray]] = {}
        self.seconds = np.zeros(len(chain.steps))

    def follow(self) -> None:
        """Solve the steps one after the other, and judge all of them."""
        store, kernel = self.chains.kernels, self.chain.kernel
        start = time.perf_counter()
        problems: list[Problem] = []
        betas: list[np.ndarray] = []
        try:
            duplicates = store.duplicates(kernel)[self.train]
            part = store.part(kernel, self.train)
            path = RegularisationPath(part, duplicates, self.chain.tol, self.chains.interrupt)
            for at, (C, epsilon, _) in enumerate(self.chain.steps):
                fields = self.task.formulate(self.chain.fold.at(C), part.scale)
                problem = Problem(part, **(fields | {"epsilon": epsilon}))
                path.solve(problem, C)
                problems.append(problem)
                betas.append(path.beta)
                start, self.seconds[at] = time.perf_counter(), time.perf_counter() - start
        except NeedsFullSolver:
            pass  # these steps, and those that would start from them, are fitted alone
        if problems:
            self._judge(problems, np.array(betas))
            self.seconds[: len(betas)] += (time.perf_counter() - start) / len(betas)

    def _judge(self, problems: list[Problem], betas: np.ndarray) -> None:
        """Certificates and decision values of all solutions at once.

        One pass over kernel values in float64, from scratch, serves all of them: that is what
        makes it cheap.
        """
        fold, n_test = self.chain.fold, len(self.chain.fold.test)
        # Where training samples are scored, those of other tasks are, too.
        train = fold.train if self.chains.train_scores else self.train
        of_train = self.task.index if self.chains.train_scores else np.arange(len(train))
        n_scored = n_test + len(train) if self.chains.train_scores else n_test
        used = np.flatnonzero(betas.any(axis=0))
        products = self.chains.kernels.multiply(
            self.chain.kernel, np.concatenate([fold.test, train]), self.train[used],
            np.ascontiguousarray(betas[:, used].T),
        )  # fmt: skip
        values = products[n_test:][of_train]
        for at, (problem, beta) in enumerate(zip(problems, betas)):
            certificate = certificate_from(problem, beta, problem.linear - values[:, at])
            if certificate.kkt_violation <= self.chain.tol:
                intercept = certificate.intercept
                self.answers[at] = beta, intercept, products[:n_scored, at] + intercept
