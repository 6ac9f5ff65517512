"""The command line with all five kinds of SVM: LIBSVM's -s, -n and -p, its measures and words."""

import json
import os
import re
import shutil
import subprocess

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.datasets import dump_svmlight_file, load_diabetes, load_iris
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold

from maxmargin import SVR, NuSVC, NuSVR, OneClassSVM
from maxmargin.io import load_model, read_data

pytest.importorskip("typer", reason="typer is not installed (extra cli).")

needs_libsvm = pytest.mark.skipif(
    shutil.which("svm-train") is None or shutil.which("svm-predict") is None,
    reason="svm-train and svm-predict are not installed (Debian package libsvm-tools).",
)
# LIBSVM's number and name, the file, options, and the estimator that they ask for.
KINDS = {
    "nu_svc": (1, "iris.txt", "-n 0.3", NuSVC(nu=0.3)),
    "one_class": (2, "outliers.txt", "-n 0.2", OneClassSVM(nu=0.2)),
    "epsilon_svr": (3, "targets.txt", "-c 5 -p 0.3", SVR(C=5.0, epsilon=0.3)),
    "nu_svr": (4, "targets.txt", "-c 5 -n 0.4", NuSVR(C=5.0, nu=0.4)),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def data():
    """File → X and y."""
    X, y = load_diabetes(return_X_y=True)
    X, y = 20 * X[:150], (y[:150] - y.mean()) / y.std()
    flowers, species = load_iris(return_X_y=True)
    flowers = (flowers - flowers.mean(axis=0)) / flowers.std(axis=0)
    return {
        "targets.txt": (X, y),
        "iris.txt": (flowers, species + 1),
        "outliers.txt": (flowers, np.where(np.arange(150) % 7, 1, -1)),
    }


@pytest.fixture
def folder(tmp_path, monkeypatch, data):
    for name, (X, y) in data.items():
        dump_svmlight_file(X, y, str(tmp_path / name), zero_based=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def libsvm(*command):
    """What one of LIBSVM's programs prints."""
    done = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
    return done.stdout


@every_kind
@pytest.mark.parametrize("by", ["number", "name"])
def test_train_and_predict(run, folder, data, kind, by):
    number, name, options, expected = KINDS[kind]
    X, y = data[name]
    kind_option = number if by == "number" else kind
    code, out, err = run("train", "-s", kind_option, *options.split(), "-g", 0.2, name, "model")
    assert (code, err) == (0, "") and "optimal: KKT violation" in out
    expected.set_params(gamma=0.2).fit(X, y)
    code, out, err = run("predict", name, "model", "out")
    assert (code, err) == (0, "")
    np.testing.assert_allclose(np.loadtxt("out"), expected.predict(X), rtol=1e-9)
    assert type(load_model("model")) is type(expected)
    run("train", "-q", "-s", kind_option, *options.split(), "-g", 0.2, name, "model.npz")
    kept = load_model("model.npz").get_params()
    for parameter in ("C", "nu", "epsilon", "gamma"):
        if parameter in kept:
            assert kept[parameter] == expected.get_params()[parameter]


def last_words(text):
    """The names of the measures in a program's output, and their values."""
    return {
        name: float(value)
        for name, value in re.findall(r"^([A-Z][^=\n]*) = ([-.\de+]+)", text, re.MULTILINE)
    }


@needs_libsvm
@every_kind
def test_predict_says_what_svm_predict_says(run, folder, kind):
    number, name, options, _ = KINDS[kind]
    run("train", "-q", "-s", number, *options.split(), name, "model")
    theirs = libsvm("svm-predict", name, "model", "theirs")
    _, ours, _ = run("predict", name, "model", "ours")
    assert theirs == "".join(
        line for line in ours.splitlines(keepends=True) if not line.startswith("Outliers")
    )
    np.testing.assert_allclose(np.loadtxt("ours"), np.loadtxt("theirs"), rtol=1e-10)


@needs_libsvm
@every_kind
def test_the_same_options_give_the_model_of_svm_train(run, folder, kind):
    number, name, options, _ = KINDS[kind]
    options = ["-s", number, *options.split(), "-g", 0.3, "-e", 1e-6]
    libsvm("svm-train", "-q", *options, name, "theirs")
    run("train", *options, name, "ours")
    X, models = read_data(name).X, [load_model(model) for model in ("ours", "theirs")]
    if kind in ("epsilon_svr", "nu_svr"):
        ours, theirs = (model.predict(X) for model in models)
    else:
        ours, theirs = (model.decision_function(X) for model in models)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


@needs_libsvm
@pytest.mark.parametrize("kind", ["epsilon_svr", "nu_svr", "nu_svc"])
def test_cross_validation_says_what_svm_train_says(run, folder, kind):
    """Their folds are others, so the values are near and not equal."""
    number, name, options, _ = KINDS[kind]
    options = ["-s", number, *options.split(), "-g", 0.05, "-v", 5]
    theirs = last_words(libsvm("svm-train", "-q", *options, name))
    code, out, _ = run("train", *options, name)
    ours = last_words(out)
    assert code == 0 and list(ours) == list(theirs)
    for measure, value in theirs.items():
        assert ours[measure] == pytest.approx(value, rel=0.25)
    assert sorted(os.listdir(folder)) == ["iris.txt", "outliers.txt", "targets.txt"]


def test_cross_validation_of_outliers(run, folder, data):
    code, out, _ = run("train", "-s", 2, "-n", 0.2, "-v", 3, "outliers.txt")
    words = last_words(out)
    assert code == 0
    assert list(words) == ["Cross Validation Outliers", "Cross Validation Accuracy"]
    np.save("samples.npy", data["outliers.txt"][0])
    values = json.loads(run("train", "-s", 2, "-n", 0.2, "-v", 3, "samples.npy", "--json")[1])
    assert 100 * values["outliers"] == pytest.approx(words["Cross Validation Outliers"], rel=1e-4)
    assert "accuracy" not in values


def test_outliers_need_no_labels(run, folder, data):
    X, _ = data["outliers.txt"]
    rows = ["a,b,c,d"] + [",".join(map(str, row)) for row in X]
    (folder / "samples.csv").write_text("\n".join(rows))
    assert run("train", "-s", 2, "-n", 0.1, "samples.csv", "model.npz", "-q")[0] == 0
    code, out, err = run("predict", "samples.csv", "model.npz", "--scores")
    table = np.loadtxt(out.splitlines())
    detector = load_model("model.npz")
    del detector.feature_names_in_
    np.testing.assert_array_equal(table[:, 0], detector.predict(X))
    np.testing.assert_allclose(table[:, 1], detector.decision_function(X))
    outliers = int((table[:, 0] < 0).sum())
    assert (
        code == 0 and err == f"Outliers = {100 * outliers / 150:g}% ({outliers}/150) (one-class)\n"
    )
    values = json.loads(run("predict", "samples.csv", "model.npz", "--json")[1])
    assert values["outliers"] == outliers / 150 and len(values["labels"]) == 150


def test_regression_in_json(run, folder, data):
    X, y = data["targets.txt"]
    values = json.loads(run("train", "-s", 3, "-p", 0.2, "targets.txt", "model", "--json")[1])
    assert values["problems"][0]["quantities"] == {"epsilon": 0.2} and "classes" not in values
    values = json.loads(run("predict", "targets.txt", "model", "--json")[1])
    errors = np.array(values["values"]) - y
    assert values["mean_squared_error"] == pytest.approx(np.mean(errors**2))
    correlation = np.corrcoef(values["values"], y)[0, 1]
    assert values["squared_correlation"] == pytest.approx(correlation**2)
    np.save("samples.npy", X)
    values = json.loads(run("predict", "samples.npy", "model", "--json")[1])
    assert values["mean_squared_error"] is None and len(values["values"]) == 150


def test_targets_that_do_not_vary(run, folder):
    (folder / "flat.txt").write_text("2 1:1\n2 1:2\n2 1:3\n2 1:4\n")
    assert run("train", "-s", 3, "flat.txt", "model")[0] == 0
    code, out, _ = run("predict", "flat.txt", "model", "out")
    assert code == 0 and "Squared correlation coefficient = nan (regression)" in out
    assert (
        json.loads(run("predict", "flat.txt", "model", "--json")[1])["squared_correlation"] is None
    )


@every_kind
def test_inspect(run, folder, kind):
    number, name, options, _ = KINDS[kind]
    run("train", "-q", "-s", number, *options.split(), name, "model")
    run("train", "-q", "-s", number, *options.split(), name, "model.npz")
    code, out, _ = run("inspect", "model.npz")
    assert code == 0 and "optimal: KKT violation" in out
    plain = json.loads(run("inspect", "model", "--json")[1])
    ours = json.loads(run("inspect", "model.npz", "--json")[1])
    assert plain["kind"] == ours["kind"] == type(KINDS[kind][3]).__name__
    for option in ("nu", "C", "epsilon"):
        if option in KINDS[kind][3].get_params():
            assert ours[option] == KINDS[kind][3].get_params()[option]
    if kind == "one_class":
        assert plain["rho"] == ours["rho"] > 0 and 0 <= ours["outliers"] <= 0.2
    elif kind == "nu_svc":
        assert plain["classes"] == ours["classes"] == [1, 2, 3]
    else:
        assert plain["intercept"] == ours["intercept"] and ours["epsilon"] > 0


def test_inspect_a_regression_on_data(run, folder, data):
    y = data["targets.txt"][1]
    run("train", "-q", "-s", 3, "-c", 5, "targets.txt", "model")
    values = json.loads(run("inspect", "model", "targets.txt", "--json")[1])["on_data"]
    errors = y - load_model("model").predict(read_data("targets.txt").X)
    assert values["mean_squared_error"] == pytest.approx(np.mean(errors**2), rel=1e-6)
    expected = np.quantile(errors, [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1])
    np.testing.assert_allclose(list(values["residuals"].values()), expected, atol=1e-9)
    groups = values["by_truth"]
    assert [group["samples"] for group in groups] == [30] * 5
    lowest = np.argsort(y)[:30]
    assert groups[0]["truth"] == pytest.approx(y[lowest].mean())
    assert groups[0]["rmse"] == pytest.approx(np.sqrt(np.mean(errors[lowest] ** 2)))
    code, out, err = run("inspect", "model", "targets.txt")
    assert (code, err) == (0, "")
    lines = out.partition("on targets.txt:\n")[2].splitlines()
    assert lines[0].startswith("Mean squared error = ") and len(lines) == 2 + 2 + 6
    assert lines[2].split() == ["residuals", *values["residuals"]]


def test_inspect_other_kinds_on_data(run, folder, data):
    run("train", "-q", "-s", 2, "-n", 0.2, "outliers.txt", "model")
    values = json.loads(run("inspect", "model", "outliers.txt", "--json")[1])["on_data"]
    scores = load_model("model").decision_function(read_data("outliers.txt").X)
    assert values["decision_values"]["50%"] == pytest.approx(np.median(scores), abs=1e-9)
    assert "decision values" in run("inspect", "model", "outliers.txt")[1]
    run("train", "-q", "iris.txt", "model")
    assert "Accuracy = 9" in run("inspect", "model", "iris.txt")[1]
    np.save("samples.npy", data["iris.txt"][0])
    assert "150 samples, without labels" in run("inspect", "model", "samples.npy")[1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("train -s 6 iris.txt", "--svm-type must be one of c_svc, nu_svc, one_class"),
        ("train -s svr iris.txt", "epsilon_svr, nu_svr or 0 to 4, not 'svr'."),
        ("train -s 1 -n 1.5 iris.txt", "The 'nu' parameter of NuSVC must be"),
        ("train -s 3 -p -1 targets.txt", "The 'epsilon' parameter of SVR must be"),
        ("train -s 1 -n 0.9 uneven.txt", "specified nu is infeasible: nu=0.9"),
        ("train -s 3 words.csv --label y", "words.csv: regression learns numbers, not labels such"),
        ("train -s 3 words.csv", "words.csv: --label must say which column to learn."),
        ("train -s 3 -w1 5 targets.txt", "--weight is about classes, and epsilon_svr has none."),
        ("train -s 2 --multi-class ovo iris.txt", "--multi-class is about classes, and one_class"),
        ("train -s 4 -v 200 targets.txt", "--folds 200, but there are fewer samples."),
        ("train -s 3 --solver greedy targets.txt", "solver 'greedy' does not solve"),
        ("train -s 3 no.npy", "no.npy: there are no labels in it."),
        ("predict --scores targets.txt line.model", "--scores: what a regression predicts is"),
        ("predict words.csv line.model --label y", "words.csv: regression learns numbers"),
    ],
)  # fmt: skip
def test_bad_input_is_2_and_one_sentence(run, folder, arguments, sentence):
    (folder / "uneven.txt").write_text("1 1:1\n1 1:2\n1 1:3\n2 1:4\n")
    (folder / "words.csv").write_text("a,y\n1,low\n3,high\n")
    (folder / "line.txt").write_text("1 1:1\n2 1:2\n3 1:3\n")
    np.save("no.npy", np.eye(4))
    run("train", "-q", "-s", 3, "line.txt", "line.model")
    before = sorted(os.listdir(folder))
    code, out, err = run(*arguments.split())
    assert (code, out) == (2, "")
    assert sentence in err and err.startswith("maxmargin: ") and err.count("\n") == 1
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize(
    ("number", "name", "noted"),
    [
        (0, "iris.txt", ["-n means nothing to c_svc", "-p means nothing to c_svc"]),
        (1, "iris.txt", ["-c means nothing to nu_svc", "-p means nothing to nu_svc"]),
        (2, "iris.txt", ["-c means nothing to one_class", "-p means nothing to one_class"]),
        (3, "targets.txt", ["-n means nothing to epsilon_svr"]),
        (4, "targets.txt", ["-p means nothing to nu_svr"]),
    ],
)
def test_options_of_other_kinds_are_noted(run, folder, number, name, noted):
    options = ["-s", number, "-c", 1, "-p", 0.1, "-n", 0.5, name, "model"]
    code, _, err = run("train", *options)
    assert code == 0
    assert err.splitlines() == [f"maxmargin: {text}, as in svm-train." for text in noted]
    assert run("train", "-q", *options) == (0, "", "")


def test_a_page_about_each_kind(run, folder, data):
    y = data["targets.txt"][1]
    run("train", "-s", 3, "targets.txt", "model.npz", "--report", "page.html")
    page = (folder / "page.html").read_text()
    model = load_model("model.npz")
    assert "Errors (training data)" in page
    assert f"{r2_score(y, model.predict(read_data('targets.txt').X)):.5g}" in page
    run("train", "-s", 2, "-n", 0.1, "outliers.txt", "model.npz", "--report", "page.html")
    page = (folder / "page.html").read_text()
    assert "samples are outliers" in page and "rho" in page


# --- tune -------------------------------------------------------------------


def test_tune_a_regression(run, folder, data):
    pytest.importorskip("matplotlib")
    options = ["-log2c", "0,2,1", "-log2g", "-5,-3,2", "-log2p", "-4,-2,1", "-v", 3]
    arguments = ["tune", "-s", 3, *options, "targets.txt", "best.npz"]
    code, out, err = run(*arguments, "--plot", "grid.png")
    assert (code, err) == (0, "")
    assert re.match(r"-c \S+ -g \S+ -p \S+  r2 0\.\d+\nmodel: best.npz\nplot: grid.png\n", out)
    assert (folder / "grid.png").read_bytes().startswith(b"\x89PNG")
    values = json.loads(run(*arguments, "--json")[1])
    assert len(values["candidates"]) == 3 * 2 * 3
    X, y = read_data("targets.txt").X, data["targets.txt"][1]
    search = GridSearchCV(
        sklearn.svm.SVR(),
        {"C": [1, 2, 4], "gamma": [2**-5, 2**-3], "epsilon": [2**-4, 2**-3, 2**-2]},
        cv=KFold(3, shuffle=True, random_state=0),
    ).fit(sp.csr_matrix(X), y)
    assert values["best"] == search.best_params_
    assert values["r2"] == pytest.approx(search.best_score_, abs=1e-3)
    assert load_model("best.npz").epsilon == values["best"]["epsilon"]


@pytest.mark.parametrize(
    ("options", "varied", "fixed"),
    [
        ("-log2c 0,1,1 -log2g null -p 0.3", ["C"], {"epsilon": 0.3}),
        ("-log2c 0,1,1 -t 0", ["C", "epsilon"], {"kernel": "linear"}),
        ("-log2c null -log2g null -log2p -3,-2,1 -c 5", ["epsilon"], {"C": 5}),
        ("-log2c 0,1,1 -log2g null -log2p null", ["C"], {"epsilon": 0.1}),
    ],
)
def test_tune_varies_what_is_asked_for(run, folder, options, varied, fixed):
    arguments = ["tune", "-s", "epsilon_svr", *options.split(), "-v", 2, "targets.txt", "best.npz"]
    values = json.loads(run(*arguments, "--json", "--scoring", "neg_mean_squared_error")[1])
    assert list(values["best"]) == varied and values["neg_mean_squared_error"] < 0
    kept = load_model("best.npz").get_params()
    assert {name: kept[name] for name in fixed} == fixed


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("-s 4 targets.txt", "-s: c_svc and epsilon_svr can be tuned, not nu_svr."),
        ("-s 2 targets.txt", "-s: c_svc and epsilon_svr can be tuned, not one_class."),
        ("-log2p -3,-1,1 iris.txt", "--log2p and -p are about epsilon, and c_svc has none."),
        ("-p 0.1 iris.txt", "--log2p and -p are about epsilon"),
        ("-s 3 -log2p -3,-1,1 -p 0.1 targets.txt", "-p: --log2p varies epsilon; use --log2p null"),
        ("-s 3 -w1 2 targets.txt", "--weight is about classes, and epsilon_svr has none."),
        ("-s 3 -log2c null -log2g null -log2p null targets.txt", "there is nothing to tune"),
        ("-s 3 -log2c 0,1,1 -v 500 targets.txt", "--folds 500, but there are fewer samples."),
        ("-s 3 -e -1 targets.txt", "The 'tol' parameter of SVR must be"),
    ],
)  # fmt: skip
def test_tune_says_what_is_wrong(run, folder, arguments, sentence):
    code, out, err = run("tune", *arguments.split())
    assert (code, out) == (2, "") and sentence in err and err.count("\n") == 1
