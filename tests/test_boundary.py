"""The certificate is a boundary: a report says what is proven, whatever the solver says."""

from __future__ import annotations

import dataclasses
import types

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import oracle
from maxmargin import SVC
from maxmargin.kernels.user_values import PrecomputedKernelMatrix
from maxmargin.optimality import Certificate, certify, infeasibility_of, violation_and_levels
from maxmargin.problem import Problem, nearest_feasible, sums_of
from maxmargin.run import Run
from maxmargin.solution import Solution, Status
from maxmargin.solvers import SMO, SOLVERS, Capabilities, Solver, make_solver
from maxmargin.training.fit import check_formulation


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    return X, (X[:, 0] + rng.normal(size=60) > 0).astype(int)


class Lying(Solver):
    """Solves the problem, and then changes its answer."""

    name = "lying"

    def __init__(self, lie):
        self.lie = lie

    def solve(self, problem: Problem, run: Run) -> Solution:
        return self.lie(problem, SMO().solve(problem, run))


def lie(**changes):
    return lambda problem, solution: dataclasses.replace(solution, **changes)


def forged(problem, solution):
    """β = 0 with the certificate of an optimum."""
    zero = np.zeros(problem.n)
    best = Certificate(problem, zero, zero, 0.0, 0.0, 0.0, 0.0, (0.0,))
    return dataclasses.replace(solution, beta=zero, certificate=best)


def of_another_beta(problem, solution):
    """β = 0 with the true certificate of the optimum."""
    return dataclasses.replace(solution, beta=np.zeros(problem.n))


@pytest.mark.parametrize("answer", [forged, of_another_beta])
def test_converged_above_tol_is_stalled(data, answer):
    with pytest.warns(ConvergenceWarning, match="could not reach tol"):
        report = SVC(solver=Lying(answer)).fit(*data).fit_report_
    assert report.status == "stalled" and report.kkt_violation == 2.0
    assert "optimal" not in str(report)


def test_the_violation_of_the_report_is_that_of_the_model(data):
    X, y = data

    def rough(problem, solution):
        return SMO().solve(problem, Run(tol=0.5, refine=False))

    with pytest.warns(ConvergenceWarning):
        model = SVC(gamma=0.5, solver=Lying(rough)).fit(X, y)
    labels = np.where(y == 0, 1.0, -1.0)
    alpha = np.zeros(len(y))
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    right = oracle.kkt_violation(
        oracle.kernel_values(X, X, "rbf", 0.5), labels, alpha, np.ones(len(y))
    )
    assert model.fit_report_.kkt_violation == pytest.approx(right, rel=1e-9)


def test_the_intercept_of_an_exact_solver_follows_from_beta(data):
    model = SVC(solver=Lying(lie(intercept=1e6))).fit(*data)
    assert model.intercept_ == pytest.approx(SVC(solver="smo").fit(*data).intercept_, abs=1e-6)


def test_stalled_within_tol_is_converged(data):
    report = SVC(solver=Lying(lie(status=Status.STALLED))).fit(*data).fit_report_
    assert report.status == "converged" and report.kkt_violation <= 1e-3


INFEASIBLE = {
    "beyond its bounds": lambda problem, s: dataclasses.replace(s, beta=3.0 * s.beta),
    "off its sum": lambda problem, s: dataclasses.replace(s, beta=np.maximum(s.beta, 0.0)),
}


@pytest.mark.parametrize("how", INFEASIBLE)
def test_infeasible_answers_are_refused_by_name(data, how):
    model = SVC(solver=Lying(INFEASIBLE[how]))
    with pytest.raises(RuntimeError, match=r"Lying\(.*violate the constraints.*must be 0"):
        model.fit(*data)
    assert not hasattr(model, "support_")


