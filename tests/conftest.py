"""Small data sets that the tests share."""

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import settings
from sklearn.datasets import load_iris, make_classification
from sklearn.preprocessing import StandardScaler

from maxmargin import cli

# The first call of a compiled leaf may compile it, so a deadline would measure the compiler.
settings.register_profile("tests", deadline=None, derandomize=True, max_examples=30)
settings.load_profile("tests")


def pytest_configure(config):
    """Delete compiled code that may be stale.

    Numba looks at the file of a function alone, not at those of the functions that it calls.
    """
    if hasattr(config, "workerinput"):
        return
    package = Path(__file__).parents[1] / "src" / "maxmargin"
    with_numba = re.compile(r"\bnumba\b|maxmargin\.compiled")
    leaves = [path for path in package.rglob("*.py") if with_numba.search(path.read_text("utf-8"))]
    newest = max((path.stat().st_mtime for path in leaves), default=0.0)
    for compiled in package.rglob("*.nb[ic]"):
        if compiled.stat().st_mtime < newest:
            compiled.unlink()


@pytest.fixture(scope="session")
def binary():
    """Two overlapping classes: support vectors at the bound, free ones, and others."""
    X, y = make_classification(
        60, 4, n_informative=3, n_redundant=0, class_sep=0.8, flip_y=0.1, random_state=3
    )
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="session")
def three():
    """Three classes with names."""
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    return StandardScaler().fit_transform(X)[::2], names[y[::2]]


@pytest.fixture(scope="session")
def sparse():
    """A sparse binary problem as CSR, with one row that is empty."""
    rng = np.random.default_rng(5)
    X = sp.random_array((70, 40), density=0.12, random_state=rng, format="csr")
    X = sp.csr_array(X.multiply(np.arange(70)[:, np.newaxis] != 7))
    # scikit-learn takes indices of 32 bits alone, and older SciPy makes longer ones.
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    y = (X @ rng.normal(size=40) + 0.1 * rng.normal(size=70) > 0).astype(int)
    return X, y


@pytest.fixture(scope="session")
def hard():
    """A problem that keeps every exact solver busy for a while: random labels, a large C."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(3000, 2)), rng.integers(0, 2, 3000)


@pytest.fixture
def run(capsys):
    """Run a command of the command line; returns (exit code, standard output, standard error)."""
    pytest.importorskip("typer", reason="typer is not installed (extra cli).")

    def run(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return ended.value.code or 0, captured.out, captured.err

    return run
