"""The command line: LIBSVM's letters, every kind of data, exit codes, clear sentences."""

import itertools
import json
import lzma
import math
import os
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_iris
from sklearn.preprocessing import MinMaxScaler

import maxmargin
from maxmargin import SVC
from maxmargin.io import load_model, read_data
from maxmargin.monitor import Progress

pytest.importorskip("typer", reason="typer is not installed (extra cli).")
from maxmargin.cli._app import COMMANDS
from maxmargin.cli._arguments import translated
from maxmargin.cli._progress import Fraction, state_of, time_left

COMMAND = [sys.executable, "-m", "maxmargin.cli"]

needs_libsvm = pytest.mark.skipif(
    shutil.which("svm-train") is None,
    reason="svm-train is not installed (Debian package libsvm-tools).",
)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return MinMaxScaler((-1, 1)).fit_transform(X), y + 1


@pytest.fixture
def folder(tmp_path, monkeypatch, iris):
    """A folder to work in, with iris.txt in it."""
    dump_svmlight_file(*iris, str(tmp_path / "iris.txt"), zero_based=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def in_a_process(*arguments, **options):
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, **options)


# --- training and predicting ------------------------------------------------


def test_train_and_predict(run, folder, iris):
    X, y = iris
    code, out, err = run("train", "-c", 10, "-g", 0.5, "iris.txt")
    assert (code, err) == (0, "")
    assert "optimal: KKT violation" in out and "model: iris.txt.model" in out
    expected = SVC(C=10, gamma=0.5).fit(X, y)
    code, out, err = run("predict", "iris.txt", "iris.txt.model", "out")
    assert (code, err) == (0, "")
    assert out == f"Accuracy = {100 * expected.score(X, y):g}% (146/150) (classification)\n"
    np.testing.assert_array_equal(np.loadtxt("out"), expected.predict(X))


def test_labels_are_printed_where_there_is_no_file_for_them(run, folder):
    run("train", "iris.txt", "model")
    code, out, err = run("predict", "iris.txt", "model", "--scores")
    assert code == 0 and err.startswith("Accuracy = ")
    lines = [line.split() for line in out.splitlines()]
    assert len(lines) == 150 and all(len(line) == 4 for line in lines)
    expected = load_model("model").decision_function(read_data("iris.txt").X)
    np.testing.assert_array_equal([[float(v) for v in line[1:]] for line in lines], expected)


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        ("-t 0 -c 3", {"kernel": "linear", "C": 3}),
        ("-t 1 -d 2 -r -1 -g auto", {"kernel": "poly", "degree": 2, "coef0": -1, "gamma": "auto"}),
        ("-t 3 -g 0.1", {"kernel": "sigmoid", "gamma": 0.1}),
        ("-g 0", {"gamma": "auto"}),
        ("--kernel rbf -e 1e-6 -h 0 -m 50", {"tol": 1e-6, "shrinking": False, "cache_size": 50}),
        ("-w1 5 -w3 0.5", {"class_weight": {1: 5, 3: 0.5}}),
        ("-w 1=5 --weight 2=2", {"class_weight": {1: 5, 2: 2}}),
        ("--weight balanced", {"class_weight": "balanced"}),
        ("--multi-class ovr -s 0 -b 0 -j 1", {"multi_class": "ovr", "n_jobs": 1}),
    ],
)
def test_options_mean_what_they_say(run, folder, iris, options, parameters):
    code, _, err = run("train", *options.split(), "iris.txt", "model.npz", "-q")
    assert (code, err) == (0, "")
    model = load_model("model.npz")
    assert {name: model.get_params()[name] for name in parameters} == parameters
    expected = SVC(**parameters).fit(*iris)
    np.testing.assert_allclose(
        model.decision_function(iris[0]), expected.decision_function(iris[0]), atol=2e-2
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("train -w-1 2 -w1 0.5 x", "train --weight -1=2 --weight 1=0.5 x"),
        ("train -w 1=2 --weight a=1", "train -w 1=2 --weight a=1"),
        ("train -- -w1 2", "train -- -w1 2"),
        ("train -w1", "train --weight 1="),
        ("train -h 0 x", "train -h 0 x"),
        ("train -h", "train --help"),
        ("predict -h", "predict --help"),
        ("-h", "--help"),
        ("tune -log2c -5,15,2 -log2g null x", "tune --log2c -5,15,2 --log2g null x"),
        ("tune -png x.png", "tune --plot x.png"),
        ("", ""),
    ],
)
def test_libsvms_spelling(given, expected):
    assert translated(given.split()) == expected.split()


