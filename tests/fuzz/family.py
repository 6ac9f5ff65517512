"""Random problems of regression, outliers and ν, and their judge; nothing here imports the package.

Everything is computed from the public fitted attributes and the training data, in the widest
floating-point type that there is.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from .judge import EPS, ROUNDINGS, binary_problems, costs_of, kernel_and_rounding

KINDS = ("SVR", "NuSVR", "NuSVC", "OneClassSVM")
# Rounding of a bound or of a factor on all coefficients, relative to them.
_OF_BOUNDS = 64 * EPS
_OF_SUMS = 1e-9


# --- problems ---------------------------------------------------------------


def targets_of(rng, kind: str, X, classes, notes) -> np.ndarray:
    """Targets of the samples in X: the classes, numbers to predict, or nothing of meaning."""
    if kind in ("NuSVC", "OneClassSVM"):
        return classes
    n = len(X)
    shape = str(rng.choice(["smooth", "classes", "noise", "constant"], p=[0.6, 0.2, 0.15, 0.05]))
    notes.append(shape)
    first = X[:, 0] / (np.abs(X[:, 0]).max() or 1.0)
    targets = {
        "smooth": np.sin(4 * first) + 0.2 * rng.normal(size=n),
        "classes": classes.astype(float),
        "noise": rng.standard_t(2, size=n),
        "constant": np.ones(n),
    }[shape]
    return targets * 10.0 ** rng.uniform(-3, 4) if rng.random() < 0.3 else targets


def parameters_of(rng, kind: str, params: dict, y, weights) -> dict:
    """The parameters of an estimator, from those of an `SVC`."""
    params = dict(params)
    cost = params.pop("C")
    if kind in ("SVR", "NuSVR"):
        params["C"] = cost
    if kind == "SVR":
        spread = float(y.std()) or 1.0
        params["epsilon"] = 0.0 if rng.random() < 0.1 else spread * 10.0 ** rng.uniform(-3, 0.5)
    else:
        params["nu"] = float(np.clip(rng.uniform(0, 1.1), 1e-3, 1.0))
    if kind != "NuSVC":
        del params["class_weight"], params["multi_class"]
    else:
        params["nu"] *= _largest_nu(params, y, weights)
    return params


def _largest_nu(params: dict, y, weights) -> float:
    """The largest ν with which every binary problem of a ν-SVC is feasible."""
    costs = costs_of(params | {"C": 1.0}, y, weights)
    sums = np.array([costs[y == label].sum() for label in np.unique(y)])
    if params["multi_class"] == "ovr" and len(sums) > 2:
        pairs = [(one, sums.sum() - one) for one in sums]
    else:
        pairs = list(combinations(sums, 2))
    return min(1.0, min(2.0 * min(pair) / sum(pair) for pair in pairs) * (1 - 1e-9))


def solver_of(rng, kind: str) -> tuple[str, dict]:
    """A solver that has this formulation, and options of it."""
    names = ["auto", "auto", "decomposition", "smo", "sweeps"]
    names += ["irwls"] if kind in ("SVR", "OneClassSVM") else []
    names += ["hierarchical"] if kind == "SVR" else []
    name = str(rng.choice(names))
    pick = lambda *values: values[rng.integers(len(values))]  # noqa: E731
    if name in ("decomposition", "smo"):
        return name, {"shrinking": pick(True, False)}
    if name == "irwls":
        return name, {"chunk_size": pick("auto", "all", 20, 300)}
    if name == "hierarchical":
        return name, {"partitions": pick(1, 2, 4)}
    return name, {}


# --- the judge --------------------------------------------------------------


def complaints(model, problem, *, exact: bool, solves_all: bool) -> list[str]:
    """What is wrong with a fitted model; an empty list where nothing is.

    Parameters
    ----------
    exact : whether the solver promises the optimum where it says "converged"
    solves_all : whether it promises to converge wherever rounding allows it
    """
    K, rounding = kernel_and_rounding(problem.X, problem.params, problem.weights)
    reports, answers = list(model.fit_report_), list(_dual_problems(model, problem))
    if len(reports) != len(answers):
        return [f"{len(reports)} reports for {len(answers)} problems"]
    found = []
    for report, (index, dual) in zip(reports, answers):
        part = np.ix_(index, index)
        if not (np.isfinite(dual.beta).all() and np.isfinite(dual.intercept)):
            found.append(f"{report.problem}: coefficients or intercept are not finite")
            continue
        tol = problem.params["tol"]
        sentences = dual.complaints(K[part], rounding[part], report, tol, exact, solves_all)
        found += [f"{report.problem}: {sentence}" for sentence in sentences]
    return found


def _dual_problems(model, problem):
    """(samples, dual problem with its answer) of each report."""
    params, y, weights = problem.params, problem.y, problem.weights
    n = problem.X.shape[0]
    if problem.kind == "NuSVC":
        costs = costs_of(params | {"C": 1.0}, y, weights)
        for index, signs, beta, intercept in binary_problems(model, y, params["multi_class"]):
            taken = costs[index] > 0
            index, signs, beta = index[taken], signs[taken], beta[taken]
            yield index, _NuClasses(beta, intercept, costs[index], signs, params["nu"])
        return
    weights = np.ones(n) if weights is None else weights
    taken = np.flatnonzero(weights > 0)
    stored = model.dual_coef_
    beta = np.zeros(n)
    beta[model.support_] = (stored.toarray() if hasattr(stored, "toarray") else stored)[0]
    beta, intercept = beta[taken], float(model.intercept_[0])
    if problem.kind == "OneClassSVM":
        yield taken, _OneClass(beta, intercept, weights[taken], params["nu"])
        return
    with np.errstate(invalid="ignore"):
        costs = params["C"] * weights[taken]
    if problem.kind == "SVR":
        yield taken, _Tube(beta, intercept, costs, y[taken], params["epsilon"])
    else:
        yield taken, _NuTube(beta, intercept, costs, y[taken], params["nu"])


class _Dual:
    """Minimise ½βᵀKβ − pᵀβ + ε‖β‖₁ with lower ≤ β ≤ upper and sums fixed, and a β that claims to.

    `groups` are the samples of each sum in turn, and `wanted` what the sums are.
    """

    linear: np.ndarray | float = 0.0
    epsilon = 0.0
    wanted: tuple[float, ...] = (0.0,)

    def __init__(self, beta, intercept: float, costs) -> None:
        self.beta, self.intercept, self.costs = beta, intercept, costs

    def bounds(self):
        return -self.costs, self.costs

    def sums(self) -> tuple[float, ...]:
        return (self.beta.sum(),)

    def pairs(self, residual, slack: float):
        """The highest residual of those that may grow, the lowest of those that may shrink, for
        each sum; β within a part `slack` of its bound counts as at it."""
        yield self._pair(residual, slack, np.ones(len(self.beta), bool))

    def _pair(self, residual, slack, members):
        lower, upper = self.bounds()
        beta = self.beta
        up = members & (beta < upper * (1 - slack))
        down = members & (beta > lower * (1 - slack))
        growing = np.where(beta >= 0, residual - self.epsilon, residual + self.epsilon)
        shrinking = np.where(beta > 0, residual - self.epsilon, residual + self.epsilon)
        return growing[up].max(initial=-np.inf), shrinking[down].min(initial=np.inf)

    def violation(self, pairs) -> float:
        return max(0.0, *(float(highest - lowest) for highest, lowest in pairs))

    def levels_agree(self, pairs, lost: float) -> bool:
        """Whether the intercept is one that the residuals allow."""
        ends = [float(end) for pair in pairs for end in pair]
        return not np.isfinite(ends).all() or min(ends) - lost <= self.intercept <= max(ends) + lost

    def reported(self, violation: float, report, tol: float, size: float) -> bool:
        """Whether this is the violation that the report tells."""
        return abs(report.kkt_violation - violation) <= size

    def complaints(self, K, rounding, report, tol, exact, solves_all):
        yield from self._infeasible()
        lost = ROUNDINGS * EPS * float((rounding @ np.abs(self.beta)).max(initial=0.0))
        lost += 16 * EPS * (1.0 + float(np.abs(self.linear).max()))
        residual = self.linear - K @ self.beta
        pairs = [list(self.pairs(residual, slack)) for slack in (0.0, _OF_BOUNDS)]
        violations = [self.violation(each) for each in pairs]
        least = min(violations)
        converged = report.status == "converged" and exact
        if converged and not least <= tol + lost:
            yield f"converged at violation {least:.4g}, tol {tol:g}, rounding {lost:.1g}"
        at_bounds = ROUNDINGS * EPS * float((self.costs * rounding.diagonal()).max())
        provable = max(lost, at_bounds) < 0.01 * tol
        if report.status == "stalled" and solves_all and provable:
            yield f"stalled at {least:.4g}, though rounding is but {lost:.1g}"
        sizes = [lost + 1e-9 * violation for violation in violations]
        if not any(self.reported(v, report, tol, s) for v, s in zip(violations, sizes)):
            yield f"reported violation {report.kkt_violation:.6g}, it is {least:.6g} ± {lost:.1g}"
        if converged and not any(self.levels_agree(each, lost + 1e-9 * tol) for each in pairs):
            yield f"intercept {self.intercept:.6g} outside {pairs[0]}"
        norm = float(np.abs(self.beta).sum())
        objective = float(-0.5 * (self.beta @ (self.linear + residual))) + self.epsilon * norm
        size = lost * norm + 1e-9 * (abs(objective) + self.epsilon * norm) + 1e-300
        if not abs(report.objective - objective) <= size:
            yield f"reported objective {report.objective:.10g}, it is {objective:.10g}"

    def _infeasible(self):
        lower, upper = self.bounds()
        beyond = float(np.maximum(lower - self.beta, self.beta - upper).max())
        if beyond > _OF_SUMS * float(np.abs(self.beta).max()):
            yield f"β is beyond its bounds by {beyond:.3g}"
        scale = max(np.abs(self.beta).sum(), *map(abs, self.wanted))
        for found, wanted in zip(self.sums(), self.wanted):
            if abs(found - wanted) > 2 * _OF_SUMS * scale:
                yield f"a sum is {found:.6g} where it must be {wanted:.6g}"


class _Tube(_Dual):
    """The ε-SVR."""

    def __init__(self, beta, intercept, costs, targets, epsilon) -> None:
        super().__init__(beta, intercept, costs)
        self.linear, self.epsilon = targets, epsilon


class _BySign(_Dual):
    """A sum of its own for the positive and for the negative β."""

    def sums(self):
        return self.beta[self.beta > 0].sum(), self.beta[self.beta < 0].sum()


class _NuTube(_BySign):
    """The ν-SVR: ‖β‖₁ ≤ νΣC. Where that is slack, it is the ε-SVR of ε = 0."""

    def __init__(self, beta, intercept, costs, targets, nu) -> None:
        super().__init__(beta, intercept, costs)
        self.linear = targets
        self.limit = nu * costs.sum()
        self.met = np.abs(beta).sum() >= self.limit * (1 - _OF_SUMS)
        if self.met and np.isfinite(self.limit):
            self.wanted = (0.5 * self.limit, -0.5 * self.limit)

    def sums(self):
        return super().sums() if len(self.wanted) == 2 else (self.beta.sum(),)

    def pairs(self, residual, slack):
        everything = np.ones(len(self.beta), bool)
        if len(self.wanted) == 1:
            yield self._pair(residual, slack, everything)
            return
        # A β of the other sign takes part in the other sum; one at zero may enter either.
        lower, upper = self.bounds()
        beta = self.beta
        enters = residual[(beta >= 0) & (beta < upper * (1 - slack))]
        yield enters.max(initial=-np.inf), residual[beta > 0].min(initial=np.inf)
        leaves = residual[(beta <= 0) & (beta > lower * (1 - slack))]
        yield residual[beta < 0].max(initial=-np.inf), leaves.min(initial=np.inf)

    def reported(self, violation, report, tol, size):
        # A tube of negative width is a violation too, which these pairs do not show; of a β that
        # has not converged, it may be any that is not smaller.
        if report.status != "converged":
            return report.kkt_violation >= violation - size
        return violation - size <= report.kkt_violation <= max(violation, tol) + size


class _NuClasses(_BySign):
    """The ν-SVC of two classes; the coefficients of its decision function are β/ρ."""

    def __init__(self, beta, intercept, weights, signs, nu) -> None:
        total = 0.5 * nu * weights.sum()
        positive = beta[signs > 0].sum()
        self.factor = total / positive if positive > 0 else 1.0
        super().__init__(beta * self.factor, intercept * self.factor, weights)
        self.signs, self.wanted = signs, (total, -total)

    def bounds(self):
        ends = self.signs * self.costs
        return np.minimum(ends, 0.0), np.maximum(ends, 0.0)

    def sums(self):
        return self.beta[self.signs > 0].sum(), self.beta[self.signs < 0].sum()

    def pairs(self, residual, slack):
        for sign in (1, -1):
            yield self._pair(residual, slack, self.signs == sign)


class _OneClass(_Dual):
    """The one-class SVM."""

    def __init__(self, beta, intercept, weights, nu) -> None:
        super().__init__(beta, intercept, weights)
        self.wanted = (nu * weights.sum(),)

    def bounds(self):
        return np.zeros(len(self.beta)), self.costs

    def levels_agree(self, pairs, lost):
        # The boundary is moved outwards by the violation, so that free samples are inside.
        moved = self.violation(pairs) + lost + 1e-10 * abs(self.intercept)
        return super().levels_agree(pairs, lost + moved)
