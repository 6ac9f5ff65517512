"""Files of all five kinds of model: the same numbers here, in scikit-learn and in LIBSVM."""

import shutil
import subprocess

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import is_regressor
from sklearn.datasets import dump_svmlight_file, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from maxmargin.io import (
    DataError,
    load_libsvm_model,
    load_model,
    read_data,
    save_libsvm_model,
    save_model,
)

# In the order of LIBSVM's -s.
KINDS = {
    "c_svc": SVC(C=2),
    "nu_svc": NuSVC(nu=0.3),
    "one_class": OneClassSVM(nu=0.2),
    "epsilon_svr": SVR(C=2, epsilon=0.2),
    "nu_svr": NuSVR(C=2, nu=0.4),
}
KERNELS = {
    "linear": {},
    "poly": {"degree": 2, "gamma": 0.2, "coef0": 0.5},
    "rbf": {"gamma": 0.3},
    "sigmoid": {"gamma": 0.05, "coef0": -0.5},
}
every_kind = pytest.mark.parametrize("kind", KINDS)
every_kernel = pytest.mark.parametrize("kernel", KERNELS)
needs_libsvm = pytest.mark.skipif(
    shutil.which("svm-train") is None or shutil.which("svm-predict") is None,
    reason="svm-train and svm-predict are not installed (Debian package libsvm-tools).",
)


def samples(kind, *, sparse=False, n_classes=3):
    """X and what a kind learns; three classes whose labels do not ascend in the data."""
    X, y = load_iris(return_X_y=True)
    keep = y < n_classes
    X, y = ((X - X.mean(axis=0)) / X.std(axis=0))[keep], np.array([7, -2, 4])[y[keep]]
    if kind in ("epsilon_svr", "nu_svr"):
        X, y = X[:, :3], X[:, 3] + 0.1 * np.sin(np.arange(len(X)))
    if kind == "one_class":
        X, y = X + 2.0, np.where(np.arange(len(X)) % 10, 1, -1)  # far enough from the origin
    return sp.csr_array(np.where(np.abs(X) < 0.3, 0.0, X)) if sparse else X, y


def model_of(kind, kernel="rbf", **options):
    parameters = KINDS[kind].get_params() | KERNELS.get(kernel, {}) | {"kernel": kernel} | options
    return type(KINDS[kind])(**parameters)


def values(model, X):
    """What a model says of samples, as precisely as it can."""
    return model.predict(X) if is_regressor(model) else model.decision_function(X)


def run(*command):
    subprocess.run([str(part) for part in command], check=True, capture_output=True)


# --- both formats -----------------------------------------------------------


@every_kind
@every_kernel
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", ["model", "model.npz"])
def test_a_model_comes_back_to_the_last_bit(kind, kernel, sparse, name, tmp_path):
    X, y = samples(kind, sparse=sparse)
    model = model_of(kind, kernel).fit(X, y)
    save_model(model, tmp_path / name)
    back = load_model(tmp_path / name)
    assert type(back) is type(model) and back.n_features_in_ == X.shape[1]
    # LIBSVM's text does not say whether the data were sparse.
    X_back = X if name == "model.npz" or sparse else sp.csr_array(X)
    tolerance = {"rtol": 0, "atol": 0} if X_back is X else {"rtol": 1e-12, "atol": 1e-12}
    assert_allclose(values(back, X_back), values(model, X), **tolerance)
    assert_array_equal(back.n_support_, model.n_support_)
    assert_allclose(back.predict(X_back), model.predict(X), **tolerance)
    if kind == "one_class":
        assert_array_equal(back.offset_, model.offset_)
        assert_allclose(back.score_samples(X_back), model.score_samples(X), **tolerance)


@every_kind
@pytest.mark.parametrize("name", ["model", "model.npz"])
def test_precomputed_kernels_come_back(kind, name, tmp_path):
    X, y = samples(kind)
    K = X @ X.T
    model = model_of(kind, "precomputed").fit(K, y)
    save_model(model, tmp_path / name)
    back = load_model(tmp_path / name, n_features=None if name.endswith("npz") else len(K))
    assert_array_equal(values(back, K), values(model, K))


