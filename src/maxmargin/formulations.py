"""Support vector machines as instances of the one dual problem."""

from __future__ import annotations

import numpy as np

# An infinite C would leave the problem without bounds. What counts is C times the size of the
# kernel values: from _HARD_MARGIN on, p − Kβ has no correct digit at the bound in float64, and
# the bound _LARGEST_C takes its place, at which it has some.
_HARD_MARGIN = 1e20
_LARGEST_C = 1e12
# The ρ of a ν-SVC is at least this multiple of its violation, or it is solved to a part of tol; the
# least such part.
_LEAST_RHO = 10.0
LEAST_PART_OF_TOL = 1e-3
# Steps towards it, in parts of those to the given tol or of the samples: where classes overlap so
# that there is no margin, no tol is low enough to find one.
STEPS_BELOW_TOL = 3
# A violation or a ρ, both of the scale of decision values, that is nothing but rounding.
_ROUNDING_OF_RHO = 1e-13


def c_svc(
    signs: np.ndarray, costs: np.ndarray, scale: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The C-SVC of samples with labels ±1: (linear, lower, upper) of the dual in β = yα.

    minimise ½αᵀQα − Σα with 0 ≤ α ≤ C, yᵀα = 0 and Q_ij = y_i y_j K_ij becomes
    minimise ½βᵀKβ − yᵀβ with β between 0 and yC, Σβ = 0.

    Parameters
    ----------
    signs : labels, +1.0 or −1.0
    costs : C of each sample, its weights included
    scale : the size of the kernel values, see `KernelMatrix.scale`
    """
    bounds = signs * _bounds(costs, scale)
    return signs, np.minimum(bounds, 0.0), np.maximum(bounds, 0.0)


def _bounds(costs: np.ndarray, scale: float) -> np.ndarray:
    return np.where(costs * scale < _HARD_MARGIN, costs, _LARGEST_C / scale)


def are_bounds(costs: np.ndarray, scale: float) -> bool:
    """Whether every C is itself the bound of its sample; see `c_svc`."""
    return bool((costs * scale < _HARD_MARGIN).all())


def requested_bounds(
    lower: np.ndarray, upper: np.ndarray, costs: np.ndarray, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of a problem, infinite where another one stands for a C."""
    replaced = costs * scale >= _HARD_MARGIN
    lower = np.where(replaced & (lower < 0), -np.inf, lower)
    return lower, np.where(replaced & (upper > 0), np.inf, upper)


def n_at_largest_cost(beta: np.ndarray, costs: np.ndarray, scale: float) -> int:
    """Samples whose β has met the bound that stands for their C."""
    replaced = costs * scale >= _HARD_MARGIN
    return int(np.count_nonzero(replaced & (np.abs(beta) >= _LARGEST_C / scale)))


# The others return the fields of a `Problem` but for the kernel. `costs` is the C of each
# sample, and `weights` its weight where the formulation has no C.


def nu_svc(signs: np.ndarray, weights: np.ndarray, nu: float) -> dict:
    """The ν-SVC of samples with labels ±1, in β = yα: both classes have the sum νΣw/2."""
    share = largest_nu(signs, weights)
    if nu > share:
        raise ValueError(
            f"specified nu is infeasible: nu={nu:g}, but with the weights of these two classes "
            f"it can be {share:g} at most."
        )
    total = 0.5 * nu * weights.sum()
    bounds = signs * weights
    return {
        "linear": np.zeros(len(signs)),
        "lower": np.minimum(bounds, 0.0),
        "upper": np.maximum(bounds, 0.0),
        "totals": (total, -total),
    }


def largest_nu(signs: np.ndarray, weights: np.ndarray) -> float:
    """The ν above which a ν-SVC is infeasible: its smaller class cannot reach its sum."""
    smaller = min(weights[signs > 0].sum(), weights[signs < 0].sum())
    return float(2.0 * smaller / weights.sum())


def epsilon_svr(targets: np.ndarray, costs: np.ndarray, epsilon: float, scale: float = 1.0) -> dict:
    """The ε-SVR in β = α − α*: at most one of the two is not zero, so that α + α* = |β|."""
    costs = _bounds(costs, scale)
    return {"linear": targets, "lower": -costs, "upper": costs, "epsilon": float(epsilon)}


def tol_for_margin(rho: float, violation: float, tol: float, least_tol: float) -> float:
    """The tol with which a ν-SVC should be solved, after it was solved to `tol`.

    The decision function is divided by ρ, half the distance of the levels of the two classes, so
    that the margin is at ±1, and the violation is divided with it. A lower tol is worth it where
    the margin could be mere violation; a ρ above the violation tells which tol suffices.
    """
    if rho >= _LEAST_RHO * violation or violation <= max(least_tol, _ROUNDING_OF_RHO):
        return tol
    enough = 0.5 * rho / _LEAST_RHO if rho > violation else least_tol
    return max(enough, least_tol)


def divisor_of(rho, violation):
    """What the decision function of a ν-SVC is divided by: ρ, where that is no mere violation."""
    least = np.maximum(np.maximum(rho, violation), _ROUNDING_OF_RHO)
    return np.where(rho > violation, rho, least)


def nu_svr(targets: np.ndarray, costs: np.ndarray, nu: float, scale: float = 1.0) -> dict:
    """The ν-SVR in β = α − α* where its tube has a width: then Σα = Σα* = νΣC/2.

    The constraint of the dual is Σ(α + α*) ≤ νΣC. Where it is slack the tube has no width, and
    the problem is `epsilon_svr` with ε = 0; a solver that notices says so.
    """
    total = 0.5 * nu * float(costs.sum())
    bounds = _bounds(costs, scale)
    # One sample cannot be on both sides, so the two sums may be out of reach by one sample's
    # bound; and far out of reach where bounds stand for a C that is too large to be one.
    reachable = bool(2.0 * total <= bounds.sum() - bounds.max())
    totals: tuple[float, ...] = (total, -total) if reachable else (0.0,)
    return {
        "linear": targets, "lower": -bounds, "upper": bounds, "totals": totals,
        "limited": reachable,
    }  # fmt: skip


def one_class(weights: np.ndarray, nu: float) -> dict:
    """The one-class SVM, scaled as LIBSVM does: 0 ≤ β ≤ w and Σβ = νΣw."""
    n = len(weights)
    return {
        "linear": np.zeros(n),
        "lower": np.zeros(n),
        "upper": weights,
        "totals": (nu * float(weights.sum()),),
    }
