"""Probabilities as LIBSVM has them: of pairs of classes, coupled; and the noise of a regression."""

import json
import os
import pickle
import shutil
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import (
    dump_svmlight_file,
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
)
from sklearn.preprocessing import scale

from maxmargin import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from maxmargin.estimators.noise import fit_noise
from maxmargin.estimators.pair_sigmoids import PairSigmoids, fit_sigmoids
from maxmargin.io import DataError, load_model, read_data, save_model

needs_libsvm = pytest.mark.skipif(
    shutil.which("svm-train") is None or shutil.which("svm-predict") is None,
    reason="svm-train and svm-predict are not installed (Debian package libsvm-tools).",
)
# LIBSVM before 3.3 iterates for two classes too, and stops within this of the answer.
TWO_CLASSES = 5e-3


def classes(count):
    if count == 2:
        X, y = load_breast_cancer(return_X_y=True)
        return scale(X)[:200, :6], np.where(y[:200] == 1, 4, -1)
    X, y = load_iris(return_X_y=True) if count == 3 else load_digits(return_X_y=True)
    return scale(X[: 60 * count]), y[: 60 * count]


def numbers():
    X, y = load_diabetes(return_X_y=True)
    return scale(X)[:200], scale(y)[:200]


def fitted_sklearn(kind, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return kind(probability=True, random_state=0).fit(X, y)


def with_sigmoids(count=3, kind=SVC):
    X, y = classes(count)
    model = kind().fit(X, y)
    model._pair_sigmoids = fit_sigmoids(model, X, y, 0)
    return model, X


def libsvm(*command):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)


# --- the mathematics --------------------------------------------------------


@pytest.mark.parametrize("kind", ["SVC", "NuSVC"])
@pytest.mark.parametrize("count", [2, 3, 10])
@pytest.mark.parametrize("sparse", [False, True])
def test_probabilities_of_sklearns_models_are_kept(kind, count, sparse):
    """Its compiled LIBSVM is the oracle of the coupling."""
    X, y = classes(count)
    X = sp.csr_matrix(X) if sparse else X
    theirs = fitted_sklearn(getattr(sklearn.svm, kind), X, y)
    ours = {"SVC": SVC, "NuSVC": NuSVC}[kind].from_sklearn(theirs)
    expected = theirs.predict_proba(X)
    assert_allclose(ours.predict_proba(X), expected, atol=TWO_CLASSES if count == 2 else 1e-9)
    assert_allclose(ours.predict_log_proba(X), np.log(ours.predict_proba(X)))
    assert_allclose(ours.to_sklearn().predict_proba(X), expected, atol=1e-12)


@pytest.mark.parametrize("n_classes", [3, 4, 7, 30])
def test_coupling_solves_its_linear_system(n_classes):
    """min Σ (r_ji p_i − r_ij p_j)² with Σp = 1, up to the tolerance of LIBSVM's iteration."""
    rng = np.random.default_rng(n_classes)
    n_pairs = n_classes * (n_classes - 1) // 2
    decisions = rng.normal(size=(25, n_pairs))
    sigmoids = PairSigmoids(-rng.uniform(0.5, 2.0, n_pairs), rng.normal(size=n_pairs))
    found = sigmoids.probabilities(decisions, n_classes)
    of_first = 1 / (1 + np.exp(sigmoids.slopes * decisions + sigmoids.offsets))
    for row, p in zip(of_first, found):
        r = np.zeros((n_classes, n_classes))
        r[np.triu_indices(n_classes, 1)] = row
        r += np.tril(1 - r.T, -1)
        Q = -r * r.T
        np.fill_diagonal(Q, (r**2).sum(axis=0))
        edge = np.ones((n_classes, 1))
        system = np.block([[Q, edge], [edge.T, np.zeros((1, 1))]])
        exact = np.linalg.solve(system, np.append(np.zeros(n_classes), 1.0))[:-1]
        assert_allclose(p, exact, atol=0.02)
        assert p.sum() == pytest.approx(1.0) and (p > 0).all()


@pytest.mark.parametrize("count", [2, 3])
def test_sigmoids_are_near_those_of_libsvm(count):
    """Their folds are others."""
    X, y = classes(count)
    theirs = fitted_sklearn(sklearn.svm.SVC, X, y)
    model = SVC.from_sklearn(theirs)
    ours = fit_sigmoids(SVC(), X, y, 0)
    found = ours.probabilities(model._decisions(X, "tasks"), count)
    assert np.abs(found - theirs.predict_proba(X)).mean() < 0.02
    again = fit_sigmoids(SVC(), X, y, 0)
    assert_array_equal(again.slopes, ours.slopes)