@every_kind
def test_our_own_format_keeps_everything(kind, tmp_path):
    X, y = samples(kind)
    model = model_of(kind, tol=1e-4, random_state=4, solver="smo").fit(X, y)
    save_model(model, tmp_path / "model.npz")
    back = load_model(tmp_path / "model.npz")
    assert back.get_params() == model.get_params()
    assert str(back.fit_report_) == str(model.fit_report_)
    assert [one.quantities for one in back.fit_report_] == [
        one.quantities for one in model.fit_report_
    ]
    assert_array_equal(back.n_iter_, model.n_iter_)
    assert type(back.n_iter_) is type(model.n_iter_)
    back.set_params(warm_start=True).fit(X, y)
    assert_allclose(values(back, X), values(model, X), atol=1e-2)


def test_a_model_without_support_vectors_is_one(tmp_path):
    """Of a tube that holds all targets."""
    X, y = samples("epsilon_svr")
    model = model_of("epsilon_svr", epsilon=100.0).fit(X, y)
    assert len(model.support_) == 0
    for name in ("model", "model.npz"):
        save_model(model, tmp_path / name)
        back = load_model(tmp_path / name, n_features=None if name.endswith("npz") else 3)
        assert_allclose(back.predict(X), model.predict(X))


@pytest.mark.parametrize("name", ["model", "model.npz"])
def test_what_is_no_model_of_ours_is_refused(name, tmp_path):
    with pytest.raises(TypeError, match="LinearSVC holds no SVM of maxmargin"):
        save_model(sklearn.svm.LinearSVC(), tmp_path / name)
    assert not list(tmp_path.iterdir())


# --- LIBSVM's programs ------------------------------------------------------


def libsvm_options(model):
    """svm-train's options for a model's parameters."""
    letters = {"degree": "-d", "gamma": "-g", "coef0": "-r", "C": "-c", "nu": "-n",
               "epsilon": "-p", "tol": "-e"}  # fmt: skip
    given = {name: value for name, value in model.get_params().items() if name in letters}
    if isinstance(given["gamma"], str):
        del given["gamma"]
    kernel = ["linear", "poly", "rbf", "sigmoid", "precomputed"].index(model.kernel)
    kind = list(KINDS).index(model._formulation)
    return ["-s", kind, "-t", kernel, *(x for name in given for x in (letters[name], given[name]))]


def assert_predicts(theirs, model, X):
    """Labels are the same; values up to the rounding of their sums."""
    out = np.loadtxt(theirs)
    if is_regressor(model):
        assert_allclose(out, model.predict(X), rtol=1e-10, atol=1e-10)
    else:
        assert_array_equal(out, model.predict(X))


@needs_libsvm
@every_kind
@every_kernel
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_svm_predict_reads_our_models(kind, kernel, sparse, n_classes, tmp_path):
    X, y = samples(kind, sparse=sparse, n_classes=n_classes)
    model = model_of(kind, kernel).fit(X, y)
    save_libsvm_model(model, tmp_path / "model")
    dump_svmlight_file(X, y, str(tmp_path / "data"), zero_based=False)
    run("svm-predict", tmp_path / "data", tmp_path / "model", tmp_path / "out")
    assert_predicts(tmp_path / "out", model, X)


@needs_libsvm
@every_kind
@every_kernel
@pytest.mark.parametrize("n_classes", [2, 3])
def test_models_of_svm_train_predict_the_same(kind, kernel, n_classes, tmp_path):
    X, y = samples(kind, n_classes=n_classes)
    dump_svmlight_file(X, y, str(tmp_path / "data"), zero_based=False)
    model = model_of(kind, kernel, tol=1e-6)
    run("svm-train", "-q", *libsvm_options(model), tmp_path / "data", tmp_path / "model")
    run("svm-predict", tmp_path / "data", tmp_path / "model", tmp_path / "out")
    theirs = load_libsvm_model(tmp_path / "model")
    data = read_data(tmp_path / "data").X
    assert type(theirs) is type(model)
    assert_predicts(tmp_path / "out", theirs, data)
    # And it is the model that we train, where there is one optimum and a margin.
    if kernel == "rbf":
        assert_allclose(values(model.fit(X, y), X), ordered(values(theirs, data), theirs),
                        atol=1e-3)  # fmt: skip


