"""scikit-learn's own rules and tests, with our SVC in the place of theirs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import SVC
from maxmargin.solvers import SOLVERS, make_solver

HERE = Path(__file__).parent
# The default, and every other exact solver; approximate ones answer to their own tests.
NAMED = [
    name
    for name in sorted(SOLVERS)
    if make_solver(name).exact and SOLVERS[name] is not SOLVERS["auto"]
]


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([SVC(), *[SVC(solver=name) for name in NAMED]])
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("module", ["test_svm", "test_sparse"])
def test_sklearns_own_tests(module, tmp_path):
    """Every test of scikit-learn that speaks of SVC passes, those on probability included."""
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "sklearn_with_our_svc",
        "-p", "no:cacheprovider",
        "--pyargs", f"sklearn.svm.tests.{module}",
    ]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(HERE)}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-1000:]
    assert " passed" in run.stdout
