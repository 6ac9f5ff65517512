"""Candidates and folds as chains of growing C, which share kernels and solutions."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from maxmargin.estimators.inputs import validate_features
from maxmargin.estimators.tasks import Task
from maxmargin.formulations import are_bounds
from maxmargin.kernels.budget import memory_budget
from maxmargin.kernels.functions import KernelFunction
from maxmargin.monitor import Interrupt
from maxmargin.optimality import certificate_from
from maxmargin.parallel import n_threads, run_blocks, stream_blocks
from maxmargin.problem import Problem
from maxmargin.search.class_pairs import (
    ClassOrder,
    PairsOfFold,
    PairsOfFolds,
    blocks_of,
    classes_of,
    is_for_pairs,
)
from maxmargin.search.folds import CVData, Fold
from maxmargin.search.held_out import FoldSolution
from maxmargin.search.kernel_store import KernelStore
from maxmargin.solvers.path import NeedsFullSolver, RegularisationPath

# Bytes of a stored kernel value.
_SINGLE, _DOUBLE = 4, 8
# Parts of chains that are under way together per thread: enough to keep all busy to the end.
_PARTS_PER_THREAD = 4
# The pairs of a chain, the decision values of what is scored, and the seconds of each step.
_Solved = tuple[PairsOfFold, np.ndarray, float]
# Solvers whose answer is the optimum, whoever finds it.
_EXACT = ("auto", "decomposition", "smo")


@dataclass(eq=False)
class Chain:
    """One fold with one kernel: candidates in the order of their C, and of their ε.

    `steps` has C, ε and the number of the candidate of each. `by_pairs` says whether all pairs of
    classes are solved together.
    """

    fold: Fold
    kernel: Any
    tol: float
    by_pairs: bool = False
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
    needed = _needed(_DOUBLE if own else _SINGLE, n)
    if needed <= budget:
        return None
    return (
        f"whole kernel matrices of {n} samples take {needed / 2**20:.0f} MB, "
        f"cache_size allows {budget / 2**20:.0f} MB"
    )


def _needed(value_bytes: int, n: int) -> int:
    """Bytes of a whole matrix of n samples, and of as much for each thread."""
    return value_bytes * n * n * (1 + n_threads())


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
                if key not in chains:
                    by_pairs = is_for_pairs(fold, n, getattr(estimator, "multi_class", ""))
                    chains[key] = Chain(fold, kernel, estimator.tol, by_pairs)
                epsilon = float(getattr(estimator, "epsilon", 0.0))
                chains[key].steps.append((float(estimator.C), epsilon, number))
        self.by_kernel: dict[Any, list[Chain]] = {}
        for chain in chains.values():
            chain.steps.sort()
            self.by_kernel.setdefault(chain.kernel, []).append(chain)
        budget = min(memory_budget(estimator.cache_size) for estimator in estimators.values())
        self._share = budget // (1 + n_threads())
        self.samples = _order_of_samples(list(chains.values()), n, budget)
        self._store(cv_data.X, next(iter(estimators.values())), n, budget)

    def _store(self, X, estimator, n: int, budget: int) -> None:
        """Make the store, and find how many matrices there is room for."""
        features = [kernel for kernel in self.by_kernel if isinstance(kernel, KernelFunction)]
        if features:
            X = validate_features(clone(estimator), X)
        double = self.samples is not None
        value_bytes = _DOUBLE if double else _SINGLE
        # Every thread has the part of its fold; what is left holds whole matrices.
        capacity = budget // (value_bytes * n * n) - n_threads()
        products = _DOUBLE // value_bytes
        uses = len(features) if capacity > products else 1
        self._capacity = max(1, capacity - products * (uses > 1))
        order = None if self.samples is None else self.samples.order
        self.kernels = KernelStore(X, n, uses, order, double)

    def places(self, samples: np.ndarray) -> np.ndarray:
        """Where samples are in the matrices of the store."""
        return samples if self.samples is None else self.samples.place[samples]

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
            while kernels and len(taken) < self._capacity:
                # No more than that: fresh memory for another matrix is dear.
                if sum(map(_parts_of, chains)) >= _PARTS_PER_THREAD * n_threads():
                    break
                taken.append(kernels.pop(0))
                chains += self.by_kernel[taken[-1]]
            for kernel in taken:  # here, where all threads work on it
                self.kernels.get(kernel)
            follow = partial(self._follow, pairs=self._solve_pairs(chains))
            for chain, answers in zip(chains, stream_blocks(follow, chains)):
                for (*_, number), answer in zip(chain.steps, answers):
                    yield number, answer
            self.kernels.drop(taken)

    def _solve_pairs(self, chains: list[Chain]) -> dict[Chain, _Solved]:
        """The pairs of chains that have the same kernel, C and classes, and decision values."""
        alike: dict[tuple, list[Chain]] = {}
        for chain in chains:
            if self._can_solve_pairs(chain):
                growing = tuple(C for C, *_ in chain.steps)
                key = chain.kernel, chain.tol, growing, classes_of(chain.fold)
                alike.setdefault(key, []).append(chain)
        groups = [
            (same, self._pairs_of(same, np.array(growing)))
            for (*_, growing, _), same in alike.items()
        ]
        start = time.perf_counter()
        parts = [(pairs, part) for _, pairs in groups for part in pairs.parts]
        run_blocks(lambda one: one[0].solve(one[1], self.interrupt), parts)
        found: dict[Chain, tuple[PairsOfFold, np.ndarray]] = {}
        blocks = []
        for chain, of_fold in [one for same, pairs in groups for one in zip(same, pairs.of_fold)]:
            samples = self._scored(chain.fold)
            values = np.empty((*of_fold.status.shape, len(samples)))
            found[chain] = of_fold, values
            blocks += [(of_fold, samples, rows, values) for rows in blocks_of(samples)]
        run_blocks(lambda block: block[0].decide(*block[1:]), blocks)
        # They share their time as they share their work.
        steps = sum(len(chain.steps) for chain in found)
        seconds = (time.perf_counter() - start) / max(1, steps)
        return {chain: (*one, seconds) for chain, one in found.items()}

    def _pairs_of(self, chains: list[Chain], growing: np.ndarray) -> PairsOfFolds:
        assert self.samples is not None
        folds, first = [chain.fold for chain in chains], chains[0]
        K = self.kernels.get(first.kernel)
        return PairsOfFolds(folds, self.samples, K, growing, first.tol)

    def _scored(self, fold: Fold) -> np.ndarray:
        """Places of the samples that are scored."""
        return self.places(
            np.concatenate([fold.test, fold.train]) if self.train_scores else fold.test
        )

    def _can_solve_pairs(self, chain: Chain) -> bool:
        """Whether there is room for the decision values of all pairs, and K is moderate."""
        if self.samples is None or not chain.by_pairs or self._too_large(chain):
            return False
        scale = float(np.abs(np.diagonal(self.kernels.get(chain.kernel))).max())
        return are_bounds(chain.fold.at(chain.steps[-1][0]).costs, scale)

    def _too_large(self, chain: Chain) -> bool:
        return self._bytes_of_decisions(chain) > self._share

    def _follow(self, chain: Chain, pairs: dict[Chain, _Solved]) -> list[FoldSolution | Fold]:
        """Solutions of a chain, for every C and ε in its order; its fold where it is fitted alone.

        Of very many classes the decision values of all pairs would be more than the matrices.
        """
        if self._too_large(chain):
            return [chain.fold] * len(chain.steps)
        if chain in pairs:
            return self._follow_pairs(chain, *pairs[chain])
        tasks = [_TaskPath(self, chain, task) for task in chain.fold.tasks]
        for task in tasks:
            task.follow()
        answers: list[FoldSolution | Fold] = []
        for at in range(len(chain.steps)):
            parts = [task.answers[at] for task in tasks if at in task.answers]
            if len(parts) < len(tasks):
                answers.append(chain.fold)
                continue
            decisions = np.array([values for *_, values in parts])
            seconds = sum(task.seconds[at] for task in tasks)
            found = [(beta, intercept) for beta, intercept, _ in parts]
            solution = FoldSolution(
                chain.fold, chain.kernel, partial(list, found), decisions, seconds
            )
            answers.append(solution)
        return answers

    def _bytes_of_decisions(self, chain: Chain) -> int:
        n_scored = len(chain.fold.test) + self.train_scores * len(chain.fold.train)
        return 8 * len(chain.fold.tasks) * n_scored * len(chain.steps)

    def _follow_pairs(
        self, chain: Chain, pairs: PairsOfFold, decisions: np.ndarray, seconds: float
    ) -> list[FoldSolution | Fold]:
        """The same of pairs that are solved but for the hard ones, which follow one by one."""
        start, fold = time.perf_counter(), chain.fold
        alone = np.zeros(len(chain.steps), bool)
        for number, first in pairs.hard():
            path = _TaskPath(self, chain, fold.tasks[number])
            path.follow(first, pairs.beta_of(first, number))
            for at in range(first, len(chain.steps)):
                if at in path.answers:
                    beta, pairs.intercepts[at, number], decisions[at, number] = path.answers[at]
                    pairs.set_beta(at, number, beta)
                else:
                    alone[at] = True
        seconds += (time.perf_counter() - start) / len(chain.steps)
        return [
            fold
            if alone[at]
            else FoldSolution(
                fold, chain.kernel, partial(pairs.answers, at), decisions[at], seconds
            )
            for at in range(len(chain.steps))
        ]


def _parts_of(chain: Chain) -> int:
    """How many threads could work on a chain."""
    return len(chain.fold.tasks) if chain.by_pairs else 1


def _order_of_samples(chains: list[Chain], n: int, budget: int) -> ClassOrder | None:
    """The order in which pairs of classes lie side by side, where there are such chains."""
    folds = [chain.fold for chain in chains if chain.by_pairs]
    return ClassOrder(folds, n) if folds and _needed(_DOUBLE, n) <= budget else None


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
        self.train = chains.places(chain.fold.train[task.index])
        self.answers: dict[int, tuple[np.ndarray, float, np.ndarray]] = {}
        self.seconds = np.zeros(len(chain.steps))

    def follow(self, first: int = 0, beta: np.ndarray | None = None) -> None:
        """Solve the steps from `first` on one after the other, and judge all of them.

        `beta` is a start for the first of them.
        """
        store, kernel = self.chains.kernels, self.chain.kernel
        start = time.perf_counter()
        problems: list[Problem] = []
        betas: list[np.ndarray] = []
        try:
            duplicates = store.duplicates(kernel)[self.train]
            part = store.part(kernel, self.train)
            path = RegularisationPath(part, duplicates, self.chain.tol, self.chains.interrupt)
            for at, (C, epsilon, _) in enumerate(self.chain.steps[first:], first):
                fields = self.task.formulate(self.chain.fold.at(C), part.scale)
                problem = Problem(part, **(fields | {"epsilon": epsilon}))
                if beta is not None and at == first:
                    path.begin(problem, C, beta)
                path.solve(problem, C)
                problems.append(problem)
                betas.append(path.beta)
                start, self.seconds[at] = time.perf_counter(), time.perf_counter() - start
        except NeedsFullSolver:
            pass  # these steps, and those that would start from them, are fitted alone
        if problems:
            self._judge(first, problems, np.array(betas))
            solved = slice(first, first + len(betas))
            self.seconds[solved] += (time.perf_counter() - start) / len(betas)

    def _judge(self, first: int, problems: list[Problem], betas: np.ndarray) -> None:
        """Certificates and decision values of all solutions at once.

        One pass over kernel values in float64, from scratch, serves all of them: that is what
        makes it cheap.
        """
        fold, n_test = self.chain.fold, len(self.chain.fold.test)
        # Where training samples are scored, those of other tasks are, too.
        places = self.chains.places
        train = places(fold.train) if self.chains.train_scores else self.train
        of_train = self.task.index if self.chains.train_scores else np.arange(len(train))
        n_scored = n_test + len(train) if self.chains.train_scores else n_test
        used = np.flatnonzero(betas.any(axis=0))
        products = self.chains.kernels.multiply(
            self.chain.kernel, np.concatenate([places(fold.test), train]), self.train[used],
            np.ascontiguousarray(betas[:, used].T),
        )  # fmt: skip
        values = products[n_test:][of_train]
        for at, (problem, beta) in enumerate(zip(problems, betas), first):
            certificate = certificate_from(problem, beta, problem.linear - values[:, at - first])
            if certificate.kkt_violation <= self.chain.tol:
                intercept = certificate.intercept
                self.answers[at] = beta, intercept, products[:n_scored, at - first] + intercept