def ordered(decisions, theirs):
    """Columns of the classes in ascending order; LIBSVM's are in the order of the data."""
    if decisions.ndim == 1:
        return decisions
    return decisions[:, np.argsort(theirs.classes_)]


@needs_libsvm
@every_kind
def test_precomputed_kernels_both_ways(kind, tmp_path):
    X, y = samples(kind)
    K, data = X @ X.T, tmp_path / "data"
    with open(data, "w") as file:
        for number, (label, row) in enumerate(zip(y, K.tolist(), strict=True), start=1):
            pairs = " ".join(f"{at}:{value!r}" for at, value in enumerate(row, start=1))
            file.write(f"{label} 0:{number} {pairs}\n")
    model = model_of(kind, "precomputed").fit(K, y)
    save_libsvm_model(model, tmp_path / "ours")
    run("svm-predict", data, tmp_path / "ours", tmp_path / "out")
    assert_predicts(tmp_path / "out", model, K)
    run("svm-train", "-q", *libsvm_options(model), data, tmp_path / "theirs")
    run("svm-predict", data, tmp_path / "theirs", tmp_path / "out")
    assert_predicts(tmp_path / "out", load_libsvm_model(tmp_path / "theirs", n_features=len(K)), K)


@needs_libsvm
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "one_class"])
def test_models_with_probabilities_predict_the_same(kind, tmp_path):
    """svm-train -b 1 writes probA and probB; labels and values do not need them."""
    X, y = samples(kind)
    dump_svmlight_file(X, y, str(tmp_path / "data"), zero_based=False)
    options = [*libsvm_options(model_of(kind)), "-b", 1]
    run("svm-train", "-q", *options, tmp_path / "data", tmp_path / "model")
    assert "probA" in (tmp_path / "model").read_text().partition("SV\n")[0]
    run("svm-predict", tmp_path / "data", tmp_path / "model", tmp_path / "out")
    model = load_libsvm_model(tmp_path / "model")
    assert_predicts(tmp_path / "out", model, read_data(tmp_path / "data").X)


def test_density_marks_are_read_over(tmp_path):
    """Which svm-train -s 2 -b 1 writes from version 3.3 on."""
    X, _ = samples("one_class")
    model = model_of("one_class").fit(X)
    save_libsvm_model(model, tmp_path / "model")
    marks = "prob_density_marks " + " ".join(f"{at / 10:g}" for at in range(10))
    text = (tmp_path / "model").read_text().replace("SV\n", f"{marks}\nSV\n")
    (tmp_path / "model").write_text(text)
    loaded = load_libsvm_model(tmp_path / "model")
    assert_array_equal(loaded.predict(sp.csr_array(X)), model.predict(X))


@pytest.mark.parametrize(
    ("kind", "change", "sentence"),
    [
        ("epsilon_svr", ("epsilon_svr", "gamma_svr"), "is a model of type 'gamma_svr', not of"),
        ("epsilon_svr", ("epsilon_svr", "c_svc"), "does not say its label"),
        ("c_svc", ("c_svc", "nu_svr"), "type nu_svr has no classes, and so no label"),
        ("one_class", ("nr_class 2", "nr_class 3"), "nr_class must be 2 where there are none"),
        ("nu_svr", ("rho ", "rho 1 "), r"intercept must have shape \(1,\), not \(2,\)"),
        ("nu_svr", ("total_sv ", "total_sv -"), "support vectors, and has"),
        ("one_class", ("total_sv", "nr_sv 1\ntotal_sv"), "has no classes, and so no nr_sv"),
    ],
)  # fmt: skip
def test_headers_that_cannot_be(kind, change, sentence, tmp_path):
    save_libsvm_model(model_of(kind).fit(*samples(kind)), tmp_path / "model")
    (tmp_path / "bad").write_text((tmp_path / "model").read_text().replace(*change))
    with pytest.raises(DataError, match=sentence):
        load_libsvm_model(tmp_path / "bad")


# --- scikit-learn -----------------------------------------------------------


