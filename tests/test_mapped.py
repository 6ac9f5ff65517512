"""Arrays mapped from files train without a copy of them in memory."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from maxmargin import SVC
from maxmargin.estimators import variance
from maxmargin.io import read_data
from maxmargin.io.files import DataError
from maxmargin.kernels import feature_matrix
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.samples import mapped
from maxmargin.kernels.samples.dense import DenseSamples
from maxmargin.kernels.samples.mapped import MappedSamples, is_mapped


@pytest.fixture
def small(monkeypatch):
    """Small arrays count as large ones."""
    for module in (mapped, feature_matrix):
        monkeypatch.setattr(module, "COPIED_BYTES", 2**16)
    monkeypatch.setattr(variance, "_ENTRIES_AT_ONCE", 2**16)


def in_file(folder, X):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def separable(n, d, dtype, shift=0.0):
    X = np.random.default_rng(0).normal(size=(n, d)) + shift
    y = np.arange(n) % 2
    X[:, 0] += 20 * y
    return X.astype(dtype), y


def traced_peak(call):
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_what_counts_as_mapped(small, tmp_path):
    X, _ = separable(2000, 20, np.float32)
    there = in_file(tmp_path, X)
    assert is_mapped(there) and is_mapped(np.asarray(there)) and is_mapped(there[5:])
    assert not is_mapped(there[:10]) and not is_mapped(X) and not is_mapped([[1.0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("options", [{}, {"class_weight": {0: 1, 1: 2}}, {"kernel": "linear"}])
def test_no_copy_of_a_mapped_array_is_made(small, tmp_path, dtype, options):
    X, y = separable(4000, 500, dtype)
    weights = np.linspace(0.5, 1, len(y)) if options else None
    model = SVC(cache_size=0.1, n_jobs=1, **options)
    model.fit(X[:600], y[:600])  # what is compiled and kept for later fits
    there = in_file(tmp_path, X)
    peak = traced_peak(lambda: model.fit(there, y, weights))
    assert model.fit_report_.status == "converged"
    # Tiles of 1,024 rows in float64, vectors over the samples; not 4,000 rows in either type.
    assert peak < X.size * 4 * 0.9
    assert (
        traced_peak(
            lambda: SVC(cache_size=0.1, n_jobs=1, **options).fit(X.astype(np.float64), y, weights)
        )
        > X.size * 4
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shift", [0.0, 100.0])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_a_mapped_array_gives_the_model_of_the_same_array(small, tmp_path, dtype, shift, kernel):
    X, y = separable(1500, 20, dtype, shift)
    y = (y + (np.arange(len(y)) % 11 == 0)) % 3
    options = {"kernel": kernel, "C": 0.1, "tol": 1e-6, "gamma": 1e-3}
    here = SVC(**options).fit(X, y)
    there = SVC(**options).fit(in_file(tmp_path, X), y)
    assert there.fit_report_.status == "converged"
    assert_array_equal(here.support_, there.support_)
    assert_allclose(here.decision_function(X), there.decision_function(X), atol=1e-4)
    assert_array_equal(here.predict(X), there.predict(in_file(tmp_path, X)))


@pytest.mark.parametrize("shift", [0.0, 1e5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernel_values_of_a_mapped_array(small, tmp_path, dtype, shift):
    """Blocks, products and subsets, in both precisions, have the values of the array itself."""
    X, _ = separable(3000, 20, np.float64)
    # A squared distance is made of two squared norms and a product, each with its rounding. That of
    # the product depends on the tiles it is computed in. Far clusters do not add to it.
    rounding = 4 * 0.05 * np.finfo(dtype).eps * (X**2).sum(axis=1).max()
    X[::2] += shift  # two far clusters: no mean helps
    there = in_file(tmp_path, X)
    function = KernelFunction("rbf", 0.05)
    plain, matrix = (FeatureKernelMatrix(A, function, dtype) for A in (X, there))
    assert isinstance(matrix._samples, MappedSamples)
    rows, some = np.arange(0, 3000, 300), np.arange(1, 3000, 2)
    factors = np.linspace(-1, 1, len(some))
    for precise in (True, False):
        assert_allclose(
            matrix.multiply(some, factors, precise=precise),
            plain.multiply(some, factors, precise=precise), atol=1e-5,
        )  # fmt: skip
    part, expected = matrix.restrict(some), plain.restrict(some)
    assert isinstance(part._samples, MappedSamples)
    assert type(matrix.restrict(rows)._samples) is DenseSamples
    for one, other in ((matrix, plain), (part, expected)):
        chosen = rows % one.n
        assert_allclose(one.block(chosen), other.block(chosen), atol=1e-12 + rounding)
        assert_allclose(one.diagonal(), other.diagonal())
    double, wanted = (one.restrict(some, np.float64) for one in (matrix, plain))
    assert_allclose(double.block(rows % double.n), wanted.block(rows % wanted.n), atol=1e-12)


def test_a_large_C_takes_float64_rows_of_a_mapped_array(small, tmp_path):
    X, y = separable(1200, 20, np.float32)
    y = np.where(np.random.default_rng(1).random(len(y)) < 0.1, 1 - y, y)
    model = SVC(C=1e6, gamma=1e-3, max_iter=20_000)
    with pytest.warns(ConvergenceWarning):
        model.fit(in_file(tmp_path, X), y)
    assert np.isfinite(model.decision_function(X)).all()


# Parquet.


@pytest.fixture
def parquet(monkeypatch, tmp_path):
    """A function that writes a table of several row groups, and reads it a few rows at a time."""
    arrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    from maxmargin.io import parquet_data

    monkeypatch.setattr(parquet_data, "_BYTES_IN_MEMORY", 2**16)
    monkeypatch.setattr(parquet_data, "_VALUES_AT_ONCE", 2**13)

    def write(X, y):
        columns = {f"x{number}": column for number, column in enumerate(X.T)} | {"y": y}
        write_table(arrow.table(columns), tmp_path / "data.parquet", row_group_size=500)
        return tmp_path / "data.parquet"

    return write


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parquet_is_read_a_part_at_a_time_into_a_file_that_is_gone(
    parquet, tmp_path, monkeypatch, dtype
):
    X, y = separable(4000, 100, dtype)
    path = parquet(X, np.array(["no", "yes"])[y])
    read_data(path, label="y")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = sorted(tmp_path.iterdir())
    found = []
    peak = traced_peak(lambda: found.append(read_data(path, label="y")))
    (data,) = found
    assert isinstance(data.X, np.memmap) and data.X.dtype == dtype
    assert peak < X.nbytes / 4
    assert sorted(tmp_path.iterdir()) == before
    assert_array_equal(data.X, X)
    assert_array_equal(data.y, np.array(["no", "yes"])[y])
    assert list(data.feature_names)[:2] == ["x0", "x1"]


def test_parquet_trains_as_the_same_array_does(small, parquet):
    X, y = separable(1500, 30, np.float64)
    y = np.where(np.arange(len(y)) % 7 == 0, 1 - y, y)
    data = read_data(parquet(X, y), label="y")
    assert is_mapped(data.X)
    model, expected = (SVC(gamma=1e-3).fit(A, y) for A in (data.X, X))
    assert_array_equal(model.support_, expected.support_)


def test_a_missing_value_in_a_later_part_of_a_parquet_file_is_named_by_its_row(parquet):
    X, y = separable(1500, 30, np.float64)
    X[1234, 7] = np.nan
    with pytest.raises(DataError, match="row 1235: column 'x7' is missing or infinite"):
        read_data(parquet(X, y), label="y")


def test_the_symmetric_matrix_of_a_mapped_array(small, tmp_path):
    X, _ = separable(1500, 20, np.float64)
    matrix, plain = (
        FeatureKernelMatrix(A, KernelFunction("rbf", 0.05), np.float64)
        for A in (in_file(tmp_path, X), X)
    )
    found, expected = np.empty((2, 1500, 1500))
    for one, out in ((matrix, found), (plain, expected)):
        one.fill_symmetric(out)
    assert_allclose(found, expected, atol=1e-12)
