"""Probabilities as LIBSVM has them: a sigmoid for each pair of classes, and their coupling."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from maxmargin import sklearn_private
from maxmargin.sklearn_private import safe_split

# LIBSVM's constants: the least probability of a pair; the error of coupling times the number of
# classes at which it has converged, and its iterations at most; folds of the cross-validation.
_LEAST_PROBABILITY = 1e-7
_COUPLING_TOL = 0.005
_COUPLING_ITERATIONS = 100
FOLDS = 5
_TILE = 2**21  # numbers in the tables of one tile of samples


@dataclass(frozen=True, eq=False)
class PairSigmoids:
    """The probability of the first class of each pair is 1/(1 + exp(slope · f + offset)).

    f is the decision value in LIBSVM's sign, positive for the first class; its files call
    the two numbers probA and probB.
    """

    slopes: np.ndarray
    offsets: np.ndarray

    def probabilities(self, decisions: np.ndarray, n_classes: int) -> np.ndarray:
        """Probabilities of the classes, from the decision values of all pairs."""
        from scipy.special import expit

        of_first = expit(-(self.slopes * decisions + self.offsets))
        of_first = np.clip(of_first, _LEAST_PROBABILITY, 1.0 - _LEAST_PROBABILITY)
        if n_classes == 2:
            return np.hstack([of_first, 1.0 - of_first])
        size = max(1, _TILE // n_classes**2)
        tiles = [of_first[at : at + size] for at in range(0, len(of_first), size)]
        return np.concatenate([_coupled(tile, n_classes) for tile in tiles])


def fit_sigmoids(model, X, y, seed: int | None = None) -> PairSigmoids:
    """Sigmoids from the decision values of samples that were left out, in five folds.

    Each is fitted by scikit-learn's calibration (Platt's method). The model is not changed and
    need not be fitted.

    Raises
    ------
    ValueError
        One sentence, for one-vs-rest models of more than two classes.
    """
    from sklearn.base import clone
    from sklearn.model_selection import StratifiedKFold

    classes, codes = np.unique(y, return_inverse=True)
    n_classes = len(classes)
    if n_classes > 2 and model.multi_class == "ovr":
        raise ValueError(
            "Probabilities are those of pairs of classes: train with multi_class='ovo', not 'ovr'."
        )
    plain = clone(model).set_params(decision_function_shape="ovo", warm_start=False)
    decisions = np.empty((len(codes), n_classes * (n_classes - 1) // 2))
    for fit_on, test_on in _splits(StratifiedKFold, codes, seed):
        fitted = plain.fit(*safe_split(plain, X, y, fit_on))
        held_out, _ = safe_split(plain, X, y, test_on, fit_on)
        decisions[test_on] = fitted._decisions(held_out, "tasks")
    found = []
    for pair, (i, j) in enumerate(combinations(range(n_classes), 2)):
        of_pair = (codes == i) | (codes == j)
        is_first = (codes[of_pair] == i) * 1.0
        found.append(sklearn_private.sigmoid_calibration(decisions[of_pair, pair], is_first))
    slopes, offsets = np.array(found).T
    return PairSigmoids(slopes.copy(), offsets.copy())


def _splits(kind, codes: np.ndarray, seed: int | None):
    folds = min(FOLDS, int(np.bincount(codes).min()))
    if folds < 2:  # a class of one sample cannot be held out
        return [(np.arange(len(codes)), np.arange(len(codes)))]
    return kind(folds, shuffle=True, random_state=seed).split(codes, codes)


def _coupled(of_first: np.ndarray, n_classes: int) -> np.ndarray:
    """Probabilities that agree best with those of all pairs (Wu, Lin and Weng 2004, method 2).

    Each minimises Σ (r_ji p_i − r_ij p_j)², by the iteration of their Algorithm 2; a sample is
    done when LIBSVM would be.
    """
    n_samples = len(of_first)
    r = np.zeros((n_samples, n_classes, n_classes))
    for pair, (i, j) in enumerate(combinations(range(n_classes), 2)):
        r[:, i, j], r[:, j, i] = of_first[:, pair], 1.0 - of_first[:, pair]
    Q = -r * r.transpose(0, 2, 1)
    Q[:, range(n_classes), range(n_classes)] = (r**2).sum(axis=1)
    p = np.full((n_samples, n_classes), 1.0 / n_classes)
    left = np.arange(n_samples)
    for _ in range(max(_COUPLING_ITERATIONS, n_classes)):
        Qp = np.einsum("sij,sj->si", Q[left], p[left])
        pQp = np.einsum("si,si->s", p[left], Qp)
        wrong = np.abs(Qp - pQp[:, np.newaxis]).max(axis=1) >= _COUPLING_TOL / n_classes
        left, Qp, pQp = left[wrong], Qp[wrong], pQp[wrong]
        if not len(left):
            break
        p[left] = _round(Q[left], p[left], Qp, pQp)
    return p


def _round(Q: np.ndarray, p: np.ndarray, Qp: np.ndarray, pQp: np.ndarray) -> np.ndarray:
    """Set each probability in turn to its optimum, and scale the others to a sum of one."""
    for t in range(p.shape[1]):
        step = (pQp - Qp[:, t]) / Q[:, t, t]
        scale = 1.0 / (1.0 + step)
        pQp = (pQp + step * (step * Q[:, t, t] + 2.0 * Qp[:, t])) * scale**2
        Qp = (Qp + step[:, np.newaxis] * Q[:, t]) * scale[:, np.newaxis]
        p[:, t] += step
        p *= scale[:, np.newaxis]
    return p
