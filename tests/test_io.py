"""Files: data in every format, models both ways, and nothing half-written."""

import bz2
import gzip
import json
import lzma
import os
import resource
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, load_iris, load_wine
from sklearn.datasets import load_breast_cancer as load_cancer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC as SklearnSVC
from sklearn.svm import NuSVC

from maxmargin import SVC
from maxmargin.io import (
    DataError,
    atomic_write,
    load_libsvm_model,
    load_model,
    read_data,
    save_libsvm_model,
    save_model,
    write_data,
)

KERNELS = [
    {"kernel": "linear"},
    {"kernel": "poly", "degree": 2, "gamma": 0.2, "coef0": 0.5},
    {"kernel": "rbf", "gamma": 0.3},
    {"kernel": "sigmoid", "gamma": 0.05, "coef0": -0.5},
]
KERNEL_NAMES = [parameters["kernel"] for parameters in KERNELS]
TEXT = b"+1 1:0.5 3:-2\n-1 2:1e-3 # a remark\n+1 1:7\n"

needs_libsvm = pytest.mark.skipif(
    shutil.which("svm-train") is None or shutil.which("svm-predict") is None,
    reason="svm-train and svm-predict are not installed (Debian package libsvm-tools).",
)


@pytest.fixture(scope="module", params=["binary", "many classes"])
def samples(request):
    if request.param == "binary":
        X, y = load_cancer(return_X_y=True)
        return StandardScaler().fit_transform(X)[:, :8], np.where(y == 1, 1, -1)
    X, y = load_wine(return_X_y=True)
    # Classes whose order in the file is not the ascending one, as LIBSVM does not sort them.
    return MinMaxScaler().fit_transform(X), np.array([7, -2, 4])[y]


def run(*command):
    subprocess.run([str(part) for part in command], check=True, capture_output=True)


# --- LIBSVM's programs ------------------------------------------------------


@needs_libsvm
@pytest.mark.parametrize("parameters", KERNELS, ids=KERNEL_NAMES)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_svm_predict_reads_our_models(samples, parameters, sparse, tmp_path):
    X, y = samples
    model = SVC(C=2, **parameters).fit(sp.csr_array(X) if sparse else X, y)
    save_libsvm_model(model, tmp_path / "model")
    dump_svmlight_file(X, y, str(tmp_path / "data"), zero_based=False)
    run("svm-predict", tmp_path / "data", tmp_path / "model", tmp_path / "out")
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "out"), model.predict(X))


@needs_libsvm
@pytest.mark.parametrize("parameters", KERNELS, ids=KERNEL_NAMES)
def test_models_of_svm_train_predict_the_same(samples, parameters, tmp_path):
    X, y = samples
    data, theirs = tmp_path / "data", tmp_path / "model"
    dump_svmlight_file(X, y, str(data), zero_based=False)
    kernel = ["linear", "poly", "rbf", "sigmoid"].index(parameters["kernel"])
    run("svm-train", "-q", "-t", kernel, "-c", 2, "-g", parameters.get("gamma", 1),
        "-r", parameters.get("coef0", 0), "-d", parameters.get("degree", 3),
        data, theirs)  # fmt: skip
    run("svm-predict", data, theirs, tmp_path / "out")
    model = load_libsvm_model(theirs)
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "out"), model.predict(X))
    assert sorted(model.classes_) == sorted(set(y))
    assert len(model.classes_) > 2 or model.classes_.tolist() == [-1, 1]


