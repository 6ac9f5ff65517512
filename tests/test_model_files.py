"""Model files: what cannot be right is refused in one sentence, in both formats."""

import json

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import dump_svmlight_file, load_iris

from maxmargin import SVC
from maxmargin.io import DataError, load_model, save_model
from maxmargin.solvers import (
    IRWLS,
    SMO,
    ClusterSVM,
    GreedyStagewise,
    HierarchicalSVM,
    Solver,
)
from model_files import read_parts, two_classes, write_models, write_parts


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return write_models(tmp_path_factory.mktemp("models"))


@pytest.fixture
def refused(tmp_path, capsys):
    """Check that a file is refused: by `load_model`, and by the command line with exit code 2."""
    pytest.importorskip("typer", reason="typer is not installed (extra cli).")
    from maxmargin.cli import main

    dump_svmlight_file(*two_classes(), str(tmp_path / "data"), zero_based=False)

    def check(path, sentence):
        with pytest.raises(DataError, match=sentence) as raised:
            load_model(path)
        text = str(raised.value)
        assert text.startswith(str(path)) and "\n" not in text and len(text) < 250 + len(str(path))
        for arguments in (["inspect", str(path)], ["predict", str(tmp_path / "data"), str(path)]):
            capsys.readouterr()
            with pytest.raises(SystemExit) as ended:
                main(arguments)
            shown = capsys.readouterr()
            assert (ended.value.code, shown.out, shown.err) == (2, "", f"maxmargin: {text}\n")

    return check


# --- our own format ---------------------------------------------------------


def arrays(**changes):
    """Arrays that take the place of those of the file; None takes one out."""

    def change(parts, description):
        for name, value in changes.items():
            if value is None:
                parts.pop(name)
            else:
                parts[name] = np.asarray(value(parts[name]) if callable(value) else value)

    return change


def described(**changes):
    return lambda parts, description: description.update(changes)


def parameter(**changes):
    return lambda parts, description: description["parameters"].update(changes)


def reported(**changes):
    return lambda parts, description: description["report"]["problems"][0].update(changes)


def at(index, value):
    """A function that changes one entry of an array."""

    def change(array):
        array = array.copy()
        array[index] = value
        return array

    return change


