"""Table 2 of the greedy method's paper: its trainings are right, and a stopped run goes on."""

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_classification

import oracle

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS / "papers")]
import greedy_table_2 as table  # noqa: E402


@pytest.fixture
def small(monkeypatch):
    """Two values of θ and of C, three folds, generated data."""
    X, codes = make_classification(60, 4, flip_y=0.1, random_state=2)
    monkeypatch.setattr(table, "THETAS", np.array([0.1, 1.0]))
    monkeypatch.setattr(table, "COSTS", np.array([1.0, 4.0]))
    monkeypatch.setattr(table, "FOLDS", 3)
    monkeypatch.setattr(table, "features", lambda folder, name, scaling: (X, codes))
    return X, codes


def test_trainings_on_a_matrix_reach_the_optimum(small):
    X, codes = small
    signs = np.where(codes == 0, 1.0, -1.0)
    K = oracle.kernel_values(X, X, gamma=0.5)
    trained = list(table.exact_trainings(K, signs))
    for (beta, _, converged), cost in zip(trained, table.COSTS, strict=False):
        assert converged
        alpha = oracle.solve_dual(K, signs, np.full(len(signs), cost))
        best = oracle.dual_objective(K, signs, alpha)
        assert_allclose(oracle.dual_objective(K, signs, signs * beta), best, rtol=1e-3)


def test_a_stopped_run_goes_on(small, tmp_path):
    arguments = {"jobs": 1, "seed": 0, "scaling": "interval", "out": tmp_path}
    first = table.table_2(tmp_path, ["iris"], **arguments)
    files = sorted(tmp_path.glob("*.json"))
    assert len(files) == 3 * 2
    written = {path: path.stat().st_mtime_ns for path in files}
    files[3].unlink()
    again = table.table_2(tmp_path, ["iris"], **arguments)
    kept = [path for path in files if path.stat().st_mtime_ns == written[path]]
    assert kept == [path for path in files if path != files[3]]
    times = {"CPU s": 0}
    assert first[0] | times == again[0] | times
    assert 50 < first[0]["SVM"] <= 100


def test_of_equals_the_middle_one_is_tested():
    n_models = len(table.SINGLE_MODELS) + len(table.COSTS) + 1
    tuned, tested = np.zeros((5, n_models)), np.zeros((5, n_models))
    tuned[1:4, 0] = 1.0
    tested[2, 0] = 0.75
    accuracies = table.tested_accuracies({"tuned": tuned, "tested": tested})
    assert accuracies[table.METHODS.index("GS-SVM")] == 0.75