@every_kind
@every_kernel
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_to_and_from_sklearn(kind, kernel, sparse):
    X, y = samples(kind, sparse=sparse)
    X = sp.csr_matrix(X) if sparse else X
    ours = model_of(kind, kernel)
    their_class = getattr(sklearn.svm, type(ours).__name__)
    shared = set(their_class._get_param_names()) - {"cache_size", "verbose", "probability"}
    parameters = {name: value for name, value in ours.get_params().items() if name in shared}
    theirs = their_class(**parameters).fit(X, y)
    back = type(ours).from_sklearn(theirs)
    assert {name: back.get_params()[name] for name in shared} == parameters
    # After the way there and back, scikit-learn's own compiled code judges.
    for model in (back, back.to_sklearn()):
        assert_allclose(values(model, X), values(theirs, X), rtol=1e-9, atol=1e-9)
        assert_allclose(model.predict(X), theirs.predict(X), rtol=1e-9, atol=1e-9)
        assert_array_equal(model.n_support_, theirs.n_support_)
        if kind == "one_class":
            assert_allclose(model.offset_, theirs.offset_)
            assert_allclose(model.score_samples(X), theirs.score_samples(X), atol=1e-9)
    there = ours.fit(X, y).to_sklearn()
    assert type(there) is their_class and there.fit_status_ == 0
    assert_allclose(values(there, X), values(ours, X), rtol=1e-9, atol=1e-9)


@every_kind
@pytest.mark.parametrize("name", ["model", "model.npz"])
def test_models_of_sklearn_become_files(kind, name, tmp_path):
    X, y = samples(kind)
    ours = model_of(kind)
    theirs = getattr(sklearn.svm, type(ours).__name__)(gamma=0.3).fit(X, y)
    save_model(type(ours).from_sklearn(theirs), tmp_path / name)
    X_back = X if name == "model.npz" else sp.csr_array(X)
    assert_allclose(values(load_model(tmp_path / name), X_back), values(theirs, X), atol=1e-9)


# --- ONNX -------------------------------------------------------------------


def onnx_answers(model, X, **options):
    """What onnxruntime says of samples: predictions, and scores where there are some."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed.")
    pytest.importorskip("skl2onnx", reason="skl2onnx is not installed (extra onnx).")
    from maxmargin.io.onnx import to_onnx

    onnx = to_onnx(model, X[:1], **options)
    session = onnxruntime.InferenceSession(onnx.SerializeToString())
    return [answer.squeeze() for answer in session.run(None, {"X": X})]


@every_kind
@every_kernel
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_onnxruntime_answers_equally(kind, kernel, sparse):
    """It computes in float32."""
    X, y = samples(kind, sparse=sparse)
    model = model_of(kind, kernel).fit(X, y)
    X = (X.toarray() if sparse else X).astype(np.float32)
    options = {"options": {"zipmap": False}} if kind.endswith("svc") else {}
    predicted, *scores = onnx_answers(model, X, **options)
    if is_regressor(model):
        assert_allclose(predicted, model.predict(X), atol=1e-4)
        return
    decisions = model.decision_function(X)
    assert_allclose(scores[0], decisions, atol=1e-4)
    clear = np.abs(decisions.reshape(len(X), -1)).min(axis=1) > 1e-3
    assert clear.sum() > 100
    assert_array_equal(predicted[clear], model.predict(X)[clear])


def test_onnx_of_a_pipeline_that_regresses():
    X, y = samples("epsilon_svr")
    X = X.astype(np.float32)
    model = make_pipeline(StandardScaler(), model_of("epsilon_svr")).fit(X, y)
    assert_allclose(onnx_answers(model, X)[0], model.predict(X), atol=1e-4)


def test_onnx_of_a_sample_on_the_boundary_is_an_outlier():
    X, _ = samples("one_class")
    model = model_of("one_class").fit(X)
    model._intercept_ = np.zeros(1)  # far away, where all kernel values are zero, so is the score
    far = np.full((2, 4), 1e3, dtype=np.float32)
    assert_array_equal(model.predict(far), [-1, -1])
    assert_array_equal(onnx_answers(model, far), [[-1, -1], [0, 0]])


def test_what_onnx_cannot_hold_is_refused():
    X, y = samples("epsilon_svr")
    flat = model_of("epsilon_svr", epsilon=100.0).fit(X, y)
    with pytest.raises(ValueError, match=r"no SVM without support vectors.*the constant 0"):
        onnx_answers(flat, X)
    with pytest.raises(ValueError, match="no kernels beside"):
        onnx_answers(model_of("one_class", "precomputed").fit(X @ X.T), X @ X.T)