DAMAGES = {
    # name: (model, change, sentence)
    "a later version": (
        "rbf", described(format="maxmargin SVC 2"), "is a model of a later version of maxmargin"),
    "an estimator to come": ("rbf", described(format="maxmargin TSVM 1"), "of a later version"),
    "another estimator": (
        "rbf", described(format="maxmargin SVR 1"), "SVR has no parameter 'break_ties'"),
    "classes without labels": (
        "svr", described(format="maxmargin NuSVC 1"), "NuSVC has no parameter 'C'"),
    "classes of a regression": (
        "svr", arrays(classes=[1, 2]), "its array 'classes' is not known"),
    "two intercepts of a regression": ("svr", arrays(intercept=[1.0, 2.0]), "intercept must have"),
    "two groups of a regression": (
        "svr", arrays(n_support=lambda n: [*n, 0]), r"n_support must have shape \(1,\), not"),
    "two rows of a regression": (
        "one_class", arrays(dual_coef=lambda c: np.vstack([c, c])), "dual_coef must have shape"),
    "a weight of a class of a regression": (
        "nu_svr", parameter(class_weight=None), "NuSVR has no parameter 'class_weight'"),
    "nu above one": ("one_class", parameter(nu=1.5), "The 'nu' parameter"),
    "a negative epsilon": ("svr", parameter(epsilon=-0.1), "The 'epsilon' parameter"),
    "quantities in words": (
        "svr", reported(quantities={"epsilon": "wide"}), "quantities.epsilon must be a number"),
    "another program": ("rbf", described(format="something 1"), "is not a model of maxmargin"),
    "no format": ("rbf", described(format=7), "is not a model of maxmargin"),
    "unknown kernel": ("rbf", parameter(kernel="chi2"), "The 'kernel' parameter"),
    "kernel of a wrong type": ("rbf", parameter(kernel=["rbf"]), "The 'kernel' parameter"),
    "negative gamma": ("rbf", described(gamma=-5.0), "gamma must be at least 0, not -5"),
    "gamma in words": ("rbf", described(gamma="wide"), "gamma must be a number, not 'wide'"),
    "negative gamma as parameter": ("rbf", parameter(gamma=-5.0), "The 'gamma' parameter"),
    "C in words": ("rbf", parameter(C="much"), "The 'C' parameter"),
    "unknown parameter": ("rbf", parameter(C2=1.0), "SVC has no parameter 'C2'"),
    "parameters as a list": ("rbf", described(parameters=[]), "parameters must be a record"),
    "class_weight": ("rbf", parameter(class_weight=[[1]]), "class_weight.* must have 2 entries"),
    "class_weight of lists": ("rbf", parameter(class_weight=[[[], 1]]), "must be text, not a list"),
    "unknown solver": (
        "rbf", parameter(solver={"name": "x", "options": {}}), "solver.name must be one of"),
    "unknown option of a solver": (
        "rbf", parameter(solver={"name": "smo", "options": {"depth": 2}}), "has no option 'depth'"),
    "wrong option of a solver": (
        "rbf", parameter(solver={"name": "smo", "options": {"selection": 3}}), "selection must be"),
    "solver as a number": ("rbf", parameter(solver=3), "solver must be a record"),
    "short shape_fit": ("rbf", described(shape_fit=[80]), "shape_fit must have 2 entries, not 1"),
    "shape_fit of floats": (
        "rbf", described(shape_fit=[80, 5.5]), r"shape_fit\[1\] must be a whole number, not 5.5"),
    "shape_fit as a number": ("rbf", described(shape_fit=80), "shape_fit must be a list, not 80"),
    "shape_fit too narrow": (
        "rbf", described(shape_fit=[80, 4]), r"vectors must have shape \(\d+, 4\)"),
    "shape_fit with a huge number": (
        "rbf", described(shape_fit=[80, 10**300]), r"shape_fit\[1\] must be less than 2⁶³"),
    "shape_fit not square": (
        "precomputed", described(shape_fit=[80, 70]), "must be square, not"),
    "five classes for one problem": (
        "rbf", arrays(classes=[1, 2, 3, 4, 5]), r"n_support must have shape \(5,\), not \(2,\)"),
    "five classes, counted": (
        "rbf", arrays(classes=[1, 2, 3, 4, 5], n_support=lambda n: [*n, 0, 0, 0]),
        r"dual_coef must have shape \(4, \d+\)"),
    "one class": (
        "rbf", arrays(classes=[1], n_support=lambda n: [n.sum()]), "at least 2 classes, not 1"),
    "no class": ("rbf", arrays(classes=[], n_support=np.empty(0, int)), "classes must|2 classes"),
    "a class twice": ("rbf", arrays(classes=[1, 1]), "classes holds the same value twice"),
    "a class that is not a number": (
        "rbf", arrays(classes=[1.0, np.nan]), "classes holds values that are missing"),
    "classes in a table": ("rbf", arrays(classes=[[1], [2]]), "classes must have shape"),
    "classes as dates": (
        "rbf", arrays(classes=np.array(["2001", "2002"], "M8[Y]")), "classes must hold numbers or"),
    "one-dimensional coefficients": (
        "rbf", arrays(dual_coef=lambda c: c[0]), r"dual_coef must have shape \(1, \d+\)"),
    "coefficients as text": (
        "rbf", arrays(dual_coef=lambda c: c.astype(str)), "dual_coef must hold numbers, not text"),
    "a coefficient that is not a number": (
        "rbf", arrays(dual_coef=at((0, 1), np.nan)), "dual_coef holds values that are missing"),
    "an infinite intercept": (
        "rbf", arrays(intercept=[np.inf]), "intercept holds values that are missing"),
    "no intercept": ("rbf", arrays(intercept=None), "intercept is missing"),
    "two intercepts": ("rbf", arrays(intercept=[1.0, 2.0]), "intercept must have shape"),
    "two vectors too few": (
        "rbf", arrays(vectors=lambda v: v[:-2]), r"vectors must have shape \(\d+, 5\), not"),
    "a vector that is not a number": (
        "rbf", arrays(vectors=at((1, 1), np.nan)), "vectors holds values that are missing"),
    "no vectors": ("rbf", arrays(vectors=None), "vectors is missing"),
    "more support vectors than there are": (
        "rbf", arrays(n_support=at(0, 10**6)), r"dual_coef must have shape \(1, 1000\d+\)"),
    "a negative number of support vectors": (
        "rbf", arrays(n_support=lambda n: [n.sum() + 2, -2]), "n_support must be from 0 .* not -2"),
    "numbers of support vectors as floats": (
        "rbf", arrays(n_support=lambda n: n * 1.0), "n_support must hold whole numbers"),
    "support beyond the data": (
        "rbf", arrays(support=at(0, 80)), "support must be less than 80, not 80"),
    "negative support": ("rbf", arrays(support=at(0, -1)), "support must be from 0 .* not -1"),
    "too few numbers of iterations": (
        "linear", arrays(n_iter=[3]), r"n_iter must have shape \(3,\), not \(1,\)"),
    "too few names": ("rbf", arrays(feature_names=["a"]), r"feature_names must have shape \(5,\)"),
    "an unknown array": ("rbf", arrays(other=[1.0]), "its array 'other' is not known"),
    "negative class_weight": ("rbf", arrays(class_weight=[1.0, -1.0]), "class_weight must be at"),
    "a column beyond the last": (
        "poly", arrays(indices=at(3, 4)), "column index 4 in row .* is not in 0 … 3"),
    "a huge column": ("poly", arrays(indices=at(3, 2**31 - 1)), "column index 2147483647"),
    "a negative column": ("poly", arrays(indices=at(3, -1)), "indices must be from 0 .* not -1"),
    "a column twice": (
        "poly", arrays(indices=lambda i: 0 * i), "indices of each support vector must ascend"),
    "indptr that falls": ("poly", arrays(indptr=at(3, 0)), "indptr must rise from 0"),
    "indptr beyond the end": ("poly", arrays(indptr=at(-1, 10**6)), "[Ii]nd.* pointer|indptr"),
    "short indptr": (
        "poly", arrays(indptr=lambda p: p[:-1]), r"indptr must have shape \(\d+,\)"),
    "short data": ("poly", arrays(data=lambda d: d[:-1]), r"indices must have shape \(\d+,\)"),
    "data as text": ("poly", arrays(data=lambda d: d.astype(str)), "data must hold numbers"),
    "no classes of a kernel": (
        "precomputed", arrays(vectors=np.ones((2, 2))), r"vectors must have shape \(0, 0\)"),
    "numbers as objects": ("rbf", described(labels="object"), "classes must hold text"),
    "a report of an unknown status": (
        "rbf", reported(status="fine"), "status must be one of converged, .*, not 'fine'"),
    "a report of text": ("rbf", reported(n_iter="many"), "n_iter must be a whole number, not 'ma"),
    "a report with more": ("rbf", reported(colour=3), "'colour' is not known in report.problems"),
    "a report with a broken history": (
        "rbf", reported(history=[{"seconds": 1}]), r"n_iter is missing in report.*history\[0\]"),
    "a report of three problems": (
        "linear", lambda parts, d: d["report"]["problems"].pop(), "problems must have 3 entries"),
    "a report as text": ("rbf", described(report="good"), "report must be a record"),
    "no description": ("rbf", arrays(description=None), "is not a model of maxmargin"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_model_is_refused(damage, models, refused, tmp_path):
    name, change, sentence = DAMAGES[damage]
    parts, description = read_parts(models[f"{name}.npz"])
    change(parts, description)
    if "description" in parts:
        write_parts(tmp_path / "bad.npz", parts, description)
    else:
        np.savez(tmp_path / "bad.npz", **parts)
    refused(tmp_path / "bad.npz", sentence)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[" * 100_000, "its description is not valid JSON"),
        ('{"a":' * 100_000, "its description is not valid JSON"),
        ("{", "its description is not valid JSON"),
        ('{"format": ' + "9" * 5000 + "}", "its description is not valid JSON"),
        ("[]", "is not a model of maxmargin"),
        ("null", "is not a model of maxmargin"),
        ("NaN", "is not a model of maxmargin"),
    ],
    ids=lambda text: text[:9],
)
def test_a_description_that_is_none(text, sentence, models, refused, tmp_path):
    parts, _ = read_parts(models["rbf.npz"])
    np.savez(tmp_path / "bad.npz", **(parts | {"description": np.array(text)}))
    refused(tmp_path / "bad.npz", sentence)
    np.savez(tmp_path / "bad.npz", **(parts | {"description": np.zeros(3)}))
    refused(tmp_path / "bad.npz", "is not a model of maxmargin")


def test_a_description_with_deep_details(models, refused, tmp_path):
    """Details may hold anything, as long as they can be read."""
    parts, description = read_parts(models["rbf.npz"])
    description["report"]["problems"][0]["details"] = {"parts": [[1, {"float": [2]}]]}
    write_parts(tmp_path / "good.npz", parts, description)
    assert load_model(tmp_path / "good.npz").fit_report_.status == "converged"


def test_files_that_are_no_models(models, refused, tmp_path):
    whole = models["rbf.npz"].read_bytes()
    middle = bytearray(whole)
    for position in range(len(whole) // 3, len(whole) // 3 + 40):
        middle[position] ^= 0x5A
    np.save(tmp_path / "array.npy", np.ones((3, 3)))
    for content, sentence in [
        (bytes(middle), "cannot be read|damaged|cannot be unpacked"),
        (whole[: len(whole) // 2], "is not an .npz file, or is damaged"),
        (b"", "is not an .npz file"),
        (b"PK\x03\x04" + bytes(500), "is not an .npz file"),
        (b"1 1:2\n", "is not an .npz file"),
        ((tmp_path / "array.npy").read_bytes(), r"is a single array \(.npy\)"),
    ]:
        (tmp_path / "bad.npz").write_bytes(content)
        refused(tmp_path / "bad.npz", sentence)


# --- LIBSVM's format --------------------------------------------------------


def line(key, text):
    """The line of the header that begins with `key` replaced."""

    def change(lines):
        return [text if one.split()[:1] == [key] else one for one in lines]

    return change


def vector(number, text):
    """A support vector replaced, counted from 0; a function gets its fields."""

    def change(lines):
        at = lines.index("SV") + 1 + number
        new = " ".join(text(lines[at].split())) if callable(text) else text
        return [*lines[:at], *([] if new is None else [new]), *lines[at + 1 :]]

    return change


def first(fields, value):
    return [value, *fields[1:]]


TEXT_DAMAGES = {
    "NaN in rho": ("rbf", line("rho", "rho nan"), "intercept holds values that are missing"),
    "two numbers in rho": ("rbf", line("rho", "rho 1 2"), r"intercept must have shape \(1,\)"),
    "words in rho": ("rbf", line("rho", "rho high"), "rho must be numbers, not 'high'"),
    "nothing in rho": ("rbf", line("rho", "rho"), r"intercept must have shape \(1,\)"),
    "negative gamma": ("rbf", line("gamma", "gamma -5"), "The 'gamma' parameter"),
    "infinite gamma": ("rbf", line("gamma", "gamma inf"), "The 'gamma' parameter"),
    "no gamma": ("rbf", line("gamma", "coef0 1"), "it does not say its gamma"),
    "negative degree": ("poly", line("degree", "degree -1"), "The 'degree' parameter"),
    "NaN in coef0": ("poly", line("coef0", "coef0 nan"), "The 'coef0' parameter"),
    "duplicate labels": ("rbf", line("label", "label 1 1"), "classes holds the same value twice"),
    "labels in words": ("rbf", line("label", "label a b"), "label must be whole numbers, not 'a'"),
    "a huge label": ("rbf", line("label", f"label {'9' * 5000} 1"), "label must be"),
    "negative nr_sv": ("rbf", line("nr_sv", "nr_sv 42 -2"), "total_sv is .*, but nr_sv is '42 -2'"),
    "one class": (
        "rbf",
        lambda lines: line("label", "label 1")(line("nr_class", "nr_class 1")(lines)),
        "nr_class is 1, but there are 1 labels and 2",
    ),
    "one class throughout": (
        "rbf",
        lambda lines: line("nr_sv", "nr_sv " + lines[4].split()[1])(
            line("label", "label 1")(line("nr_class", "nr_class 1")(lines))
        ),
        "at least 2 classes, not 1",
    ),
    "five classes": ("rbf", line("nr_class", "nr_class 5"), "nr_class is 5, but"),
    "nr_class in words": ("rbf", line("nr_class", "nr_class two"), "nr_class must be whole"),
    "total_sv": ("rbf", line("total_sv", "total_sv 3"), "total_sv is 3, but nr_sv"),
    "a line twice": ("rbf", line("rho", "label -1 1"), "'label' is there twice"),
    "an unknown line": ("rbf", line("rho", "colour 3"), "'colour' is not known"),
    "an unknown kernel": ("rbf", line("kernel_type", "kernel_type chi2"), "'chi2', is not known"),
    "no kernel": ("rbf", line("kernel_type", "kernel_type"), "'', is not known"),
    "regression": (
        "rbf", line("svm_type", "svm_type epsilon_svr"), "epsilon_svr has no classes, and so no l"),
    "classes of a regression": (
        "svr", line("svm_type", "svm_type nu_svc"), "it does not say its label"),
    "three classes of no classes": (
        "nu_svr", line("nr_class", "nr_class 3"), "nr_class must be 2 where there are none"),
    "NaN in rho of one class": ("one_class", line("rho", "rho nan"), "intercept holds values"),
    "a negative count of a regression": (
        "svr", line("total_sv", "total_sv -3"), "should have -3 support vectors, and has"),
    "a vector too few": ("rbf", lambda lines: lines[:-1], "it may be cut short"),
    "a vector too many": ("rbf", lambda lines: [*lines, lines[-1]], "should have"),
    "no vectors": ("rbf", lambda lines: lines[: lines.index("SV")], "and has 0"),
    "NaN as coefficient": (
        "rbf", vector(2, lambda f: first(f, "nan")), "dual_coef holds values that are missing"),
    "words as coefficient": (
        "rbf", vector(2, lambda f: first(f, "big")), r"line \d+: a coefficient is not a number"),
    "a coefficient too few": (
        "linear", vector(2, "0.5"), r"line \d+: there should be 2 coefficients"),
    "a pair as coefficient": (
        "linear", vector(2, "0.5 1:2 2:3"), r"line \d+: a coefficient is not a number"),
    "an infinite value": ("rbf", vector(2, "0.5 1:inf"), r"line \d+: the value of feature 1 must"),
    "a value too large": ("rbf", vector(2, "0.5 1:1e999"), "the value of feature 1 must be a fin"),
    "features that fall": ("rbf", vector(2, "0.5 2:1 1:1"), "feature 1 comes after feature 2"),
    "feature 0": ("rbf", vector(2, "0.5 0:1 1:1"), "a support vector has feature 0"),
    "a negative feature": ("rbf", vector(2, "0.5 -1:1"), "expected index:value, found '-1:1'"),
    "a feature of 5,000 digits": (
        "rbf", vector(2, f"0.5 {'9' * 5000}:1"), r"line \d+: feature 9{20}… is beyond"),
    "a remark": ("rbf", vector(2, "0.5 1:1 # 2:3"), r"line \d+: expected index:value, found '#'"),
    "a query": ("rbf", vector(2, "0.5 qid:3 2:3"), r"line \d+: expected index:value, found 'qid"),
    "a sample that is none": (
        "precomputed", vector(2, "0.5 0:0"), "does not say which sample it is"),
    "half a sample": ("precomputed", vector(2, "0.5 0:1.5"), "does not say which sample it is"),
    "a sample beyond all": ("precomputed", vector(2, "0.5 0:1e300"), "does not say which sample"),
    "no sample": ("precomputed", vector(2, "0.5"), "each support vector must be one pair"),
    "two samples": ("precomputed", vector(2, "0.5 0:1 1:2"), "each support vector must be one p"),
}  # fmt: skip


@pytest.mark.parametrize("damage", TEXT_DAMAGES)
def test_a_damaged_libsvm_model_is_refused(damage, models, refused, tmp_path):
    name, change, sentence = TEXT_DAMAGES[damage]
    lines = change(models[f"{name}.model"].read_text().splitlines())
    (tmp_path / "bad").write_text("\n".join(lines) + "\n")
    refused(tmp_path / "bad", sentence)


def test_libsvm_models_of_many_features_take_little_memory(models, tmp_path):
    import resource

    text = models["rbf.model"].read_text()
    (tmp_path / "wide").write_text(text.replace(" 5:", f" {2**30}:"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = load_model(tmp_path / "wide")
    save_model(model, tmp_path / "again")
    save_model(model, tmp_path / "again.npz")
    for name in ("again", "again.npz"):
        assert load_model(tmp_path / name).n_features_in_ == 2**30
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # in KiB
    assert grown < 2**18


# --- what is kept -----------------------------------------------------------


def test_labels_that_are_python_objects_are_kept(tmp_path):
    X, y = load_iris(return_X_y=True)
    words = load_iris().target_names.astype(object)[y]
    model = SVC(class_weight={"setosa": 2.0}).fit(X, words)
    assert model.classes_.dtype == object
    save_model(model, tmp_path / "model.npz")
    back = load_model(tmp_path / "model.npz")
    assert back.classes_.dtype == object and back.classes_.tolist() == model.classes_.tolist()
    assert all(type(label) is str for label in back.predict(X))
    np.testing.assert_array_equal(back.predict(X), model.predict(X))


def test_labels_that_a_file_would_change_are_refused(tmp_path):
    X, y = load_iris(return_X_y=True)
    words = np.array(["a\0", "b", "c"], dtype=object)[y]  # NumPy's text drops the zero character
    model = SVC().fit(X, words)
    with pytest.raises(ValueError, match="holds numbers or text as labels, not 'a"):
        save_model(model, tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())


SOLVERS = [
    "smo",
    SMO(selection="maximal-violating-pair", shrinking=False),
    IRWLS(chunk_size=np.int64(30)),
    GreedyStagewise(max_support=5, backfit=False),
    HierarchicalSVM(base=SMO(shrinking=False), partitions=2),
    ClusterSVM(base="smo", clusters=7, passes=None),
]


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_solvers_keep_their_options(solver, tmp_path):
    model = SVC(solver=solver).fit(*two_classes())
    save_model(model, tmp_path / "model.npz")
    back = load_model(tmp_path / "model.npz")
    assert type(back.solver) is type(solver)
    assert repr(back.solver) == repr(solver).replace("np.int64(30)", "30")
    description = read_parts(tmp_path / "model.npz")[1]
    assert json.dumps(description["parameters"]["solver"]).startswith(('"smo"', '{"name": '))


class Own(Solver):
    name = "smo"

    def solve(self, problem, monitor):
        return SMO().solve(problem, monitor)


@pytest.mark.parametrize(
    ("solver", "sentence"),
    [
        (Own(), r"cannot hold the solver Own\(\), which is not one of maxmargin's"),
        (ClusterSVM(clustering=KMeans(5)), "cannot hold the option clustering=KMeans"),
        (HierarchicalSVM(base=Own()), r"cannot hold the solver Own\(\)"),
    ],
    ids=["own solver", "own option", "own base"],
)
def test_solvers_that_a_file_cannot_hold_are_refused(solver, sentence, tmp_path):
    model = SVC(solver=solver).fit(*two_classes())
    with pytest.raises(ValueError, match=sentence):
        save_model(model, tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())
    save_model(model.set_params(solver="auto"), tmp_path / "model.npz")


def test_a_model_that_could_not_be_read_is_not_written(tmp_path):
    model = SVC().fit(*two_classes()).set_params(C=-1.0)
    with pytest.raises(ValueError, match="The 'C' parameter"):
        save_model(model, tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("seed", [np.int64(7), 7, None])
def test_seeds_are_kept(seed, tmp_path):
    model = SVC(random_state=seed).fit(*two_classes())
    save_model(model, tmp_path / "model.npz")
    assert load_model(tmp_path / "model.npz").random_state == seed


def test_files_of_another_byte_order(models, tmp_path):
    """Written on a machine that stores the high byte first."""
    for name in ("rbf", "poly", "ovr"):
        parts, description = read_parts(models[f"{name}.npz"])
        turned = {key: array.astype(array.dtype.newbyteorder(">")) for key, array in parts.items()}
        write_parts(tmp_path / "turned.npz", turned, description)
        X = np.random.default_rng(0).normal(size=(20, 5 if name == "rbf" else 4))
        expected = load_model(models[f"{name}.npz"]).predict(X)
        np.testing.assert_array_equal(load_model(tmp_path / "turned.npz").predict(X), expected)