def test_warnings_are_sentences(run, folder):
    code, _, err = run("train", "-c", 3, "--solver", "greedy", "iris.txt", "model.npz")
    assert code == 0
    assert err == "maxmargin: GreedyStagewise has no box constraint: C is not used.\n"


def test_weights_of_negative_labels(run, folder):
    (folder / "two.txt").write_text("+1 1:1\n-1 1:2\n+1 1:3\n-1 1:4\n")
    assert run("train", "-w-1", 2, "-w+1", 3, "two.txt", "model.npz")[0] == 0
    assert load_model("model.npz").class_weight == {-1: 2, 1: 3}


@needs_libsvm
def test_the_same_options_give_the_same_model_as_svm_train(run, folder):
    options = ["-t", "2", "-c", "10", "-g", "0.3", "-w1", "2", "-w3", "0.5", "-e", "1e-8"]
    subprocess.run(["svm-train", "-q", *options, "iris.txt", "theirs"], check=True)
    run("train", *options, "iris.txt", "ours")
    X = read_data("iris.txt").X
    ours, theirs = load_model("ours"), load_model("theirs")
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)


def test_cross_validation_writes_no_model(run, folder, iris):
    code, out, _ = run("train", "-v", 5, "iris.txt")
    assert code == 0 and out.startswith("Cross Validation Accuracy = 9")
    _, out, _ = run("train", "--folds", 5, "--json", "iris.txt")
    assert json.loads(out)["accuracy"] > 0.9
    assert os.listdir(folder) == ["iris.txt"]


def test_every_kind_of_data(run, folder, iris):
    X, y = iris
    np.savez("iris.npz", X=X, y=y)
    (folder / "iris.xz").write_bytes(lzma.compress((folder / "iris.txt").read_bytes()))
    rows = [["a", "b", "c", "d", "kind"]] + [[*row, f"k{label}"] for row, label in zip(X, y)]
    (folder / "iris.csv").write_text("\n".join(",".join(map(str, row)) for row in rows))
    assert run("train", "-c", 9, "iris.npz")[0] == 0
    assert run("train", "-c", 9, "iris.xz")[0] == 0
    code, out, _ = run("train", "-c", 9, "iris.csv", "--label", "kind")
    assert code == 0 and "model: iris.csv.model.npz" in out  # LIBSVM has no labels of text
    labels = {}
    for name in ("iris.npz", "iris.xz", "iris.csv"):
        model = f"{name}.model" + (".npz" if name == "iris.csv" else "")
        label = ["--label", "kind"] if name == "iris.csv" else []
        code, out, _ = run("predict", name, model, "--json", *label)
        labels[name] = [str(one).removeprefix("k") for one in json.loads(out)["labels"]]
        assert json.loads(out)["accuracy"] > 0.95
    assert labels["iris.npz"] == labels["iris.xz"] == labels["iris.csv"]
    # The model knows its columns by name, so their order, and others, do not matter.
    turned = [[row[4], "1", row[1], row[0], row[3], row[2]] for row in rows[1:]]
    turned.insert(0, ["kind", "other", "b", "a", "d", "c"])
    (folder / "turned.csv").write_text("\n".join(",".join(map(str, row)) for row in turned))
    _, again, _ = run("predict", "turned.csv", "iris.csv.model.npz", "--json", "--label", "kind")
    assert json.loads(again)["labels"] == json.loads(out)["labels"]


def test_standard_input_and_output(folder):
    text = (folder / "iris.txt").read_bytes()
    trained = in_a_process("train", "-", "--json", input=text, check=True)
    assert json.loads(trained.stdout)["model"] == "model"
    assert json.loads(trained.stdout)["status"] == "converged"
    assert trained.stderr == b""  # no progress bar where nobody looks
    predicted = in_a_process("predict", "-", "model", "-q", input=text, check=True)
    assert set(predicted.stdout.split()) == {b"1", b"2", b"3"} and predicted.stderr == b""