@needs_libsvm
def test_ties_of_votes_go_where_libsvm_sends_them(tmp_path):
    """Random labels make for many ties; the file's order of classes is not the ascending one."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(120, 3)), random.permutation(np.repeat([5, 1, 4, 2, 3], 24))
    data, theirs = tmp_path / "data", tmp_path / "model"
    dump_svmlight_file(X, y, str(data), zero_based=False)
    run("svm-train", "-q", data, theirs)
    run("svm-predict", data, theirs, tmp_path / "out")
    expected = np.loadtxt(tmp_path / "out")
    model = load_libsvm_model(theirs)
    np.testing.assert_array_equal(model.predict(X), expected)
    np.testing.assert_array_equal(model.to_sklearn().predict(X), expected)
    save_libsvm_model(model, tmp_path / "again")
    run("svm-predict", data, tmp_path / "again", tmp_path / "out")
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "out"), expected)


def test_loaded_binary_scores_are_positive_for_the_higher_label(tmp_path):
    """Whatever the order in the file: scikit-learn's metrics count on it."""
    X, y = load_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = SVC().fit(X, y)
    save_libsvm_model(model, tmp_path / "model")
    header, _, vectors = (tmp_path / "model").read_text().partition("SV\n")
    lines = vectors.splitlines(keepends=True)
    n0, n1 = model.n_support_
    rho = -float(model._intercept_[0])
    header = header.replace("label 0 1", "label 1 0").replace(
        f"nr_sv {n0} {n1}", f"nr_sv {n1} {n0}"
    )
    header = header.replace(f"rho {rho!r}", f"rho {-rho!r}")
    turned = [f"{-float(first)!r} {rest}" for first, _, rest in (x.partition(" ") for x in lines)]
    text = header + "SV\n" + "".join(turned[n0:] + turned[:n0])
    (tmp_path / "turned").write_text(text)
    loaded = load_libsvm_model(tmp_path / "turned")
    np.testing.assert_array_equal(loaded.classes_, [0, 1])
    np.testing.assert_allclose(loaded.decision_function(X), model.decision_function(X), atol=1e-10)


@needs_libsvm
def test_precomputed_kernel_both_ways(tmp_path):
    X, y = load_iris(return_X_y=True)
    K = X @ X.T
    data = tmp_path / "data"
    with open(data, "w") as file:
        for number, (label, row) in enumerate(zip(y, K.tolist(), strict=True), start=1):
            values = " ".join(f"{i}:{v!r}" for i, v in enumerate(row, start=1))
            file.write(f"{label} 0:{number} {values}\n")
    read = read_data(data, precomputed=True)
    np.testing.assert_array_equal(read.X, K)
    model = SVC(kernel="precomputed").fit(K, y)
    save_libsvm_model(model, tmp_path / "ours")
    run("svm-predict", data, tmp_path / "ours", tmp_path / "out")
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "out"), model.predict(K))
    run("svm-train", "-q", "-t", 4, data, tmp_path / "theirs")
    run("svm-predict", data, tmp_path / "theirs", tmp_path / "out")
    loaded = load_libsvm_model(tmp_path / "theirs", n_features=len(K))
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "out"), loaded.predict(K))


# --- model files ------------------------------------------------------------


