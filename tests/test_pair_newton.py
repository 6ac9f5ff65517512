"""Newton's step of the free samples inside the compiled steps of a pair."""

import numpy as np
import pytest
from numba import njit
from sklearn.metrics.pairwise import rbf_kernel

from maxmargin.solvers.pairs.newton import free_samples, newton_change


@njit
def change_of(vectors, rows, memory, first, by_group):
    free = free_samples(vectors[0], vectors[2], vectors[3])
    return free, newton_change(free, vectors, rows, memory, first, by_group)


@pytest.fixture(params=[None, True], ids=["one sum", "two sums"])
def by_group(request):
    return request.param


@pytest.fixture(params=[0.01, 0.2, 0.4])
def step(request, by_group):
    """Two classes whose rows lie apart in memory, some β at a bound, and how far the optimum is.

    The residual of the free samples is that of an optimum at a known change from β.
    """
    random = np.random.RandomState(0)
    n, first, gap = 40, 18, 7
    places = np.concatenate([np.arange(first), np.arange(first, n) + gap])
    K = rbf_kernel(random.randn(n + gap, 3), gamma=0.5)
    own = K[np.ix_(places, places)]
    label = np.where(np.arange(n) < first, 1.0, -1.0)
    lower, upper = np.minimum(label, 0.0), np.maximum(label, 0.0)
    beta = label * random.uniform(0.2, 0.8, n)
    beta[::9], beta[4::9] = 0.0, label[4::9]
    wanted = np.where((beta > lower) & (beta < upper), request.param * random.randn(n), 0.0)
    level = np.full(n, 0.3) if by_group is None else 0.3 * label
    for sign in (label, -label) if by_group else (label**2,):
        group = (beta % 1 != 0) & (sign > 0)
        wanted[group] -= wanted[group].mean()
    rows = places * (n + gap), places * (n + gap) + first + gap
    vectors = beta, own @ wanted + level, lower, upper, np.ones(n, np.float32)
    free, change = change_of(vectors, rows, K.ravel(), first, by_group)
    return own, vectors, free, change, wanted


def test_without_a_bound_in_the_way_it_is_the_solution_of_the_system(step):
    _, (beta, _, lower, upper, _), free, change, wanted = step
    np.testing.assert_array_equal(free, np.flatnonzero((beta > lower) & (beta < upper)))
    if np.abs(wanted).max() < 0.2:
        np.testing.assert_allclose(change, wanted[free], atol=1e-9)


def test_the_end_is_feasible_and_the_objective_falls(step, by_group):
    K, (beta, residual, lower, upper, _), free, change, _ = step
    K, beta = K[np.ix_(free, free)], beta[free]
    assert (beta + change >= lower[free] - 1e-12).all()
    assert (beta + change <= upper[free] + 1e-12).all()
    of_first = beta > 0
    sums = [change[of_first].sum(), change[~of_first].sum()] if by_group else [change.sum()]
    assert np.abs(sums).max() <= 1e-12 * np.abs(change).sum()
    assert 0.5 * change @ K @ change - residual[free] @ change < 0
