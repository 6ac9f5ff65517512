"""Sparse input is checked before compiled code follows its indices."""

import resource
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin import SVC, SVCSearch
from maxmargin.estimators.fitted import set_fitted
from maxmargin.sparse_format import check_format, checked_csr

FORMATS = ["csr", "csc", "bsr", "coo", "dia", "lil", "dok"]


def samples(kind="csr", container="array"):
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(24, 6)) * (rng.random((24, 6)) < 0.5)
    X = sp.csr_array(dense) if container == "array" else sp.csr_matrix(dense)
    return X.asformat(kind), (dense[:, 0] + dense[:, 1] > 0).astype(int)


def put(array, at, value):
    array[at] = value


DAMAGES = {
    "csr: a column beyond the last": (
        "csr", lambda X: put(X.indices, 3, 6), "column index 6 in row .* is not in 0 … 5"),
    "csr: a huge column": ("csr", lambda X: put(X.indices, 3, 2**31 - 1), "index 2147483647"),
    "csr: a negative column": ("csr", lambda X: put(X.indices, -1, -1), "column index -1 in row 2"),
    "csr: indptr beyond the end": (
        "csr", lambda X: put(X.indptr, -1, 10**6), "indptr must rise from 0 to at most"),
    "csr: indptr falls": ("csr", lambda X: put(X.indptr, 4, 0), "row 3 goes from"),
    "csr: indptr is negative": ("csr", lambda X: put(X.indptr, 4, -9), "row 3 goes from .* to -9"),
    "csr: indptr begins late": ("csr", lambda X: put(X.indptr, 0, 1), "indptr must rise from 0"),
    "csr: short indptr": (
        "csr", lambda X: setattr(X, "indptr", X.indptr[:-2]), "must have 25 numbers, not 23"),
    "csr: short indices": (
        "csr", lambda X: setattr(X, "indices", X.indices[:-1]), "indices, but data of shape"),
    "csr: short data": (
        "csr", lambda X: setattr(X, "data", X.data[:-1]), "indices, but data of shape"),
    "csr: floats as indices": (
        "csr", lambda X: setattr(X, "indices", X.indices * 1.5), "must be a list of integers"),
    "csr: a table as indptr": (
        "csr", lambda X: setattr(X, "indptr", X.indptr.reshape(5, 5)), "a list of integers"),
    "csc: a row beyond the last": (
        "csc", lambda X: put(X.indices, 0, 24), "row index 24 in column 0 is not in 0 … 23"),
    "csc: indptr falls": ("csc", lambda X: put(X.indptr, 2, 0), "column 1 goes from"),
    "bsr: a block beyond the last": (
        "bsr", lambda X: put(X.indices, 0, 99), "block column index 99 in block row 0"),
    "bsr: indptr falls": ("bsr", lambda X: put(X.indptr, 2, -1), "indptr must rise"),
    "coo: a row beyond the last": ("coo", lambda X: put(X.coords[0], 2, 24), "row index 24 is not"),
    "coo: a negative column": ("coo", lambda X: put(X.coords[1], 2, -7), "column index -7 is not"),
    "coo: too few values": (
        "coo", lambda X: setattr(X, "data", X.data[:-1]), "values, but rows of"),
    "dia: too few offsets": (
        "dia", lambda X: setattr(X, "offsets", X.offsets[:-1]), "as offsets"),
    "lil: a column beyond the last": (
        "lil", lambda X: X.rows[2].__setitem__(0, 6), "column index in row 2 is not in 0 … 5"),
    "lil: too few values": ("lil", lambda X: X.data[3].pop(), "row 3 has .* columns, but"),
}  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return SVC().fit(*samples())