def test_precomputed_kernel(run, folder, iris):
    X, y = iris
    with open("kernel.txt", "w") as file:
        for number, (label, row) in enumerate(zip(y, (X @ X.T).tolist()), start=1):
            values = " ".join(f"{at}:{value}" for at, value in enumerate(row, start=1))
            file.write(f"{label} 0:{number} {values}\n")
    assert run("train", "-t", 4, "kernel.txt", "model")[0] == 0
    code, out, _ = run("predict", "kernel.txt", "model", "out")
    accuracy = SVC(kernel="linear").fit(X, y).score(X, y)
    assert code == 0 and f"Accuracy = {100 * accuracy:g}%" in out
    code, _, err = run("train", "-t", 4, "iris.txt")
    assert code == 2 and "0:7 says which sample it is" in err


# --- exit codes and sentences -----------------------------------------------


def test_a_fit_that_stops_early_is_1_and_leaves_a_model(run, folder):
    code, out, _ = run("train", "iris.txt", "model", "--max-iter", 2)
    assert code == 1 and out.startswith("max_iter: KKT violation")
    assert run("predict", "iris.txt", "model", "out")[0] == 0
    code, out, _ = run("train", "iris.txt", "model", "--max-iter", 2, "--json")
    assert code == 1 and json.loads(out)["status"] == "max_iter"
    code, out, _ = run("train", "iris.txt", "--max-iter", 2, "-v", 3)
    assert code == 1 and "not all folds converged" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("train absent", "maxmargin: absent: No such file or directory."),
        ("train broken.txt", "maxmargin: broken.txt, line 3: expected index:value, found '2;5'."),
        ("train broken.xz", "maxmargin: broken.xz: cannot be unpacked"),
        ("train one.txt", "maxmargin: one.txt: all samples have the label 1."),
        ("train some.csv", "--label must say which column to learn."),
        ("train some.csv --label z", "there is no column 'z'; the columns are a, b, y."),
        ("train some.csv --label y m", "m: A LIBSVM model holds whole numbers as labels, not 'n'."),
        ("train dates.npz m.npz", "dates.npz: y must hold numbers or text, not datetime64"),
        ("train large.npz m", "m: A LIBSVM model holds labels up to 2147483647, not 4294967296."),
        ("tune large.npz m", "m: A LIBSVM model holds labels up to 2147483647, not 4294967296."),
        ("train zero.csv --label y m.npz", "zero.csv: a label holds a zero character."),
        ("train iris.txt -j 0", "The 'n_jobs' parameter"),
        ("train iris.txt --label y", "--label is for CSV and Parquet"),
        ("train iris.txt -t 7", "--kernel must be one of linear"),
        ("train iris.txt -g wide", "--gamma must be a number or scale or auto, not 'wide'."),
        ("train iris.txt -c -1", "The 'C' parameter of SVC must be a float"),
        ("train iris.txt -w9 2", "there is no class '9'; the classes are 1, 2, 3."),
        ("train iris.txt -w1 much", "--weight must be LABEL=FACTOR, not '1=much'."),
        ("train iris.txt --solver best", "solver must be one of"),
        ("train iris.txt --multi-class ovr m", "fit with multi_class='ovo', not 'ovr'."),
        ("train iris.txt -s 5", "epsilon_svr, nu_svr or 0 to 4, not '5'."),
        ("train iris.txt -b 1 -v 3", "-b: cross-validation counts labels and errors"),
        ("train iris.txt -v 60", "--folds 60, but a class has 50 samples."),
        ("train iris.txt no/where", "no/where: there is no such folder to write to."),
        ("train iris.txt . ", ".: Is a directory."),
        ("predict iris.txt absent", "maxmargin: absent: No such file or directory."),
        ("predict iris.txt iris.txt", "iris.txt: is not a LIBSVM model"),
        ("inspect iris.txt", "iris.txt: is not a LIBSVM model"),
        ("scale iris.txt -l 2 -u 1", "--lower must be less than --upper"),
        ("scale iris.txt -r broken.txt", "broken.txt, line 1: expected x"),
        ("scale iris.txt -r cut.range", "cut.range, line 3: expected 3 numbers"),
        ("scale iris.txt -r half.range", "half.range, line 3: features are counted from 1"),
        ("scale four.npz -r wide.range", "line 3: there is no feature 9 in four.npz, which has 4"),
        ("scale iris.txt -r a -s b", "cannot be used together"),
    ],
)
def test_bad_input_is_2_and_one_sentence(run, folder, arguments, sentence):
    (folder / "broken.txt").write_text("1 1:2\n2 1:3\n1 2;5\n")
    (folder / "broken.xz").write_text("1 1:2\n")
    (folder / "one.txt").write_text("1 1:2\n1 1:3\n")
    (folder / "some.csv").write_text("a,b,y\n1,2,n\n3,4,p\n")
    (folder / "cut.range").write_text("x\n-1 1\n1 0\n")
    (folder / "half.range").write_text("x\n-1 1\n1.5 0 1\n")
    (folder / "wide.range").write_text("x\n-1 1\n9 0 1\n")
    np.savez("four.npz", X=np.eye(4), y=[1, 2, 1, 2])
    (folder / "zero.csv").write_text("a,b,y\n1,2,a\0\n3,4,p\n")
    np.savez("dates.npz", X=np.eye(4), y=np.arange(4).astype("M8[s]"))
    np.savez("large.npz", X=np.eye(12), y=np.arange(12) % 2 * 2**32)
    before = sorted(os.listdir(folder))
    code, out, err = run(*arguments.split())
    assert (code, out) == (2, "")
    assert sentence in err and err.startswith("maxmargin: ") and err.count("\n") == 1
    assert sorted(os.listdir(folder)) == before


