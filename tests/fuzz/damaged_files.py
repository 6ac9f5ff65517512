"""Damaged files: valid ones of every format, changed at random, and a judge of what reading does.

``python tests/fuzz/damaged_files.py FIRST COUNT [FILE]`` runs cases FIRST, FIRST + 1, …, each on
one file after the other or on the one that is named; a case is its number and the name of its
file, so that one that fails can be run again. Ends with 1 and one line a case
if any is judged wrong, and with a signal if one crashes the process.
"""

import contextlib
import io
import json
import re
import resource
import signal
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).parents[1]))
from maxmargin.io import DataError, load_model, read_data
from maxmargin.sparse_format import check_format
from model_files import three_classes, two_classes, write_models

ADDRESS_SPACE = 6 * 2**30
SECONDS_PER_CASE = 600  # a hang, not a slow machine
EVIL_WORDS = (
    "nan", "inf", "-inf", "1e999", "-1e999", "1e300", "-1", "0", "1", "-0", "2147483647",
    "2147483648", "-2147483649", "1073741824", "99999999999999999999", "9" * 5000, "0x10", "1_0",
    "1.5", "1,5", "1:", ":1", "1:1:1", "1:nan", "0:1", "2147483647:1", "qid:1", "#", "SV", "rho",
    "label", "label 1 1", "", " ", "\t", "\x00", "\ufeff", "é", "٣", '"', '""', "'", ",", ",,",
    ";", "x" * 140_000, "None", "[]", "\r", "\n\n", "c_svc", "nu_svr", "polynomial", "precomputed",
)  # fmt: skip
EVIL_NUMBERS = (
    0, 1, -1, 2, 3, 7, -2, 2**31 - 1, 2**31, -(2**31), 2**62, 10**6, 0.5, -5.0, np.nan, np.inf,
    -np.inf, 1e300, 5e-324,
)  # fmt: skip
EVIL_JSON = (
    None, True, False, 0, 1, -1, -5.0, 0.5, 1e300, 10**40, "", "rbf", "chi2", "precomputed", "ovr",
    "nan", [], [1], [[1, 2]], [[1]], {}, {"float": "nan"}, {"float": 3}, {"name": "smo"},
    {"name": "smo", "options": {"shrinking": []}}, "maxmargin SVC 2", "maxmargin SVR 1",
    "maxmargin NuSVR 1", "maxmargin NuSVC 1", "maxmargin OneClassSVM 1", {"epsilon": "wide"},
)  # fmt: skip


def write_data_files(folder: Path) -> dict[str, Path]:
    """A valid file of each format; name → path."""
    X, y = two_classes()
    X3, y3 = three_classes()
    gaps = sp.csr_array(np.where(np.abs(X3) < 0.7, 0.0, X3))
    words = np.array(["low", "mid", "high"])[y3]
    paths = {}

    def new(name: str) -> Path:
        paths[name] = folder / name
        return paths[name]

    def pairs(row) -> str:
        return " ".join(f"{at + 1}:{value:.6g}" for at, value in enumerate(row) if value)

    def lines(rows, labels):
        return "".join(f"{label} {pairs(row)}\n" for row, label in zip(rows, labels, strict=True))

    new("dense.txt").write_text(lines(X[:30], y[:30]))
    new("sparse.txt").write_text("# a remark\n" + lines(gaps.toarray(), y3))
    table = [",".join([*map(str, row), word]) for row, word in zip(X3, words, strict=True)]
    new("words.csv").write_text("\n".join(["a,b,c,d,label", *table]) + "\n")
    new("plain.csv").write_text("\n".join(",".join(map(str, row)) for row in X[:20]) + "\n")
    np.savez(new("dense.npz"), X=X.astype(np.float32), y=y)
    np.savez_compressed(new("words.npz"), X=X3, y=words)
    for kind in ("csr", "csc", "coo", "bsr", "dia"):
        sp.save_npz(new(f"{kind}.npz"), gaps.asformat(kind))
    np.save(new("table.npy"), X)
    with contextlib.suppress(ImportError):
        import pyarrow
        import pyarrow.parquet

        columns = {"a": X3[:, 0], "b": y3, "label": words}
        pyarrow.parquet.write_table(pyarrow.table(columns), new("table.parquet"))
    return paths


# --- damage -----------------------------------------------------------------


def damaged_bytes(content: bytes, rng) -> bytes:
    """Bytes flipped, cut, doubled or put in."""
    data = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        at, length = rng.integers(0, len(data) + 1), int(rng.integers(1, 40))
        action = rng.integers(0, 6)
        if action <= 1 and data:
            for position in rng.integers(0, len(data), length if action else 1):
                data[position] ^= int(rng.integers(1, 256))
        elif action == 2:
            del data[at : at + length * int(rng.integers(1, 30))]
        elif action == 3:
            data[at:at] = data[at : at + length]
        elif action == 4:
            data[at:at] = rng.bytes(length)
        else:
            data = data[:at]
    return bytes(data)