@pytest.mark.parametrize("name", ["model", "model.xz", "model.npz"])
@pytest.mark.parametrize("parameters", KERNELS, ids=KERNEL_NAMES)
def test_a_model_comes_back_to_the_last_bit(samples, parameters, name, tmp_path):
    X, y = samples
    X = sp.csr_array(X)
    X.data[X.indices == X.shape[1] - 1] = 0  # the last feature is always zero
    X.eliminate_zeros()
    model = SVC(**parameters).fit(X, y)
    save_model(model, tmp_path / name)
    back = load_model(tmp_path / name)
    assert back.n_features_in_ == X.shape[1]
    np.testing.assert_array_equal(back.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    np.testing.assert_array_equal(back.n_support_, model.n_support_)


def test_our_own_format_keeps_everything(tmp_path):
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = load_iris().target_names[y]
    weights = {"setosa": 2.0, "virginica": 0.5}
    model = SVC(C=3, class_weight=weights, multi_class="ovr", random_state=4).fit(X, names)
    save_model(model, tmp_path / "model.npz")
    back = load_model(tmp_path / "model.npz")
    assert back.get_params() == model.get_params()
    assert str(back.fit_report_) == str(model.fit_report_)
    assert back.fit_report_.history == model.fit_report_.history
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    np.testing.assert_array_equal(back.feature_names_in_, model.feature_names_in_)
    np.testing.assert_array_equal(back.n_iter_, model.n_iter_)
    assert back.set_params(C=1).fit(X, names).score(X, names) > 0.9


def test_numbers_that_json_lacks_are_kept(tmp_path):
    X, y = load_iris(return_X_y=True)
    X, y = X[:100], y[:100]
    hard = SVC(C=np.inf).fit(X, y)
    rough = SVC(solver="greedy").fit(X, y)
    rough.fit_report_.problems = [replace(rough.fit_report_[0], duality_gap=np.inf)]
    for model in (hard, rough):
        save_model(model, tmp_path / "model.npz")
        back = load_model(tmp_path / "model.npz")
        assert back.C == model.C
        assert back.fit_report_.duality_gap == model.fit_report_.duality_gap
        with np.load(tmp_path / "model.npz") as arrays:
            assert json.loads(str(arrays["description"]), parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("model", "labels", "sentence"),
    [
        (SVC(), ["a", "b", "c"], "whole numbers as labels, not 'a'"),
        (SVC(multi_class="ovr"), [1, 2, 3], "multi_class='ovo'"),
        (SVC(kernel=lambda A, B: A @ B.T), [1, 2, 3], "Python function"),
    ],
)
def test_what_libsvm_cannot_hold_is_refused(model, labels, sentence, tmp_path):
    X, y = load_iris(return_X_y=True)
    model.fit(X, np.array(labels)[y])
    with pytest.raises(ValueError, match=sentence):
        save_libsvm_model(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_an_unfitted_model_is_refused(tmp_path):
    for save in (save_libsvm_model, save_model):
        with pytest.raises(NotFittedError):
            save(SVC(), tmp_path / "model.npz")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: text[: len(text) // 2].rpartition("\n")[0], "may be cut short"),
        (
            lambda text: text.replace("svm_type c_svc", "svm_type gamma_svc"),
            "type 'gamma_svc', not of",
        ),
        (lambda text: text.replace("kernel_type rbf", "kernel_type chi2"), "'chi2', is not known"),
        (lambda text: text.replace("rho", "rhubarb"), "line 6: 'rhubarb' is not known"),
        (
            lambda text: text.replace("label 0 1", "label 0"),
            "nr_class is 2, but there are 1 labels",
        ),
        (lambda text: text.replace(" 1:", " 1;"), r"line \d+: expected index:value, found '1;"),
        (lambda text: "1 1:2\n" * 30, "is not a LIBSVM model"),
        (lambda text: "", "does not say its svm_type"),
    ],
)
def test_broken_model_files_are_named(change, sentence, tmp_path):
    X, y = load_cancer(return_X_y=True)
    save_libsvm_model(SVC().fit(X[:99], y[:99]), tmp_path / "model")
    text = (tmp_path / "model").read_text()
    (tmp_path / "broken").write_text(change(text))
    with pytest.raises(DataError, match=f"broken: .*{sentence}"):
        load_libsvm_model(tmp_path / "broken")


def test_broken_npz_models_are_named(tmp_path):
    X, y = load_iris(return_X_y=True)
    save_model(SVC().fit(X, y), tmp_path / "model.npz")
    whole = (tmp_path / "model.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[:-200])
    np.savez(tmp_path / "data.npz", X=X, y=y)
    for name, sentence in (("cut", "is not an .npz file, or is damaged"), ("data", "not a model")):
        with pytest.raises(DataError, match=f"{name}.npz: .*{sentence}"):
            load_model(tmp_path / f"{name}.npz")
    with pytest.raises(DataError, match="No such file"):
        load_model(tmp_path / "absent.npz")


# --- scikit-learn -----------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("parameters", KERNELS, ids=KERNEL_NAMES)
def test_to_and_from_sklearn(samples, parameters, sparse):
    X, y = samples
    X = sp.csr_matrix(X) if sparse else X
    theirs = SklearnSVC(C=3, **parameters).fit(X, y)
    ours = SVC.from_sklearn(theirs)
    assert isinstance(ours, SVC) and ours.C == 3
    # After the way there and back, scikit-learn's own compiled code judges.
    for model in (ours, ours.to_sklearn()):
        np.testing.assert_allclose(
            model.decision_function(X), theirs.decision_function(X), rtol=1e-9, atol=1e-9
        )
        np.testing.assert_array_equal(model.predict(X), theirs.predict(X))
    mine = SVC(C=3, **parameters).fit(X, y)
    there = mine.to_sklearn()
    assert type(there) is SklearnSVC and there.fit_status_ == 0
    np.testing.assert_allclose(
        there.decision_function(X), mine.decision_function(X), rtol=1e-9, atol=1e-9
    )
    assert there.fit(X, y).score(X, y) == theirs.score(X, y)


@pytest.mark.parametrize("kernel", ["precomputed", lambda A, B: np.asarray(A @ B.T)])
def test_sklearn_with_kernels_by_the_user(kernel):
    X, y = load_iris(return_X_y=True)
    given = X @ X.T if kernel == "precomputed" else X
    theirs = SklearnSVC(kernel=kernel).fit(given, y)
    ours = SVC.from_sklearn(theirs)
    np.testing.assert_array_equal(ours.predict(given), theirs.predict(given))
    np.testing.assert_array_equal(ours.to_sklearn().predict(given), theirs.predict(given))


def test_what_cannot_be_converted_is_refused():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(TypeError, match=r"sklearn\.svm\.SVC, got NuSVC"):
        SVC.from_sklearn(NuSVC().fit(X, y))
    with pytest.raises(ValueError, match="multi_class='ovo'"):
        SVC(multi_class="ovr").fit(X, y).to_sklearn()
    with pytest.raises(NotFittedError):
        SVC.from_sklearn(SklearnSVC())


# --- ONNX -------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("parameters", KERNELS, ids=KERNEL_NAMES)
def test_onnxruntime_scores_equally(samples, parameters, sparse):
    import onnxruntime

    from maxmargin.io.onnx import to_onnx

    X, y = samples
    X = X.astype(np.float32)
    model = SVC(**parameters).fit(sp.csr_array(X) if sparse else X, y)
    onnx = to_onnx(model, X[:1], options={"zipmap": False, "raw_scores": True})
    session = onnxruntime.InferenceSession(onnx.SerializeToString())
    labels, scores = session.run(None, {"X": X})
    np.testing.assert_array_equal(labels, model.predict(X))
    expected = model.decision_function(X)
    scores = scores[:, -1] if expected.ndim == 1 else scores
    np.testing.assert_allclose(scores, expected, rtol=1e-3, atol=1e-4)


def test_onnx_of_a_pipeline_with_labels_of_text():
    import onnxruntime

    from maxmargin.io.onnx import to_onnx

    iris = load_iris()
    X, y = iris.data.astype(np.float32), iris.target_names[iris.target].astype(str)
    model = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    session = onnxruntime.InferenceSession(to_onnx(model, X[:1]).SerializeToString())
    np.testing.assert_array_equal(session.run(None, {"X": X})[0], model.predict(X))
    with pytest.raises(ValueError, match="no kernels beside"):
        to_onnx(SVC(kernel="precomputed").fit(X @ X.T, y), X @ X.T)


# --- data -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "pack"),
    [("data", bytes), ("d.gz", gzip.compress), ("d.bz2", bz2.compress), ("d.xz", lzma.compress)],
)
def test_libsvm_text_whatever_its_packing(name, pack, tmp_path):
    (tmp_path / name).write_bytes(pack(TEXT))
    data = read_data(tmp_path / name)
    np.testing.assert_array_equal(data.X.toarray(), [[0.5, 0, -2], [0, 1e-3, 0], [7, 0, 0]])
    np.testing.assert_array_equal(data.y, [1, -1, 1])
    assert data.y.dtype.kind == "i"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("x 1:2", "line 2: the label must be a number, not 'x'"),
        ("nan 1:2", "line 2: the label must be a number, not 'nan'"),
        ("1 1:2 2", "line 2: expected index:value, found '2'"),
        ("1 a:2", "line 2: expected index:value, found 'a:2'"),
        ("1 1:two", "line 2: the value of feature 1 must be a finite number, not 'two'"),
        ("1 1:inf", "line 2: the value of feature 1 must be a finite number, not 'inf'"),
        ("1 1:nan", "line 2: the value of feature 1 must be a finite number, not 'nan'"),
        ("1 1:", "line 2: the value of feature 1 must be a finite number, not ''"),
        ("1 0:2", "line 2: features are counted from 1"),
        ("1 -1:2", "line 2: expected index:value, found '-1:2'"),
        ("1 3:1 2:1", "line 2: feature 2 comes after feature 3"),
        ("1 2:1 2:1", "line 2: feature 2 comes after feature 2"),
        ("1,2 1:1", "line 2: the label must be a number, not '1,2'"),
        ("1 99999999999:1", "line 2: feature 99999999999 is beyond"),
    ],
)
def test_a_broken_line_of_libsvm_text_is_named(line, sentence, tmp_path):
    (tmp_path / "data").write_text(f"1 1:1\n{line}\n-1 1:3\n")
    with pytest.raises(DataError) as raised:
        read_data(tmp_path / "data")
    assert f"data, {sentence}" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "label", "names", "y"),
    [
        ("a,b,c\n1,2,x\n3,4,y\n", "c", ["a", "b"], ["x", "y"]),
        ("c,a,b\n0,1,2\n1,3,4\n", "c", ["a", "b"], [0, 1]),
        ('"c, d",a,b\n"x, y",1,2\n\nz,3,4\n', "c, d", ["a", "b"], ["x, y", "z"]),
        ("1,2,x\n3,4,y\n", "3", None, ["x", "y"]),
        ("1,2\n3,4\n", None, None, None),
        ("\ufeffa,b\r\n1,2\r\n3,4\r\n", None, ["a", "b"], None),
    ],
)
def test_csv(text, label, names, y, tmp_path):
    (tmp_path / "data.csv").write_bytes(text.encode())
    data = read_data(tmp_path / "data.csv", label=label)
    np.testing.assert_array_equal(data.X, [[1, 2], [3, 4]])
    assert data.feature_names == names
    assert (None if data.y is None else data.y.tolist()) == y


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,y\n1,0\n2\n", "line 3: 1 columns, where there should be 2"),
        ("a,y\n1,0\n\n2,1,1\n", "line 4: 3 columns, where there should be 2"),
        ("a,y\n1,0\ntwo,1\n", "line 3: column 'a' must hold finite numbers, found 'two'"),
        ("a,y\n1,0\n,1\n", "line 3: column 'a' must hold finite numbers, found nothing"),
        ("a,y\n1,0\nnan,1\n", "line 3: column 'a' must hold finite numbers, found 'nan'"),
        ("a,y\n1,0\n2,\n", "line 3: the label is missing"),
        ("a,b\n1,0\n", "no column 'y'; the columns are a, b"),
        ("a,y\n", "there are no samples"),
        ("", "there are no samples"),
    ],
)
@pytest.mark.filterwarnings("ignore:loadtxt")
def test_a_broken_line_of_csv_is_named(text, sentence, tmp_path):
    (tmp_path / "data.csv").write_text(text)
    with pytest.raises(DataError) as raised:
        read_data(tmp_path / "data.csv", label="y")
    assert sentence in str(raised.value) and "data.csv" in str(raised.value)