def test_a_model_of_another_feature_count(run, folder, iris):
    X, y = iris
    run("train", "iris.txt", "model")
    run("train", "iris.txt", "model.npz")
    wide, narrow = np.hstack([X, X]), X[:, :3]
    for name, data in (("wide", wide), ("narrow", narrow)):
        dump_svmlight_file(data, y, name, zero_based=False)
        np.savez(f"{name}.npz", X=data, y=y)
    for data, model in (("narrow.npz", "model"), ("wide.npz", "model.npz")):
        code, _, err = run("predict", data, model, "out")
        assert code == 2 and f"but the model {model} was trained on 4." in err
    assert not os.path.exists("out")
    # LIBSVM text does not say that there are features that are zero everywhere.
    assert run("predict", "narrow", "model", "out")[0] == 0
    assert run("predict", "narrow", "model.npz", "out2")[0] == 0
    assert (folder / "out").read_text() == (folder / "out2").read_text()


@needs_libsvm
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid"])
def test_unseen_features_count_as_in_svm_predict(run, folder, iris, kernel):
    X, y = iris
    options = ["-t", kernel, "-g", 0.4, "-r", 0.3]
    run("train", *options, "iris.txt", "model")
    run("train", *options, "iris.txt", "model.npz")
    np.savez("iris.npz", X=X, y=y)
    run("train", *options, "iris.npz", "dense.npz")
    wide = np.hstack([X, X])
    dump_svmlight_file(wide, y, "wide", zero_based=False)
    subprocess.run(["svm-predict", "wide", "model", "theirs"], check=True, capture_output=True)
    sentence = "maxmargin: wide has features up to 8, the model {} up to 4; the others count as"
    for model in ("model", "model.npz", "dense.npz"):
        code, _, err = run("predict", "wide", model, "ours")
        assert code == 0 and err.startswith(sentence.format(model)) and err.count("\n") == 1
        assert (folder / "ours").read_text() == (folder / "theirs").read_text()
        assert run("predict", "wide", model, "ours", "--quiet")[1:] == ("", "")
    # LIBSVM's models do not say how many features there were, so more columns are no error.
    np.savez("wide.npz", X=wide, y=y)
    assert run("predict", "wide.npz", "model", "ours")[0] == 0
    assert (folder / "ours").read_text() == (folder / "theirs").read_text()


def test_text_for_a_model_of_a_table_is_predicted_in_blocks(run, folder, iris, monkeypatch):
    from maxmargin.cli import predict

    np.savez("iris.npz", X=iris[0], y=iris[1])
    run("train", "iris.npz", "model.npz")
    _, out, _ = run("predict", "iris.npz", "model.npz", "--scores")
    monkeypatch.setattr(predict, "_BLOCK_VALUES", 4 * 7)
    _, blocks, _ = run("predict", "iris.txt", "model.npz", "--scores")
    whole, blocks = (np.loadtxt(text.splitlines()) for text in (out, blocks))
    np.testing.assert_allclose(blocks, whole, atol=1e-12)