@pytest.mark.parametrize(
    ("answer", "error", "sentence"),
    [
        (lambda problem, s: None, TypeError, "returned NoneType, not a Solution"),
        (lie(beta=None), TypeError, "not a Solution with a β"),
        (lie(beta=np.zeros(7)), ValueError, r"shape \(7,\).*60 samples"),
        (lie(beta=np.zeros(60, np.float32)), ValueError, "type float32"),
        (lie(beta=np.full(60, np.nan)), ValueError, r"not finite.*Lying"),
        (lie(beta=np.full(60, np.inf)), ValueError, r"not finite.*Lying"),
    ],
)
def test_answers_that_are_none_are_refused_by_name(data, answer, error, sentence):
    with pytest.raises(error, match=sentence):
        SVC(solver=Lying(answer)).fit(*data)


def test_an_approximate_solver_is_called_so(data):
    class Rough(Lying):
        capabilities = Capabilities(exact=False)

    report = SVC(solver=Rough(of_another_beta)).fit(*data).fit_report_
    assert report.status == "converged" and not report.exact
    assert report.kkt_violation == 2.0 and "approximate" in str(report)


def test_only_certify_issues_certificates(data):
    """A residual that was computed elsewhere is believed only where it agrees with the kernel."""
    X, y = data
    K = oracle.kernel_values(X, X, "rbf", 0.5)
    signs = np.where(y == 0, 1.0, -1.0)
    problem = Problem(
        PrecomputedKernelMatrix(K), signs, np.minimum(signs, 0.0), np.maximum(signs, 0.0)
    )
    beta = SMO().solve(problem, Run()).beta
    exact = signs - K @ beta
    assert certify(problem, beta, exact).residual is exact
    wrong = exact.copy()
    wrong[::3] = 0.0
    np.testing.assert_allclose(certify(problem, beta, wrong).residual, exact, atol=1e-12)


def test_solvers_declare_their_formulations():
    other = types.SimpleNamespace(_formulation="epsilon_svr")
    for name in SOLVERS:
        solver = make_solver(name)
        if "epsilon_svr" not in solver.capabilities.formulations:
            with pytest.raises(ValueError, match=f"solver '{name}' does not solve"):
                check_formulation(other, solver)
        check_formulation(types.SimpleNamespace(_formulation="c_svc"), solver)


@pytest.mark.parametrize("totals", [(0.0,), (2.5,), (1.5, -2.0)])
def test_a_beta_is_made_feasible_for_its_sums(totals):
    rng = np.random.default_rng(3)
    lower, upper = -rng.uniform(0.5, 1, 30), rng.uniform(0.5, 1, 30)
    for start in (np.zeros(30), rng.normal(size=30), np.full(30, 9.0)):
        beta = nearest_feasible(start, lower, upper, totals)
        assert infeasibility_of(beta, lower, upper, totals) <= 1e-12
        np.testing.assert_allclose(sums_of(beta, len(totals) == 2), totals, atol=1e-12)


@pytest.mark.parametrize(("epsilon", "by_sign"), [(0.0, False), (0.3, False), (0.0, True)])
def test_the_violation_is_the_best_first_order_decrease_of_a_pair(epsilon, by_sign):
    """By definition: move t from one β to another of the same sum, for all pairs."""
    rng = np.random.default_rng(5)
    n, t = 12, 1e-7
    beta = np.array([0.0, 0.0, 0.5, -0.5, 1.0, -1.0, 0.2, -0.2, 0.0, 1.0, -1.0, 0.4])
    lower, upper, residual = -np.ones(n), np.ones(n), rng.normal(size=n)

    def decrease(i, j):
        if beta[i] + t > upper[i] or beta[j] - t < lower[j]:
            return 0.0
        if by_sign and (beta[i] >= 0) != (beta[j] > 0):
            return 0.0
        new = beta.copy()
        new[i] += t
        new[j] -= t
        return residual @ (new - beta) / t - epsilon * (abs(new) - abs(beta)).sum() / t

    best = max(decrease(i, j) for i in range(n) for j in range(n) if i != j)
    violation, levels = violation_and_levels(beta, residual, lower, upper, epsilon, by_sign)
    assert violation == pytest.approx(best, abs=1e-6) and len(levels) == 1 + by_sign