def test_parquet(tmp_path):
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    def write(**columns):
        parquet.write_table(arrow.table(columns), tmp_path / "data.parquet")
        return tmp_path / "data.parquet"

    data = read_data(write(a=[1, 2], kind=["x", "y"], b=[0.5, 1.5]), label="kind")
    np.testing.assert_array_equal(data.X, [[1, 0.5], [2, 1.5]])
    assert data.y.tolist() == ["x", "y"] and data.feature_names == ["a", "b"]
    with pytest.raises(DataError, match="row 2: column 'a' is missing"):
        read_data(write(a=[1, None], y=[0, 1]), label="y")
    with pytest.raises(DataError, match="column 'a' holds more than numbers"):
        read_data(write(a=["p", "q"], y=[0, 1]), label="y")
    with pytest.raises(DataError, match="label is missing in 1 rows"):
        read_data(write(a=[1, 2], y=["p", None]), label="y")
    (tmp_path / "text.parquet").write_text("no")
    with pytest.raises(DataError, match=r"text.parquet: is not a Parquet file"):
        read_data(tmp_path / "text.parquet", label="y")


@pytest.mark.parametrize("name", ["data.npz", "data", "data.xz", "data.csv"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_what_is_written_is_read(name, sparse, tmp_path):
    X, y = load_iris(return_X_y=True)
    np.savez(tmp_path / "given.npz", X=X, y=y)
    if sparse:
        dump_svmlight_file(X, y, str(tmp_path / "given"), zero_based=False)
    data = read_data(tmp_path / ("given" if sparse else "given.npz"))
    write_data(tmp_path / name, data)
    back = read_data(tmp_path / name, label="label" if name.endswith(".csv") else None)
    dense = back.X.toarray() if sp.issparse(back.X) else back.X
    np.testing.assert_allclose(dense, X, rtol=1e-15)
    np.testing.assert_array_equal(back.y, y)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("absent", None, "absent: No such file or directory"),
        ("empty", b"", "there are no samples"),
        ("cut.gz", gzip.compress(TEXT * 99, mtime=0)[:-20], "cut.gz: cannot be unpacked"),
        ("cut.xz", lzma.compress(TEXT * 99)[:-20], "cut.xz: cannot be unpacked"),
        ("text.bz2", TEXT, "text.bz2: cannot be unpacked"),
        ("text.gz", TEXT, "text.gz: cannot be unpacked"),
        ("text.npz", TEXT, "text.npz: "),
    ],
    ids=lambda value: value if isinstance(value, str) else "content",
)
def test_unusable_files_are_named(name, content, sentence, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=sentence):
        read_data(tmp_path / name)