def test_sigmoids_of_precomputed_kernels_and_of_a_lonely_sample():
    X, y = classes(3)
    plain = fit_sigmoids(SVC(kernel="linear"), X, y, 0)
    other = fit_sigmoids(SVC(kernel="precomputed"), X @ X.T, y, 0)
    assert_allclose(other.slopes, plain.slopes, rtol=1e-2)
    y = np.where(np.arange(len(y)) == 0, 9, y)
    assert np.isfinite(fit_sigmoids(SVC(), X, y, 0).slopes).all()
    with pytest.raises(ValueError, match="of pairs of classes: train with multi_class='ovo'"):
        fit_sigmoids(SVC(multi_class="ovr"), X, y)


def test_another_fit_forgets_probabilities():
    model, X = with_sigmoids()
    assert model.predict_proba(X).shape == (len(X), 3)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    model.fit(*classes(3))
    assert not hasattr(model, "predict_proba")
    regression = SVR().fit(*numbers())
    regression._noise = 1.0
    assert not hasattr(regression.fit(*numbers()), "_noise")


# --- files ------------------------------------------------------------------


@pytest.mark.parametrize("kind", [SVC, NuSVC])
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", ["model", "model.npz"])
def test_probabilities_come_back_to_the_last_bit(kind, count, name, tmp_path):
    model, X = with_sigmoids(count, kind)
    save_model(model, tmp_path / name)
    back = load_model(tmp_path / name)
    data = X if name == "model.npz" else sp.csr_array(X)
    expected = model._pair_sigmoids.probabilities(back._decisions(data, "tasks"), count)
    assert_array_equal(back.predict_proba(data), expected)
    assert_allclose(back.predict_proba(data), model.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("kind", [SVR, NuSVR])
@pytest.mark.parametrize("name", ["model", "model.npz"])
def test_noise_comes_back(kind, name, tmp_path):
    X, y = numbers()
    model = kind().fit(X, y)
    model._noise = fit_noise(model, X, y, 0)
    save_model(model, tmp_path / name)
    assert load_model(tmp_path / name)._noise == model._noise


def test_two_classes_in_the_other_order(tmp_path):
    """LIBSVM's first class may be the higher one; ours is the lower."""
    model, X = with_sigmoids(2)
    save_model(model, tmp_path / "model")
    header, _, vectors = (tmp_path / "model").read_text().partition("SV\n")
    lines = dict(line.split(" ", 1) for line in header.splitlines())
    n_first, n_second = map(int, lines["nr_sv"].split())
    lines |= {"label": "4 -1", "nr_sv": f"{n_second} {n_first}"}
    lines |= {key: repr(-float(lines[key])) for key in ("rho", "probB")}
    rows = vectors.splitlines()
    turned = [f"{-float(a)!r} {b}" for a, _, b in (row.partition(" ") for row in rows)]
    text = "".join(f"{key} {value}\n" for key, value in lines.items())
    body = "\n".join([*turned[n_first:], *turned[:n_first]])
    (tmp_path / "turned").write_text(f"{text}SV\n{body}\n")
    back = load_model(tmp_path / "turned")
    assert_array_equal(back.classes_, [-1, 4])
    assert_allclose(back.predict_proba(sp.csr_array(X)), model.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("probB ", "prob_density_marks ", "there is probA, but not the other of probA and probB"),
        ("probA ", "probA 1.0 ", r"probA must have shape \(3,\), not \(4,\)"),
        ("probA ", "probA nan ", r"probA (must have shape|holds values)"),
        ("probA ", "probA x ", "probA must be numbers, not 'x'"),
    ],
)
def test_damaged_probabilities_are_refused(old, new, sentence, tmp_path):
    save_model(with_sigmoids()[0], tmp_path / "model")
    (tmp_path / "bad").write_text((tmp_path / "model").read_text().replace(old, new, 1))
    with pytest.raises(DataError, match=sentence):
        load_model(tmp_path / "bad")


def test_damaged_noise_is_refused(tmp_path):
    model = SVR().fit(*numbers())
    for noise in (-1.0, np.nan):
        model._noise = noise
        with pytest.raises(DataError, match=r"noise (must be at least 0|holds values)"):
            save_model(model, tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())