def damaged_text(content: bytes, rng) -> bytes:
    """Lines dropped, doubled or swapped, words replaced by evil ones."""
    lines = content.decode().split("\n")
    for _ in range(rng.integers(1, 4)):
        at, other = rng.integers(0, len(lines), 2)
        action = rng.integers(0, 7)
        if action == 0 and len(lines) > 1:
            del lines[at]
        elif action == 1:
            lines.insert(at, lines[other])
        elif action == 2:
            lines[at], lines[other] = lines[other], lines[at]
        elif action == 3:
            lines[at] += str(rng.choice(EVIL_WORDS))
        else:
            words = re.split(r"([ ,:])", lines[at])
            words[rng.integers(0, len(words))] = str(rng.choice(EVIL_WORDS))
            lines[at] = "".join(words)
    return "\n".join(lines).encode()


def damaged_array(array: np.ndarray, rng) -> np.ndarray:
    """Another type, another shape, or an evil number in it."""
    action = rng.integers(0, 12)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if action <= 4 and array.size and array.dtype.kind in "iufb":
            array = array.copy()
            number = rng.choice(np.array(EVIL_NUMBERS))
            array.ravel()[rng.integers(0, array.size)] = np.array(number).astype(array.dtype)
            return array
        if action == 5:
            return array.reshape(-1)
        if action == 6:
            # Of an array without dimensions this is a scalar, which may be damaged once more.
            return np.asarray(array[tuple(slice(rng.integers(0, 3), None) for _ in array.shape)])
        if action == 7 and array.ndim:
            return np.concatenate([array, array[:1]])
        if action == 8:
            return np.array(rng.choice(np.array(EVIL_NUMBERS)))
        if action == 9:
            return array[np.newaxis]
        types = ("f4", "f8", ">f8", "i4", ">i4", "u1", "i8", "U8", "S3", "c16", "?", "M8[s]", "f2")
        with contextlib.suppress(ValueError, TypeError, OverflowError, RuntimeError):
            return array.astype(types[rng.integers(0, len(types))])
        return np.empty(0)


def damaged_json(text: str, rng) -> str:
    """A value somewhere in a JSON text replaced, taken out, or put beside."""
    whole = json.loads(text)
    spots: list[tuple] = []

    def walk(value):
        keys = value.keys() if isinstance(value, dict) else range(len(value))
        for key in keys:
            spots.append((value, key))
            if isinstance(value[key], dict | list):
                walk(value[key])

    walk(whole)
    container, key = spots[rng.integers(0, len(spots))]
    value = EVIL_JSON[rng.integers(0, len(EVIL_JSON))]
    action = rng.integers(0, 8)
    if action == 0:
        del container[key]
    elif action == 1 and isinstance(container, dict):
        container["other"] = value
    else:
        container[key] = value
    return json.dumps(whole)