def test_npz_without_what_is_needed(tmp_path):
    def write(**arrays):
        np.savez(tmp_path / "data.npz", **arrays)
        return tmp_path / "data.npz"

    with pytest.raises(DataError, match="has no array X, only Z"):
        read_data(write(Z=[1]))
    with pytest.raises(DataError, match="X has 2 rows, but y has shape"):
        read_data(write(X=np.ones((2, 2)), y=[1, 2, 3]))
    with pytest.raises(DataError, match="missing or infinite"):
        read_data(write(X=[[1.0, np.nan]], y=[1]))
    with pytest.raises(DataError, match="table of numbers"):
        read_data(write(X=[["a", "b"]], y=[1]))


# --- whole or not at all ----------------------------------------------------


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(RuntimeError), atomic_write(path) as file:
        file.write(b"half of the ne")
        raise RuntimeError
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_write_keeps_permissions_and_links(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with atomic_write(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o640


def test_a_full_disk_names_the_file_and_leaves_nothing(tmp_path):
    """A limit on the size of files stands in for the disk, and needs a process of its own."""
    code = (
        "import resource, sys, numpy as np\n"
        "from maxmargin.io import write_data, Dataset\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "data = Dataset(np.ones((999, 9)), np.ones(999), None, 'd', True)\n"
        "try:\n    write_data(sys.argv[1], data)\n"
        "except OSError as error:\n    print(error.filename, '|', error.strerror)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{tmp_path / 'out'} | File too large"
    assert os.listdir(tmp_path) == []
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1000