@pytest.mark.parametrize("container", ["array", "matrix"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_matrix_gets_a_sentence(damage, container, model):
    kind, change, sentence = DAMAGES[damage]
    X, y = samples(kind, container)
    change(X)
    kernel = SVC(kernel=lambda A, B: np.asarray((A @ B.T).toarray()))
    for call in (
        lambda: SVC().fit(X, y),
        lambda: SVC(kernel="linear").fit(X, y),
        lambda: kernel.fit(X, y),
        lambda: model.predict(X),
        lambda: model.decision_function(X),
    ):
        with pytest.raises(ValueError, match=sentence) as caught:
            call()
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


def test_a_search_checks_as_well():
    X, y = samples()
    X.indices[3] = 99
    with pytest.raises(ValueError, match="column index 99"):
        SVCSearch({"C": [1.0, 2.0]}, cv=2).fit(X, y)


def test_a_process_survives_what_crashed_it():
    """Each of these ended in a segmentation fault."""
    code = (
        "import numpy as np, scipy.sparse as sp\n"
        "from maxmargin import SVC\n"
        "rng = np.random.default_rng(0)\n"
        "X = sp.random_array((400, 300), density=0.1, random_state=rng, format='csr')\n"
        "y = np.arange(400) % 2\n"
        "for name, at, value in [('indices', 7, 2**31 - 1), ('indices', 7, -2**31),\n"
        "                        ('indptr', -1, 2**30), ('indptr', 3, -2**30)]:\n"
        "    bad = X.copy()\n"
        "    getattr(bad, name)[at] = value\n"
        "    for kernel in ('rbf', 'linear', 'poly'):\n"
        "        try:\n"
        "            SVC(kernel=kernel).fit(bad, y)\n"
        "        except ValueError:\n"
        "            print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.split() == ["refused"] * 12, done.stderr


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("container", ["array", "matrix"])
def test_valid_matrices_of_every_format_are_what_they_say(kind, container, model):
    X, y = samples(kind, container)
    check_format(X)
    checked = checked_csr(X)
    assert checked.format == "csr" and isinstance(checked, sp.sparray) == (container == "array")
    np.testing.assert_array_equal(checked.toarray(), X.toarray())
    np.testing.assert_array_equal(model.decision_function(X), model.decision_function(checked))
    fitted = SVC().fit(X, y)
    np.testing.assert_array_equal(fitted.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0), (1, 1)])
@pytest.mark.parametrize("kind", FORMATS)
def test_empty_matrices_are_valid(kind, shape):
    assert checked_csr(sp.csr_array(shape).asformat(kind)).shape == shape


def test_unused_room_at_the_end_is_valid():
    X, y = samples()
    roomy = X.copy()
    roomy.indices = np.concatenate([X.indices, np.full(9, 77, X.indices.dtype)])
    roomy.data = np.concatenate([X.data, np.full(9, np.nan)])
    expected = SVC().fit(X, y).decision_function(X)
    np.testing.assert_array_equal(SVC().fit(roomy, y).decision_function(roomy), expected)
    assert len(roomy.data) == len(X.data) + 9  # the user's matrix stays as it is


def test_what_a_matrix_believes_of_its_indices_is_not_believed():
    """SciPy remembers that indices are sorted, and a user who changes them may forget it."""
    X, y = samples()
    assert X.has_canonical_format
    first = X.indptr[5]
    assert X.indptr[6] - first >= 2
    X.indices[first + 1] = X.indices[first]  # a feature twice: the values add up
    before = X.indices.copy(), X.data.copy()
    expected = X.toarray()
    model = SVC(gamma=0.5).fit(X, y)
    truth = SVC(gamma=0.5).fit(sp.csr_array(expected), y)
    np.testing.assert_allclose(model.decision_function(X), truth.decision_function(expected))
    np.testing.assert_array_equal(X.indices, before[0])
    np.testing.assert_array_equal(X.data, before[1])


def test_sums_of_duplicates_must_be_finite():
    X = sp.csr_array((np.full(4, 1.5e308), [0, 0, 1, 1], [0, 2, 4]), shape=(2, 2))
    with pytest.raises(ValueError, match="infinity"):
        SVC().fit(X, [0, 1])


def test_more_features_than_compiled_code_can_count():
    X = sp.csr_array((np.ones(2), np.array([0, 2**40], np.int64), [0, 1, 2]), shape=(2, 2**41))
    with pytest.raises(ValueError, match="at most 2147483647"):
        SVC().fit(X, [0, 1])


def wide_linear_model(width):
    """A linear model that uses features 5 and width − 1."""
    vectors = sp.csr_array(
        (np.array([2.0, 3.0]), np.array([5, width - 1], np.int32), np.array([0, 1, 2], np.int32)),
        shape=(2, width),
    )
    model = SVC(kernel="linear")
    set_fitted(
        model, classes=np.array([0, 1]), n_support=np.array([1, 1], np.int32),
        dual_coef=np.array([[1.0, -1.0]]), intercept=np.array([0.25]), gamma=1.0,
        support=np.arange(2, dtype=np.int32), vectors=vectors, sparse=True, shape=(2, width),
    )  # fmt: skip
    return model


def test_memory_of_a_prediction_follows_the_features_that_occur():
    width = 2**30
    model = wide_linear_model(width)
    index = np.array([4, 5, 6, width - 1, 5], np.int32)
    X = sp.csr_array((np.arange(1.0, 6.0), index, np.array([0, 3, 4, 5, 5])), shape=(4, width))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    values, weights = model.decision_function(X), model.coef_
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # in KiB
    # f(x) = 3·x[width − 1] − 2·x[5] − 0.25, positive for the second class
    np.testing.assert_allclose(values, [-4 - 0.25, 12 - 0.25, -10 - 0.25, -0.25])
    assert weights.indices.tolist() == [5, width - 1] and weights.data.tolist() == [-2.0, 3.0]
    assert grown < 2**18


@pytest.mark.parametrize("width", [40, 4000])
def test_wide_and_narrow_linear_predictions_agree(width):
    rng = np.random.default_rng(3)
    X = sp.random_array((60, 40), density=0.1, random_state=rng, format="csr")
    y = np.arange(60) % 3
    wide = sp.csr_array((X.data, X.indices * (width // 40), X.indptr), shape=(60, width))
    narrow_model = SVC(kernel="linear").fit(X.toarray(), y)
    model = SVC(kernel="linear").fit(wide, y)
    np.testing.assert_allclose(
        model.decision_function(wide), narrow_model.decision_function(X.toarray()), atol=1e-9
    )
