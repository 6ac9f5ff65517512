"""ClusterSVM: train on representatives of clusters, then on the samples that turn out to matter.

After Boley and Cao, "Training Support Vector Machines via Adaptive Clustering".
Clusters far behind the margin have α = 0 throughout: one sample can stand for each
of them. Clusters far on the wrong side have α = C throughout: their mean in the
feature space can, with the upper bound n·C (Proposition 2.1).
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import count

import numpy as np
from sklearn.base import ClusterMixin

from maxmargin.monitor import Monitor
from maxmargin.optimality import certificate_from, certify
from maxmargin.problem import Problem, snap_to_bounds
from maxmargin.run import Run
from maxmargin.solution import STOPPED, Solution, Status
from maxmargin.solvers.base import Capabilities, Solver
from maxmargin.solvers.cluster.partition import partition, pseudo_centre, sample_features
from maxmargin.solvers.cluster.reduction import EASY_C, Reduction, hardness
from maxmargin.solvers.registry import make_solver

# Samples this far beyond the margin (y·d(x) < 1 − band) are taken for boundary support vectors.
_BOUNDARY_BAND = 0.2
# Duality gap, as part of the objective, from which on the clusters that a last training contradicts
# are trained again. Chosen on the paper's data: larger gaps cost more than 0.3 points of the error.
_GOOD_GAP = 0.1


class ClusterSVM(Solver):
    """Another solver, called on a few representatives first and on few samples then.

    Each class is partitioned; the first problem has one representative per cluster.
    Samples on or within the margin of its solution take part in the next problem
    themselves, and so on (Algorithm 1).

    Parameters
    ----------
    base : str or Solver
        What solves the reduced problems.
    clustering : {"pddp", "kmeans"} or scikit-learn clusterer
        How the samples of a class are partitioned: principal direction divisive
        partitioning, scikit-learn's MiniBatchKMeans, or any other clusterer, whose
        `n_clusters` is set where it has one.
    clusters : "sqrt" or int
        Clusters per class: the square root of its size (equation 3.19), or a number.
    passes : int or None
        How often clusters are split by the last solution (NP_max). 0 leaves the
        solution of the representatives; None goes on to the optimum of the whole
        problem (Proposition 2.2), which is then certified.
    boundary_clusters : bool
        Whether the parts of clusters that seem to have α = C throughout are replaced
        by their means too (Condition 2), so that the size of the problems follows the
        number of support vectors that are not at the bound.
    weighted : bool
        Whether a representative has the C of all its cluster together while there are
        passes to come, or, as in the algorithm as printed, that of one sample (the mean
        of its cluster's). The latter keeps more samples.
    continuation : bool
        Whether reduced problems with a large C are solved with a smaller one first,
        and the solution scaled up. It is what makes a base like SMO fast there.
    """

    name = "cluster"

    def __init__(
        self,
        base: str | Solver = "auto",
        clustering: str | ClusterMixin = "pddp",
        clusters: str | int = "sqrt",
        passes: int | None = 1,
        boundary_clusters: bool = False,
        weighted: bool = True,
        continuation: bool = True,
    ):
        if clustering not in ("pddp", "kmeans") and not hasattr(clustering, "fit_predict"):
            raise ValueError(
                "clustering must be 'pddp', 'kmeans' or a scikit-learn clusterer, "
                f"got {clustering!r}."
            )
        if clusters != "sqrt" and (not isinstance(clusters, int) or clusters < 1):
            raise ValueError(f"clusters must be 'sqrt' or a positive integer, got {clusters!r}.")
        if passes is not None and (not isinstance(passes, int) or passes < 0):
            raise ValueError(f"passes must be None or an integer from 0 on, got {passes!r}.")
        self.base = base
        self.clustering = clustering
        self.clusters = clusters
        self.passes = passes
        self.boundary_clusters = boundary_clusters
        self.weighted = weighted
        self.continuation = continuation

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        return Capabilities(exact=self.passes is None, uses_features=True)

    def solve(self, problem: Problem, run: Run) -> Solution:
        return _ClusterRun(self, make_solver(self.base), problem, run).until_done()


class _ClusterRun:
    """The state of one solve: which samples stand for themselves, for a cluster, or for neither.

    Attributes
    ----------
    cluster : cluster of each sample, −1 for samples that take part themselves
    centre : pseudo-centre of each cluster, of its members that are not averaged
    averaged : whether a sample is in the part of its cluster that its mean stands for
    """

    def __init__(self, options: ClusterSVM, base: Solver, problem: Problem, run: Run):
        self.options, self.base, self.problem, self.run = options, base, problem, run
        self.monitor = run.monitor
        self.signs = np.where(problem.upper > 0, 1.0, -1.0)
        start = time.perf_counter()
        self.features = sample_features(problem.kernel)
        self.cluster, self.centre = partition(
            problem, self.signs, self.features, options.clustering, options.clusters,
            run.random_state, lambda: self.monitor.should_stop(0),
        )  # fmt: skip
        self.clustering_seconds = time.perf_counter() - start
        self.averaged = np.zeros(problem.n, bool)
        self.beta = self.trained = run.initial_beta(problem)
        # A support vector of the last fit is likely to be one again.
        self._move(self.beta != 0)
        self.n_iter = 0
        self.n_train: list[int] = []
        self.n_train_by_class: list[dict[int, int]] = []
        self.training_seconds: list[float] = []

    def until_done(self) -> Solution:
        """The WHILE loop of Algorithm 1 (lines 5 to 21), and the training that ends it.

        As printed, the loop would end with a split that nothing was trained on;
        by Table 1 of the paper, pass 0 is the solution of the representatives.
        """
        bounds = "sum" if self.options.weighted else "mean"
        for self.passes in count():
            last = self.passes == self.options.passes
            # In the end no α may be above its own C.
            status, slack = self._train("own" if last else bounds)
            if last or status in STOPPED:
                break
            violation, stop = self._tell()
            status = stop or status
            if violation <= self.run.tol or stop is not None or not self._split(slack):
                break
        while last and status not in STOPPED and self._is_poor():
            self._move(self.contradicted)
            status, _ = self._train("own")
        return self._solution(status)

    def _is_poor(self) -> bool:
        """Whether a last training needs some clusters replaced by their members.

        With no passes, the user asked for the representatives alone.
        """
        if self.passes == 0 or not self.contradicted.any():
            return False
        now = certificate_from(self.problem, self.trained, self.residual)
        return now.duality_gap > _GOOD_GAP * abs(now.objective)

    def _train(self, bounds: str) -> tuple[Status, np.ndarray]:
        """Solve the reduced problem: its status, and y·d(x) − 1 of all samples.

        Sets `trained`, the coefficients of the decision function that was trained;
        `residual`, that of `trained`; `misplaced`, the pseudo-centres that are support
        vectors; `contradicted`, the members of units that should not stand for them; and
        `beta`, which is `trained` where that is feasible.
        """
        start = time.perf_counter()
        problem = self.problem
        reduction = Reduction.of(problem, self.cluster, self.averaged, self.centre, bounds)
        reduced, run = reduction.problem(problem, self.run, self.trained, self.options.exact)
        solution = self._solve_by_continuation(reduced, run, reduction)
        self.trained = self.beta = self._snapped(reduction.expansion(solution.beta))
        support = np.flatnonzero(self.trained)
        self.residual = problem.linear - problem.kernel.multiply(
            support, self.trained[support], precise=True
        )
        self.misplaced = reduction.first[reduction.stands_for_cluster & (solution.beta != 0)]
        self.contradicted = reduction.contradicted(solution.beta)
        if ((self.trained < problem.lower) | (self.trained > problem.upper)).any():
            self.beta = self._snapped(reduction.distribute(solution.beta))
        self._record(reduction, time.perf_counter() - start)
        return solution.status, self.signs * (solution.intercept - self.residual)

    def _snapped(self, beta: np.ndarray) -> np.ndarray:
        """The same β, with values that a division left next to a bound put on it."""
        return snap_to_bounds(beta, self.problem.lower, self.problem.upper)

    def _tell(self) -> tuple[float, Status | None]:
        """Report a pass to the monitor: the KKT violation of the whole problem, a reason to stop.

        Once the violation is within tol, the solution is the optimum (Proposition 2.2).
        """
        if self.beta is not self.trained:
            return np.inf, self.monitor.should_stop(self.n_iter)
        now = certificate_from(self.problem, self.beta, self.residual)
        return now.kkt_violation, self.monitor.update(
            self.n_iter, now.kkt_violation, now.objective, self.beta, now.intercept
        )

    def _solve_by_continuation(self, reduced: Problem, run: Run, reduction: Reduction) -> Solution:
        """Solve with a part of C first, then with ten times that, until it is C.

        Where C is large, β/C hardly depends on it any more, but a solver whose steps
        do not grow with C needs more of them to bring a sample to its bound.
        """
        beta = run.initial_beta(reduced)
        for factor in _stages(reduced) if self.options.continuation else [1.0]:
            stage = replace(reduced, lower=factor * reduced.lower, upper=factor * reduced.upper)
            stage_run = replace(
                run,
                start=factor * beta if beta.any() else None,
                monitor=_PassMonitor(self.monitor, reduction, self.n_iter),
            )
            solution = self.base.solve(stage, stage_run)
            self.n_iter += solution.n_iter
            beta = solution.beta / factor
            if solution.status in STOPPED:
                break
        solution.beta = beta
        return solution

    def _split(self, slack: np.ndarray) -> bool:
        """Lines 8 to 20: members on or within the margin leave their cluster.

        With boundary clusters those far within become its bounded part, and leave
        that once they are found outside the margin. Returns whether any sample moved.
        """
        outside = (self.cluster >= 0) & ~self.averaged
        leaves = outside & (slack <= 0)
        # Where a pseudo-centre is a support vector, it does not stand for a cluster without any.
        leaves[self.misplaced] = True
        bounded = np.zeros(self.problem.n, bool)
        if self.options.boundary_clusters:
            bounded = outside & ~np.isin(self.cluster, self.cluster[slack >= -_BOUNDARY_BAND])
            leaves &= ~bounded
            leaves |= self.averaged & (slack > -self.run.tol)
        self._move(leaves, bounded)
        return bool(leaves.any() or bounded.any())

    def _move(self, leaves: np.ndarray, bounded: np.ndarray | bool = False) -> None:
        """Take samples out of their clusters, and make others the bounded part of theirs."""
        changed = np.unique(self.cluster[leaves | bounded])
        self.averaged |= bounded
        self.averaged[leaves] = False
        self.cluster[leaves] = -1
        left = np.flatnonzero(np.isin(self.cluster, changed) & ~self.averaged)
        left = left[np.argsort(self.cluster[left], kind="stable")]
        numbers, starts = np.unique(self.cluster[left], return_index=True)
        for number, part in zip(numbers, np.split(left, starts[1:])):
            self.centre[number] = part[pseudo_centre(self.features[part])]

    def _record(self, reduction: Reduction, seconds: float) -> None:
        labels = self.problem.labels if self.problem.labels is not None else self.signs
        codes, counts = np.unique(labels[reduction.first], return_counts=True)
        self.n_train.append(len(reduction.first))
        self.n_train_by_class.append({int(c): int(k) for c, k in zip(codes, counts)})
        self.training_seconds.append(seconds)

    def _solution(self, status: Status) -> Solution:
        known = self.residual if self.beta is self.trained else None
        certificate = certify(self.problem, self.beta, known)
        optimal = certificate.kkt_violation <= self.run.tol
        intercept = certificate.intercept
        if optimal:
            status = Status.CONVERGED
        else:
            intercept = best_intercept(self.problem, certificate.residual)
            if self.options.exact and status is Status.CONVERGED:
                status = Status.STALLED
        details = {
            "base": self.base.name,
            "optimal": optimal,
            "passes": self.passes,
            "clusters": len(self.centre),
            "n_train": self.n_train,
            "n_train_by_class": self.n_train_by_class,
            "clustering_seconds": self.clustering_seconds,
            "training_seconds": self.training_seconds,
        }
        return Solution(
            self.beta, intercept, status, self.n_iter, details=details, certificate=certificate,
        )  # fmt: skip


class _PassMonitor(Monitor):
    """Reports the solve of one reduced problem to the monitor of the whole solve."""

    def __init__(self, whole: Monitor, reduction: Reduction, n_iter: int):
        super().__init__(max_iter=whole.max_iter, deadline=whole.deadline)
        self._whole, self._reduction, self._before = whole, reduction, n_iter

    def iterations_left(self, n_iter: int) -> int:
        return self._whole.iterations_left(self._before + n_iter)

    def should_stop(self, n_iter: int) -> Status | None:
        return self._whole.should_stop(self._before + n_iter)

    def update(self, n_iter, violation, objective, beta, intercept, n_settled=0) -> Status | None:
        of_all = self._reduction.distribute(beta)
        return self._whole.update(self._before + n_iter, violation, objective, of_all, intercept)


def _stages(problem: Problem) -> np.ndarray:
    """Parts of C to solve with in turn: ascending powers of ten up to 1."""
    n_stages = int(np.ceil(np.log10(max(hardness(problem.kernel, problem) / EASY_C, 1.0))))
    return 10.0 ** np.arange(-n_stages, 1)


def best_intercept(problem: Problem, residual: np.ndarray) -> float:
    """The intercept of the least hinge loss for a given β, optimal or not.

    The slope of the loss at b is −Σ (upper where residual > b, else lower): a sum
    that falls from Σ upper as b passes one residual after another.
    """
    order = np.argsort(residual, kind="stable")
    falls = np.cumsum((problem.upper - problem.lower)[order])
    at = int(np.searchsorted(falls, problem.upper.sum()))
    return float(residual[order[min(at, problem.n - 1)]])