def damaged_archive(path: Path, rng) -> bytes:
    """An .npz file in which arrays are changed, missing, renamed, or not arrays."""
    with np.load(path) as file:
        arrays = dict(file)
    raw: dict[str, bytes] = {}
    for _ in range(rng.integers(1, 3)):
        if not arrays:
            break
        name = str(rng.choice(sorted(arrays)))
        action = rng.integers(0, 12)
        if name == "description" and action < 9:
            arrays[name] = np.array(damaged_json(str(arrays[name]), rng))
        elif action < 9:
            arrays[name] = damaged_array(arrays[name], rng)
        elif action == 9:
            del arrays[name]
        elif action == 10:
            arrays[str(rng.choice(["X", "y", "data", "other", "vectors"]))] = arrays.pop(name)
        else:
            del arrays[name]
            raw[name + ".npy"] = rng.bytes(80)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    with zipfile.ZipFile(buffer, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name may be there twice
        for name, content in raw.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def damaged(path: Path, rng) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".npz" and rng.random() < 0.75:
        return damaged_archive(path, rng)
    if path.suffix == ".npy" and rng.random() < 0.5:
        buffer = io.BytesIO()
        np.save(buffer, damaged_array(np.load(path), rng))
        return buffer.getvalue()
    if path.suffix in (".txt", ".csv", ".model") and rng.random() < 0.8:
        return damaged_text(content, rng)
    return damaged_bytes(content, rng)


# --- the judge --------------------------------------------------------------


class TooLong(Exception):
    """A case hangs."""


def check_data(path: Path) -> None:
    """Read data, and raise AssertionError unless what comes back is valid."""
    label = "label" if path.name in ("words.csv", "table.parquet") else None
    data = read_data(path, label=label)
    assert data.X.ndim == 2 and min(data.X.shape) > 0
    if sp.issparse(data.X):
        check_format(data.X)
        assert data.X.has_canonical_format
    values = data.X.data if sp.issparse(data.X) else data.X
    assert values.dtype.kind in "biuf" and values.dtype.isnative and np.isfinite(values).all()
    if data.y is not None:
        assert data.y.shape == data.X.shape[:1] and data.y.dtype.kind in "biufU"
        assert data.y.dtype.kind != "f" or np.isfinite(data.y).all()


def check_model(path: Path) -> None:
    """Read a model, and raise AssertionError unless it predicts."""
    model = load_model(path)
    classes = getattr(model, "classes_", None)
    assert classes is None or len(set(classes.tolist())) == len(classes) >= 2
    width = model.n_features_in_
    if width > 10**5:  # of a number that was changed; a table would not fit
        X = sp.csr_array(([1.0, 2.0], [0, width - 1], [0, 1, 2]), shape=(2, width))
        if model.kernel != "linear" or not model._sparse:
            return
    else:
        X = np.linspace(-1, 1, 3 * width).reshape(3, width)
    predicted = model.predict(X)
    assert predicted.shape == (X.shape[0],)
    assert classes is None or set(predicted.tolist()) <= set(classes.tolist())
    if hasattr(model, "predict_proba"):
        assert np.isfinite(model.predict_proba(X)).all()
    if hasattr(model, "decision_function"):
        assert len(model.decision_function(X)) == X.shape[0]
    repr(model), str(getattr(model, "fit_report_", ""))


def outcome(path: Path, is_model: bool) -> str:
    """ "read" or "refused"; anything else says what is wrong with the way a file is read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            (check_model if is_model else check_data)(path)
    except DataError as error:
        text = str(error)
        one = "\n" not in text and text.endswith(".") and len(text) < len(str(path)) + 400
        return "refused" if one and text.startswith(str(path)) else f"not one sentence: {text!r}"
    except TooLong:
        return "took too long"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "read"


def command_complaint(path: Path, is_model: bool, files: dict[str, Path], rng) -> str | None:
    """What is wrong with the way the command line takes a file; None where nothing is."""
    from maxmargin.cli import main

    if is_model:
        arguments = [["inspect", path], ["predict", files["dense.txt"], path, "-q"]]
    else:
        label = ["--label", "label"] if path.name in ("words.csv", "table.parquet") else []
        arguments = [
            ["train", path, path.with_name("trained.npz"), *label, "-q", "--time-limit", 2],
            ["predict", path, files["rbf.model"], *label, "-q"],
            ["scale", path, path.with_name("scaled.txt"), *label],
        ]
    chosen = [str(word) for word in arguments[rng.integers(0, len(arguments))]]
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(chosen)
    except SystemExit as ended:
        text = err.getvalue()
        if ended.code in (0, 1, None):
            return None if "Warning" not in text else f"a warning: {text!r}"
        one = text.startswith("maxmargin: ") and text.count("\n") == 1
        return None if ended.code == 2 and one else f"{chosen[0]}: exit {ended.code}, {text!r}"
    except TooLong:
        return f"{chosen[0]} took too long"
    except BaseException as error:
        return f"{chosen[0]}: {type(error).__name__}: {error}"
    return None


def run(first: int, count: int, only: str | None) -> tuple[list[str], dict[str, int]]:
    """Complaints about cases, and how many files were read and refused."""
    counts = {"read": 0, "refused": 0}
    complaints = []

    def too_long(signum, frame):
        raise TooLong

    signal.signal(signal.SIGALRM, too_long)
    with tempfile.TemporaryDirectory() as folder:
        models = write_models(Path(folder))
        files = write_data_files(Path(folder)) | models
        (Path(folder) / "bad").mkdir()
        names = [only] if only else sorted(files)
        for case in range(first, first + count):
            rng = np.random.default_rng([2024, case])
            name = names[case % len(names)]
            path = Path(folder) / "bad" / name
            path.write_bytes(damaged(files[name], rng))
            is_model = name in models
            print(f"case {case}: {name}", flush=True)  # the last line, if this one crashes
            signal.alarm(SECONDS_PER_CASE)
            ended = outcome(path, is_model)
            wrong = None if ended in counts else ended
            if wrong is None and case % 10 == 0:
                wrong = command_complaint(path, is_model, files, rng)
            signal.alarm(0)
            if wrong is None:
                counts[ended] += 1
            else:
                complaints.append(f"case {case}, {name}: {wrong}")
    return complaints, counts


if __name__ == "__main__":
    # A wild number must not take the machine's memory.
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    only = sys.argv[3] if len(sys.argv) > 3 else None
    found, counts = run(int(sys.argv[1]), int(sys.argv[2]), only)
    print(json.dumps(counts))
    print("\n".join(found), file=sys.stderr)
    sys.exit(1 if found else 0)