def test_features_of_high_numbers_take_little_memory(run, folder):
    lines = [f"{at % 2} 1:{at % 7 - at % 2} {at + 2}:1 {2**30}:{at % 3}\n" for at in range(40)]
    (folder / "wide").write_text("".join(lines))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for kernel in ("linear", "poly", "rbf", "sigmoid"):
        assert run("train", "-q", "-t", kernel, "wide", "model")[0] in (0, 1)
        assert run("predict", "-q", "wide", "model", "out")[0] == 0
        assert run("predict", "-q", "iris.txt", "model", "out")[0] == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**19  # in KiB


def test_a_full_disk_leaves_no_half_of_a_file(folder):
    """A limit on the size of files stands in for the disk."""
    code = (
        "import resource, sys\n"
        "from maxmargin.cli import main\n"
        "try:\n    main(['train', 'iris.txt', 'first'])  # may still fill the compiler's cache\n"
        "except SystemExit:\n    pass\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))\n"
        "main(['train', 'iris.txt', 'model'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert "maxmargin: model: File too large." in done.stderr
    assert "model" not in os.listdir(folder)
    assert not [name for name in os.listdir(folder) if name.startswith(".model")]


def test_a_reader_that_stops_reading_is_no_error(folder):
    in_a_process("train", "iris.txt", "model", check=True)
    many = (folder / "iris.txt").read_text() * 200
    (folder / "many.txt").write_text(many)
    command = [*COMMAND, "predict", "many.txt", "model", "--scores", "-q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


@pytest.mark.slow
def test_ctrl_c_leaves_a_usable_model(folder):
    """On a terminal, where the progress bar also is."""
    random = np.random.default_rng(0)
    X = random.normal(size=(6000, 2))
    y = np.where(random.random(6000) < 0.5, 1, -1)  # noise, and so large a C: this takes long
    np.savez("hard.npz", X=X, y=y)
    parent, child = pty.openpty()
    # The limit is for the case that Ctrl-C is not heard: a failure rather than no end.
    command = [*COMMAND, "train", "-c", "1e6", "-g", "1", "--solver", "smo", "--time-limit", "300",
               "hard.npz", "model"]  # fmt: skip
    process = subprocess.Popen(command, stdin=child, stdout=child, stderr=child)
    os.close(child)
    shown, interrupted = "", False
    while True:
        try:
            shown += os.read(parent, 4096).decode(errors="replace")
        except OSError:  # the other end is closed
            break
        if not interrupted and "support vectors" in shown:
            process.send_signal(signal.SIGINT)
            interrupted = True
    assert process.wait() == 1
    os.close(parent)
    assert "violation" in shown and "interrupted: KKT violation" in shown
    assert len(load_model("model").support_) > 0


def test_the_progress_bar_moves_with_the_logarithm_of_the_violation():
    fraction = Fraction()
    seen = [fraction.of(0, 1e-3, violation) for violation in (10.0, 1.0, 5.0, 0.1, 1e-3)]
    np.testing.assert_allclose(seen, [0, 0.25, 0.25, 0.5, 1])
    assert fraction.of(1, 1e-3, 2.0) == 0.0


def test_the_progress_bar_tells_rows_settled_and_the_time_left():
    line = Progress(1.0, 100, 0.5, -3.0, 40, n_settled=960, seconds_left=3725.0)
    words = "violation 0.5, 40 support vectors, 960 rows settled"
    assert state_of(line, 0, 1) == words
    assert state_of(line, 1, 3) == f"problem 2 of 3, {words}"
    assert time_left(line.seconds_left) == "about 1:02:05 left"
    assert time_left(math.inf) == ""


# --- the other commands -----------------------------------------------------


@needs_libsvm
@pytest.mark.parametrize("options", [[], ["-l", "0", "-u", "3"], ["-l", "-0.5"]])
def test_scale_does_what_svm_scale_does(run, folder, options):
    X, y = load_breast_cancer(return_X_y=True)
    X[:, 3] = 7  # a feature that never changes
    X[::2, 5] = 0
    dump_svmlight_file(X[:300], y[:300], "data", zero_based=False)
    dump_svmlight_file(X[300:], y[300:], "test", zero_based=False)
    theirs = subprocess.run(
        ["svm-scale", *options, "-s", "range", "data"], capture_output=True, check=True
    ).stdout
    (folder / "theirs").write_bytes(theirs)
    assert run("scale", *options, "-s", "our_range", "data", "ours.xz")[0] == 0
    assert (folder / "our_range").read_bytes() == (folder / "range").read_bytes()
    ours, theirs = read_data("ours.xz"), read_data("theirs")
    np.testing.assert_allclose(ours.X.toarray(), theirs.X.toarray(), atol=2e-5)
    np.testing.assert_array_equal(ours.y, theirs.y)
    theirs = subprocess.run(["svm-scale", "-r", "our_range", "test"], capture_output=True).stdout
    (folder / "theirs").write_bytes(theirs)
    assert run("scale", "-r", "range", "test", "ours")[0] == 0
    np.testing.assert_allclose(
        read_data("ours").X.toarray(), read_data("theirs").X.toarray(), atol=2e-4
    )


def test_scale_writes_ranges_as_svm_scale_prints_them_and_reads_longer_ones(run, folder):
    (folder / "data").write_text("1 1:0.1 2:-3 3:1e-7\n2 1:2 2:7 3:1e20\n")
    assert run("scale", "data", "out", "-s", "range")[0] == 0
    lines = ["x", "-1 1", "1 0.10000000000000001 2", "2 -3 7", "3 9.9999999999999995e-08 1e+20", ""]
    assert (folder / "range").read_text() == "\n".join(lines)
    # As earlier versions wrote them.
    (folder / "older").write_text("x\n-1.0 1.0\n1 0.1 2.0\n2 -3.0 7.0\n3 1e-07 1e+20\n")
    for ranges in ("range", "older"):
        assert run("scale", "data", "again", "-r", ranges)[0] == 0
        assert (folder / "again").read_bytes() == (folder / "out").read_bytes()


def test_scale_says_that_zeros_vanish(run, folder):
    (folder / "sparse").write_text("1 1:2 7:1\n2 3:1 7:5\n1 2:2\n")
    code, _, err = run("scale", "sparse", "out")
    assert code == 0 and err == (
        "maxmargin: zeros vanish: 5 values were not zero, now 12 are; --lower 0 keeps zeros "
        "where no value is negative.\n"
    )
    assert run("scale", "sparse", "out", "-l", 0)[2] == ""
    assert read_data("out").X.nnz == 5


def test_scale_takes_memory_for_the_features_that_occur(run, folder):
    (folder / "wide").write_text(f"1 1:2 {2**30}:1\n2 3:1 {2**30}:5\n1 {2**31 - 1}:1\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert run("scale", "wide", "out", "-s", "range", "-q")[0] == 0
    assert run("scale", "wide", "again", "-r", "range")[0] == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**18  # in KiB
    assert (folder / "out").read_text() == (folder / "again").read_text()
    assert set(read_data("out").X.indices) == {0, 2, 2**30 - 1, 2**31 - 2}


def test_scale_to_standard_output_and_csv(folder, run):
    done = in_a_process("scale", "iris.txt", "-l", 0, check=True)
    (folder / "scaled").write_bytes(done.stdout)
    X = read_data("scaled").X.toarray()
    assert X.min() == 0 and X.max() == 1
    assert run("scale", "iris.txt", "scaled.csv", "-l", 0)[0] == 0
    np.testing.assert_allclose(read_data("scaled.csv", label="label").X, X, atol=1e-15)


def test_inspect(run, folder):
    run("train", "-c", 3, "-g", 0.25, "iris.txt", "model")
    run("train", "-c", 3, "-g", 0.25, "iris.txt", "model.npz")
    code, out, _ = run("inspect", "model")
    assert code == 0 and "rbf" in out and "0.25" in out and "does not say how" in out
    code, out, _ = run("inspect", "model.npz")
    assert code == 0 and "optimal: KKT violation" in out
    of_libsvm = json.loads(run("inspect", "--json", "model")[1])
    ours = json.loads(run("inspect", "--json", "model.npz")[1])
    assert ours["report"]["status"] == "converged" and of_libsvm["report"] is None
    for name in ("kernel", "gamma", "n_features", "n_support", "classes", "n_support_by_class"):
        assert ours[name] == of_libsvm[name]


def test_train_writes_an_html_report(run, folder):
    code, out, _ = run("train", "iris.txt", "model", "--report", "page.html")
    assert code == 0 and "report: page.html" in out
    page = (folder / "page.html").read_text()
    assert "<title>iris.txt</title>" in page and "Confusion matrix (training data)" in page


def test_demo(run, folder):
    code, out, _ = run("demo", "--report", "demo.html")
    assert code == 0 and "optimal" in out and "accuracy on 143 held-out samples: 0.9" in out
    assert "(held-out samples)" in (folder / "demo.html").read_text()
    assert json.loads(run("demo", "--json")[1])["accuracy"] > 0.9


def test_bench_judges_all_alike(run, folder):
    arguments = ["bench", "-c", 10, "iris.txt", "--solver", "smo", "--solver", "auto"]
    code, out, _ = run(*arguments, "--json")
    results = {one["name"]: one for one in json.loads(out)["results"]}
    assert code == 0 and {"maxmargin smo", "maxmargin auto", "scikit-learn"} <= set(results)
    best = min(one["objective"] for one in results.values())
    for one in results.values():
        assert one["kkt_violation"] < 5e-3
        assert one["objective"] == pytest.approx(best, rel=1e-3)
    code, out, _ = run(*arguments, "--no-peers")
    assert code == 0 and len(out.splitlines()) == 3 and "scikit-learn" not in out


def test_tune(run, folder):
    arguments = ["tune", "iris.txt", "best", "--log2c", "0,2,1", "--log2g=-2,0,2", "-v", 3]
    code, out, _ = run(*arguments)
    assert code == 0 and out.startswith("-c ") and "accuracy 9" in out and "model: best" in out
    values = json.loads(run(*arguments, "--json")[1])
    assert values["best"]["C"] in (1, 2, 4) and values["best"]["gamma"] in (0.25, 1)
    assert values["accuracy"] > 0.9 and values["folds"] == 3
    assert values["accuracy"] == max(one["mean"] for one in values["candidates"])
    assert len(values["candidates"]) == 6
    assert load_model("best").gamma == values["best"]["gamma"]
    assert run(*arguments, "--quiet")[1] == ""


@pytest.mark.parametrize(
    ("options", "best", "varied"),
    [
        ("-log2c 0,2,1 -log2g null", {}, ["C"]),
        ("-log2c 0,2,1 -log2g null -g 0.5", {"gamma": 0.5}, ["C"]),
        ("-log2c 0,2,1 -t 0", {"kernel": "linear"}, ["C"]),
        ("-log2c null -log2g -1,-3,-1 -c 4", {"C": 4}, ["gamma"]),
        ("-log2c 0,1,1 -log2g -1,0,1 -t 1 -d 2 -r 1", {"degree": 2, "coef0": 1}, ["C", "gamma"]),
    ],
)
def test_tune_in_the_spelling_of_grid_py(run, folder, options, best, varied):
    code, out, err = run("tune", *options.split(), "-v", 3, "iris.txt", "best.npz", "--json")
    assert (code, err) == (0, "")
    values = json.loads(out)
    assert list(values["best"]) == varied and list(values["candidates"][0])[:-2] == varied
    model = load_model("best.npz")
    expected = best | values["best"]
    assert {name: model.get_params()[name] for name in expected} == expected
    code, out, _ = run("tune", *options.split(), "-v", 3, "iris.txt")
    assert out.startswith("-c " if varied[0] == "C" else "-g ") and ("-g " in out) == (
        "gamma" in varied
    )


def test_tune_with_weights_another_score_and_a_picture(run, folder):
    pytest.importorskip("matplotlib")
    arguments = ["tune", "iris.txt", "--log2c", "0,1,1", "--log2g=-1,0,1", "--plot", "grid.png"]
    code, out, _ = run(*arguments, "--scoring", "f1_macro", "-w1", 5, "-e", 1e-4, "-m", 50)
    assert code == 0 and "f1_macro 0.9" in out and "plot: grid.png" in out
    assert (folder / "grid.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["--log2c", "1,2"], "--log2c must be BEGIN,END,STEP or null, not '1,2'."),
        (["--log2c", "0,1,0"], "--log2c: '0,1,0' leads too far, or in too small steps."),
        (["--log2c", "0,5000,1"], "--log2c: '0,5000,1' leads too far"),
        (["--log2c", "nan,1,1"], "--log2c must be BEGIN,END,STEP or null"),
        (["-log2c", "null", "-log2g", "null"], "there is nothing to tune"),
        (["-log2g", "0,1,1", "-t", "0"], "--log2g: the linear kernel has no gamma."),
        (["-c", "3"], "-c: --log2c varies C; use --log2c null for one value."),
        (["-g", "3"], "-g: --log2g varies gamma"),
        (
            ["-t", "0", "--plot", "x.png"],
            "--plot draws a grid of two parameters",
        ),
        (["-gnuplot", "null"], "-gnuplot of grid.py has no counterpart here"),
        (["--log2c", "3,2,1"], "nothing from 3 to 2 by 1"),
        (["--scoring", "acuracy"], "no score 'acuracy'. Did you mean accuracy?"),
        (["-v", 51], "--folds 51, but a class has 50 samples."),
        (["nowhere/best"], "nowhere/best: there is no such folder to write to."),
        (["--plot", "grid.txt"], "grid.txt: a picture must end in one of ."),
    ],
)
def test_tune_says_what_is_wrong(run, folder, arguments, sentence):
    code, _, err = run("tune", "iris.txt", *arguments)
    assert code == 2 and sentence in err


def test_tune_shows_how_far_it_is(folder):
    parent, child = pty.openpty()
    command = [*COMMAND, "tune", "iris.txt", "--log2c", "0,3,1"]
    process = subprocess.Popen(command, stdin=child, stdout=child, stderr=child)
    os.close(child)
    shown = ""
    while True:
        try:
            shown += os.read(parent, 4096).decode(errors="replace")
        except OSError:  # the other end is closed
            break
    assert process.wait() == 0
    os.close(parent)
    assert "tuning" in shown and "100%" in shown and "-c " in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_every_option_and_three_examples(run, command):
    code, out, _ = run(command, "-h")
    assert code == 0 and (code, out, "") == run(command, "--help")
    assert not re.search(r"<\w+>|\{\w+\}|\[default: \(", out)  # no types of Python
    examples = out.partition("Examples:\n")[2].splitlines()
    assert len(examples) == 3 and all(f"maxmargin {command}" in line for line in examples)
    described = out.partition("Options:\n")[2].partition("\n\n")[0].splitlines()
    for line, following in itertools.pairwise([*described, ""]):
        if line.startswith("  -"):  # an option has a text beside it, or on the next line
            assert re.search(r"\S {2,}\S", line) or re.match(r" {5,}\S", following), line
    assert "{" not in run(command, "--no-such-option")[2]


def test_a_process_of_its_own_leaves_out_what_it_does_not_need(folder):
    code = (
        "import sys\n"
        "from maxmargin.cli import main\n"
        "sys.argv = ['maxmargin', 'train', 'iris.txt', 'model', '-q']\n"
        "try:\n    main()\n"
        "except SystemExit as ended:\n    assert not ended.code\n"
        "loaded = {'pandas.core', 'scipy.stats._stats_py', 'dask', 'sklearn.datasets',\n"
        "          'numpy.f2py.f2py2e', 'numpy.testing._private.utils',\n"
        "          'matplotlib', 'maxmargin.cli.bench', 'maxmargin.search'} & set(sys.modules)\n"
        "print(sorted(loaded))\n"
        "import scipy.stats\n"
        "print(scipy.stats.rankdata([3, 1, 2]).tolist(), scipy.stats.norm.cdf(0.0))\n"
        "import numpy as np\n"
        "np.testing.assert_allclose([1.0], [1.0])\n"
        "print(np.f2py.get_include() != '')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["[]", "[3.0, 1.0, 2.0] 0.5", "True"], done.stderr


def test_help_and_version(run):
    code, out, _ = run("--version")
    assert (code, out) == (0, f"maxmargin {maxmargin.__version__}\n")
    code, out, _ = run("--help")
    for command in ("train", "predict", "scale", "tune", "inspect", "demo", "bench"):
        assert command in out
    assert run("train", "--nonsense")[0] == 2
