"""Systems of samples that come and go: the borders of one factor against a factor of each set."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from maxmargin.solvers.common import changing_system
from maxmargin.solvers.common.changing_system import ChangingSystem


def gaussians(n, seed=0):
    X = np.random.default_rng(seed).uniform(-1, 1, size=(n, 4))
    return np.exp(-((X[:, None] - X) ** 2).sum(axis=2))


def exact(K, inside, weights, right):
    return np.linalg.solve(K[np.ix_(inside, inside)] + np.diag(weights[inside]), right)


@pytest.mark.parametrize("changes", [1, 12, 60])
def test_any_sequence_of_sets_is_solved(changes):
    n, rng = 400, np.random.default_rng(1)
    K, weights = gaussians(n), rng.uniform(1e-3, 1e-2, n)
    system, is_inside, factors = ChangingSystem(K), np.arange(n) < 260, set()
    for _ in range(12):
        inside = np.flatnonzero(is_inside)
        right = rng.normal(size=(len(inside), 2))
        solve = system.solver(inside, weights)
        assert_allclose(solve(right), exact(K, inside, weights, right), rtol=1e-8, atol=1e-8)
        assert_allclose(solve(right[:, 0]), solve(right)[:, 0], rtol=1e-10, atol=1e-10)
        factors.add(system._factor)
        moved = rng.permutation(n)[:changes]
        is_inside[moved] = ~is_inside[moved]
    assert (len(factors) == 1) == (changes == 1)  # many changes ask for a new factor


def test_only_samples_that_come_or_only_samples_that_go():
    n = 400
    K, weights, right = gaussians(n), np.full(n, 1e-3), np.sin(np.arange(n))
    for later in (np.arange(0, 310), np.arange(10, 300)):
        system = ChangingSystem(K)
        system.solver(np.arange(300), weights)
        first = system._factor
        found = system.solver(later, weights)(right[later])
        assert system._factor is first
        assert_allclose(found, exact(K, later, weights, right[later]), rtol=1e-8, atol=1e-8)


def test_other_weights_and_small_sets_have_a_factor_of_their_own():
    n = 300
    K, weights, right = gaussians(n), np.full(n, 1e-3), np.sin(np.arange(n))
    system = ChangingSystem(K)
    for count, weight in ((250, 1.0), (250, 0.5), (20, 0.5), (21, 0.5)):
        inside, scaled = np.arange(count), weight * weights
        found = system.solver(inside, scaled)(right[inside])
        assert_allclose(found, exact(K, inside, scaled, right[inside]), rtol=1e-8, atol=1e-8)
        assert system._factor._n_borders == 0


def test_no_more_memory_than_the_matrix():
    """A block of nearly all samples leaves no room for borders."""
    n = 1000
    K, weights = gaussians(n), np.full(n, 1e-3)
    for count in (600, 950, 1000):
        system = ChangingSystem(K)
        system.solver(np.arange(count), weights)
        factor = system._factor
        assert count**2 + factor._columns.size <= n**2
        assert factor._columns.shape[1] <= changing_system._MOST_BORDERS * count


def test_a_block_that_is_not_positive_definite_is_told():
    K, weights = gaussians(300), np.full(300, 1e-3)
    K[290, 290] = -5.0
    system = ChangingSystem(K)
    system.solver(np.arange(280), weights)
    for inside in (np.arange(295), np.r_[:250, 290:295]):
        with pytest.raises(np.linalg.LinAlgError):
            system.solver(inside, weights)
