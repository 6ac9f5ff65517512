"""The problems of a fit: the samples, the formulation and the meaning of the answer of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from maxmargin import formulations
from maxmargin.solution import Status

if TYPE_CHECKING:  # kernels, and with them the compiler, are loaded with the first fit
    from maxmargin.optimality import Certificate
    from maxmargin.problem import Problem
    from maxmargin.run import Run
    from maxmargin.training.boundary import Outcome

# Part of ‖β‖₁ within which a limit on it counts as met.
_ROUNDING_OF_LIMIT = 1e-9
# Part of a decision value that its rounding may be.
_ROUNDING_OF_DECISION = 1e-11


@dataclass(frozen=True, eq=False)
class Task:
    """One problem of a fit, of the samples `index`."""

    index: np.ndarray

    def name(self, data) -> str:
        """What the report calls it."""
        raise NotImplementedError

    def formulate(self, data, scale: float) -> dict:
        """The fields of its `Problem` but for the kernel, whose values have that scale."""
        raise NotImplementedError

    def n_beyond_bounds(self, data, beta: np.ndarray, scale: float) -> int:
        """The number of samples at a bound that stands for a C too large to be one."""
        return formulations.n_at_largest_cost(beta, data.costs[self.index], scale)

    def requested_bounds(self, data, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
        """Bounds on β as the formulation has them; see `formulations.c_svc`."""
        costs, scale = data.costs[self.index], problem.kernel.scale
        return formulations.requested_bounds(problem.lower, problem.upper, costs, scale)

    def answer(self, outcome: Outcome) -> tuple[np.ndarray, float]:
        """Coefficients and intercept of the decision function."""
        return outcome.beta, outcome.intercept

    def quantities(self, outcome: Outcome) -> dict[str, float]:
        """What the report says of the formulation."""
        return {}

    def lower_tol(self, found: Certificate | Outcome, tol: float) -> float:
        """The tol to go on with after a solution within tol; tol itself where that will do."""
        return tol

    def judged(self, problem: Problem, outcome: Outcome, tol: float) -> Outcome:
        """The answer to a problem as an answer to the formulation."""
        return outcome

    def follow_up(
        self, problem: Problem, outcome: Outcome, run: Run, tol: float
    ) -> tuple[Problem, Run] | None:
        """Another problem to solve where this one does not answer the formulation to tol."""
        return None


@dataclass(frozen=True, eq=False)
class EpsilonRegression(Task):
    """The ε-SVR."""

    epsilon: float

    def name(self, data) -> str:
        return "regression"

    def formulate(self, data, scale: float) -> dict:
        targets, costs = data.targets[self.index], data.costs[self.index]
        return formulations.epsilon_svr(targets, costs, self.epsilon, scale)

    def quantities(self, outcome):
        return {"epsilon": float(self.epsilon)}


@dataclass(frozen=True, eq=False)
class NuRegression(Task):
    """The ν-SVR: ‖β‖₁ ≤ νΣC, the `limit`, and ε is the multiplier of that.

    Where the limit is met, β has two sums, and ε follows from their two levels. Where it is
    slack, ε is zero. Which of the two it is shows the answer to either problem.
    """

    nu: float
    limit: float

    def name(self, data) -> str:
        return "regression"

    def formulate(self, data, scale: float) -> dict:
        targets, costs = data.targets[self.index], data.costs[self.index]
        return formulations.nu_svr(targets, costs, self.nu, scale)

    def quantities(self, outcome):
        return {"nu": float(self.nu), "epsilon": _tube(outcome.levels)}

    def judged(self, problem, outcome, tol):
        # With two sums, a negative ε is a violation: the objective falls if ‖β‖₁ does. With one,
        # the limit on ‖β‖₁ may be exceeded, and all that is known is that the tube has a width.
        violation = max(outcome.kkt_violation, outcome.levels[-1] - outcome.levels[0])
        if not problem.by_sign and self._exceeds(outcome.beta):
            violation = np.inf
        if violation <= tol or outcome.status != Status.CONVERGED:
            return replace(outcome, kkt_violation=violation)
        return replace(outcome, kkt_violation=violation, status=Status.STALLED)

    def follow_up(self, problem, outcome, run, tol):
        if outcome.status != Status.STALLED:
            return None
        totals: tuple[float, ...] = (0.0,)
        start = outcome.beta if outcome.within_limits is None else outcome.within_limits
        if problem.by_sign:
            if outcome.within_limits is None and outcome.levels[0] >= outcome.levels[1]:
                return None
        elif self._exceeds(outcome.beta):
            totals = (0.5 * self.limit, -0.5 * self.limit)
            start = outcome.beta * (self.limit / np.abs(outcome.beta).sum())
        else:
            return None
        # A solver that gave two sums up in error gets them as fixed the second time.
        return replace(problem, totals=totals, limited=False), replace(run, start=start)

    def _exceeds(self, beta) -> bool:
        return float(np.abs(beta).sum()) > self.limit * (1 + _ROUNDING_OF_LIMIT)


def _tube(levels: tuple[float, ...]) -> float:
    """Half the width of the tube that the multipliers of the two sums imply."""
    return max(0.0, 0.5 * (levels[0] - levels[-1]))


@dataclass(frozen=True, eq=False)
class OneClass(Task):
    """The one-class SVM."""

    nu: float

    def name(self, data) -> str:
        return "one class"

    def formulate(self, data, scale: float) -> dict:
        return formulations.one_class(data.costs[self.index], self.nu)

    def answer(self, outcome):
        # Free support vectors are on the boundary: they count as inliers in spite of rounding.
        rounding = _ROUNDING_OF_DECISION * abs(outcome.intercept)
        return outcome.beta, outcome.intercept + outcome.kkt_violation + rounding

    def quantities(self, outcome):
        return {
            "nu": float(self.nu),
            "rho": -self.answer(outcome)[1],
            "outliers": outcome.n_bounded / outcome.n_samples,
        }
