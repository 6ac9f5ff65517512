"""The boundary between a solver and all code that relies on its answer: the certificate decides.

A solver returns β and its own view of it. What a report says about optimality is computed here,
from β and the problem alone, and an invalid answer is refused by the solver's name.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from maxmargin.monitor import Monitor, Progress
from maxmargin.optimality import (
    FEASIBLE,
    NOT_FINITE,
    Certificate,
    certify,
    is_issued,
    violation_and_levels,
)
from maxmargin.problem import Problem, sums_of
from maxmargin.report import ProblemReport
from maxmargin.run import Run
from maxmargin.solution import Solution, Stages, Status
from maxmargin.solvers.base import Solver
from maxmargin.solvers.common.certified_run import CertificateCost


@dataclass(frozen=True, eq=False)
class Outcome:
    """The answer to one problem of a fit, as far as it has been proven.

    Attributes
    ----------
    beta, intercept : the decision function
    status : how the solve ended; CONVERGED means a KKT violation within tol, unless the solver
        declares itself approximate
    exact : whether the solver declares to end at the optimum
    kkt_violation, objective, duality_gap, levels : of the certificate
    stages : the models on the way, where the solver keeps them
    within_limits : of the `Solution`
    others : see `ProblemReport`
    """

    beta: np.ndarray
    intercept: float
    status: Status
    exact: bool
    solver: str
    reason: str
    n_iter: int
    kkt_violation: float
    objective: float
    duality_gap: float
    levels: tuple[float, ...]
    seconds: float
    kernel_evaluations: int
    n_samples: int
    n_bounded: int
    history: tuple[Progress, ...] = ()
    details: dict = field(default_factory=dict)
    stages: Stages | None = None
    within_limits: np.ndarray | None = None

    @property
    def n_support(self) -> int:
        return int(np.count_nonzero(self.beta))

    def not_separable(self, n_samples: int, violation: float) -> Outcome:
        """The same where there is no hard margin, because of `n_samples` samples.

        `violation` is that of the formulation, where β may grow without end.
        """
        details = self.details | {"beyond_hard_margin": n_samples}
        status = Status.STALLED if self.status is Status.CONVERGED else self.status
        return replace(self, status=status, details=details, kkt_violation=violation)

    def report(self, problem: str, quantities: dict[str, float] | None = None) -> ProblemReport:
        """The line of the fit's report; `problem` is its name there."""
        # The history ends with the certificate; the lines before it are the solver's estimates.
        last = Progress(
            self.seconds, self.n_iter, self.kkt_violation, self.objective, self.n_support,
            estimated=False,
        )  # fmt: skip
        return ProblemReport(
            problem=problem, solver=self.solver, reason=self.reason, status=str(self.status),
            exact=self.exact, seconds=self.seconds, n_iter=self.n_iter,
            kernel_evaluations=self.kernel_evaluations, n_samples=self.n_samples,
            n_support=self.n_support, n_bounded=self.n_bounded, objective=self.objective,
            duality_gap=self.duality_gap, kkt_violation=self.kkt_violation,
            history=(*self.history, last), details=self.details, quantities=quantities or {},
        )  # fmt: skip


def solve_certified(solver: Solver, problem: Problem, run: Run) -> Outcome:
    """Solve a problem, and judge the answer independently of the solver."""
    run.monitor.certificate_seconds = CertificateCost(problem)
    solution = _not_begun(solver, problem, run) or solver.solve(problem, run)
    _check_answer(solver, solution, problem)
    certificate = _certificate_of(solver, solution, problem)
    intercept = certificate.intercept if solver.exact else float(solution.intercept)
    if not np.isfinite(intercept):
        raise ValueError(_not_finite(solver))
    beta = solution.beta
    bounded = ((beta == problem.lower) | (beta == problem.upper)) & (beta != 0)
    monitor: Monitor = run.monitor
    return Outcome(
        beta, intercept,
        status=proven_status(solver, solution.status, certificate.kkt_violation, run.tol),
        exact=solver.exact,
        solver=solution.solver or solver.name,
        reason=solution.reason,
        n_iter=int(solution.n_iter),
        kkt_violation=certificate.kkt_violation,
        objective=certificate.objective,
        duality_gap=certificate.duality_gap,
        levels=certificate.levels,
        seconds=monitor.seconds,
        kernel_evaluations=problem.kernel.evaluations,
        n_samples=problem.n,
        n_bounded=int(np.count_nonzero(bounded)),
        history=tuple(monitor.history),
        details=solution.details,
        stages=solution.stages,
        within_limits=solution.within_limits,
    )  # fmt: skip


def _not_begun(solver: Solver, problem: Problem, run: Run) -> Solution | None:
    """The start as the answer, where the fit ended before this problem had its turn.

    Of many problems, what a solver does before its first step would add up to seconds.
    """
    stop = run.monitor.should_stop(0)
    if stop not in (Status.TIME_LIMIT, Status.INTERRUPTED) or not solver.capabilities.box:
        return None
    return Solution(run.initial_beta(problem), 0.0, stop, 0, reason="not begun: too late")


def violation_within(problem: Problem, beta: np.ndarray, lower, upper) -> float:
    """The KKT violation of β with other bounds than those of its problem."""
    residual = certify(problem, beta).residual
    epsilon, by_sign = problem.epsilon, problem.by_sign
    return violation_and_levels(beta, residual, lower, upper, epsilon, by_sign)[0]


def proven_status(solver: Solver, status: Status, violation: float, tol: float) -> Status:
    """How a solve ended: the certificate says whether it converged, the solver why it did not."""
    if not solver.exact:
        return status
    if violation <= tol:
        return Status.CONVERGED
    return Status.STALLED if status is Status.CONVERGED else status


def check_feasible(solver: Solver, infeasibility: float, sums, totals) -> None:
    """Refuse a β that violates the constraints, whatever status its solver claims."""
    if infeasibility <= FEASIBLE:
        return
    raise RuntimeError(
        f"{solver!r} returned dual coefficients that violate the constraints of the problem "
        f"(relative violation {infeasibility:.2g}; sums {_numbers(sums)}, which must be "
        f"{_numbers(totals)}): its answer is refused. Choose another solver."
    )


def _check_answer(solver: Solver, solution: Solution, problem: Problem) -> None:
    beta = getattr(solution, "beta", None)
    if not isinstance(solution, Solution) or not isinstance(beta, np.ndarray):
        raise TypeError(f"{solver!r} returned {type(solution).__name__}, not a Solution with a β.")
    if beta.shape != (problem.n,) or beta.dtype != np.float64:
        raise ValueError(
            f"{solver!r} returned dual coefficients of shape {beta.shape} and type {beta.dtype}; "
            f"the problem has {problem.n} samples, which take {problem.n} float64 numbers."
        )
    if not np.isfinite(beta).all():
        raise ValueError(_not_finite(solver))


def _certificate_of(solver: Solver, solution: Solution, problem: Problem) -> Certificate:
    """The certificate of the answer; a solver without a box constraint provides its own."""
    certificate = solution.certificate
    if not solver.capabilities.box and certificate is not None:
        return certificate
    if certificate is None or not is_issued(certificate, problem, solution.beta):
        certificate = certify(problem, solution.beta)
    check_feasible(
        solver, certificate.infeasibility, sums_of(solution.beta, problem.by_sign), problem.totals
    )  # fmt: skip
    return certificate


def _numbers(values) -> str:
    return " and ".join(f"{value:.6g}" for value in values)


def _not_finite(solver: Solver) -> str:
    return f"{NOT_FINITE} (solver={solver!r})"