# --- LIBSVM's programs, and the command line --------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for count, name in ((2, "two"), (3, "three")):
        dump_svmlight_file(*classes(count), str(tmp_path / name), zero_based=False)
    dump_svmlight_file(*numbers(), str(tmp_path / "numbers"), zero_based=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table_of(name):
    """The classes, labels and probabilities in a file of predictions."""
    first, *lines = Path(name).read_text().splitlines()
    word, *labels = first.split()
    assert word == "labels"
    rows = np.array([line.split() for line in lines], dtype=float)
    return [float(label) for label in labels], rows[:, 0], rows[:, 1:]


@needs_libsvm
@pytest.mark.parametrize("name", ["two", "three"])
@pytest.mark.parametrize("svm_type", [0, 1])
@pytest.mark.parametrize("by", ["maxmargin", "svm-train"])
def test_both_programs_print_the_same_probabilities(folder, run, name, svm_type, by):
    options = ["-b", 1, "-s", svm_type, "-n", 0.3, "-g", 0.1, "-q", name, "model"]
    if by == "maxmargin":
        assert run("train", *options) == (0, "", "")
    else:
        libsvm("svm-train", *options)
    theirs = libsvm("svm-predict", "-b", 1, name, "model", "theirs").stdout
    code, ours, err = run("predict", "-b", 1, name, "model", "ours")
    assert (code, err) == (0, "") and ours == theirs
    (names, labels, values), (their_names, their_labels, their_values) = map(
        table_of, ("ours", "theirs")
    )
    # Two classes are in ascending order here, whatever the file's.
    order = [names.index(label) for label in their_names]
    assert_array_equal(labels, their_labels)
    tolerance = TWO_CLASSES if name == "two" else 1e-5
    assert_allclose(values[:, order], their_values, atol=tolerance)


@needs_libsvm
@pytest.mark.parametrize("svm_type", [3, 4])
def test_noise_is_that_of_svm_train(folder, run, svm_type):
    options = ["-b", 1, "-s", svm_type, "-g", 0.05, "-q", "numbers"]
    assert run("train", *options, "ours") == (0, "", "")
    libsvm("svm-train", *options, "theirs")
    ours, theirs = load_model("ours")._noise, load_model("theirs")._noise
    assert ours == pytest.approx(theirs, rel=0.1)
    printed = libsvm("svm-predict", "-b", 1, "numbers", "ours", "out").stdout
    assert run("predict", "-b", 1, "numbers", "ours", "out")[1] == printed
    values = json.loads(run("predict", "-b", 1, "numbers", "ours", "--json")[1])
    assert values["noise"] == ours


def test_probabilities_in_json_and_beside_the_labels(folder, run):
    run("train", "-b", 1, "-q", "three", "model.npz")
    values = json.loads(run("predict", "-b", 1, "three", "model.npz", "--json")[1])
    model = load_model("model.npz")
    expected = model.predict_proba(read_data("three").X)
    assert_allclose(values["probabilities"], expected)
    assert values["classes"] == [0, 1, 2]
    assert_array_equal(values["labels"], np.argmax(expected, axis=1))
    code, out, _ = run("predict", "-b", 1, "three", "model.npz")
    assert code == 0 and out.splitlines()[0] == "labels 0 1 2" and len(out.splitlines()) == 151


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("train -s 2 -b 1 three", "-b: one_class has no probabilities here"),
        ("train -b 1 -v 3 three", "-b: cross-validation counts labels and errors"),
        ("train -b 1 --multi-class ovr three", "use --multi-class ovo."),
        ("predict -b 1 three plain", "-b: plain holds no probabilities; train with -b 1"),
        ("predict -b 1 --scores three model", "-b and --scores cannot be used together."),
    ],
)
def test_sentences(folder, run, arguments, sentence):
    run("train", "-q", "three", "plain")
    run("train", "-b", 1, "-q", "three", "model")
    before = sorted(os.listdir(folder))
    code, out, err = run(*arguments.split())
    assert (code, out) == (2, "") and sentence in err and err.count("\n") == 1
    assert sorted(os.listdir(folder)) == before


def test_inspect_says_whether_there_are_probabilities(folder, run):
    run("train", "-b", 1, "-q", "three", "model")
    assert json.loads(run("inspect", "model", "--json")[1])["probabilities"] == "yes"
    run("train", "-q", "three", "model")
    assert json.loads(run("inspect", "model", "--json")[1])["probabilities"] == "no"
    run("train", "-s", 3, "-b", 1, "-q", "numbers", "model")
    values = json.loads(run("inspect", "model", "--json")[1])
    assert values["noise"] == load_model("model")._noise


def test_a_one_class_model_has_no_probabilities():
    assert not hasattr(OneClassSVM().fit(classes(2)[0]), "predict_proba")
