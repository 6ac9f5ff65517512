"""Data files: what is damaged is refused in one sentence, by the readers and the command line."""

import gzip
import io
import resource

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, load_iris, load_svmlight_file

from maxmargin.io import DataError, read_data, text_blocks, write_data


@pytest.fixture
def refused(capsys):
    """Check that a file is refused: by `read_data`, and by the command line with exit code 2."""
    pytest.importorskip("typer", reason="typer is not installed (extra cli).")
    from maxmargin.cli import main

    def check(path, sentence, **options):
        with pytest.raises(DataError, match=sentence) as raised:
            read_data(path, **options)
        text = str(raised.value)
        assert text.startswith(str(path)) and "\n" not in text and len(text) < 250 + len(str(path))
        label = ["--label", options["label"]] if options.get("label") else []
        kernel = ["-t", "4"] if options.get("precomputed") else []
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["train", str(path), *label, *kernel])
        shown = capsys.readouterr()
        assert (ended.value.code, shown.out, shown.err) == (2, "", f"maxmargin: {text}\n")

    return check


# --- LIBSVM text ------------------------------------------------------------

SOUND_TEXTS = [
    b"1 2:3",
    b"1 2:3\n\n\n-1\n 2 1:1 5:-4e-3 # a remark\n",
    b"# a remark\n1.5 qid:3 2:4\r\n0\t1:1  3:.5 \r\n",
    b"\n\n+1 7:1\n",
    b"3\n2 1:1\n",
]
BROKEN_TEXTS = [
    b"1 2 3:4", b"1:2", b"1 1:2:3", b"1 :3", b"1 3:", b"1 2: 3", b"1 1.5:3", b"1 3:1 2:1",
    b"1 3:1 3:1", b"1 0:1", b"1 2147483648:1", b"1 " + b"9" * 30 + b":1", b"a 1:2", b"1 1:1_0",
    b"1 +1:2", b": 1:2", b"1 1:2 :", b"1 1:2-3\n1 1:x", b"1 1:2\0", b"1 qid:1 qid:2 1:2",
]  # fmt: skip


@pytest.mark.parametrize("block_bytes", [1, 16, 2**20])
def test_text_is_read_as_scikit_learn_reads_it(monkeypatch, block_bytes):
    monkeypatch.setattr(text_blocks, "_BLOCK_BYTES", block_bytes)
    rng = np.random.default_rng(0)
    X = sp.random(60, 30, density=0.2, format="csr", random_state=rng)
    X.data *= 10.0 ** rng.integers(-300, 300, X.nnz)
    written = io.BytesIO()
    dump_svmlight_file(X, rng.normal(size=60), written, zero_based=False)
    for text in [*SOUND_TEXTS, written.getvalue(), b"".join(SOUND_TEXTS[1:])]:
        theirs, labels = load_svmlight_file(io.BytesIO(text), zero_based=False)
        ours, our_labels = text_blocks.read(io.BytesIO(text), 1)
        assert ours.shape == theirs.shape and ours.indices.dtype == np.int32
        np.testing.assert_array_equal(ours.toarray(), theirs.toarray())
        np.testing.assert_array_equal(our_labels, labels)


@pytest.mark.parametrize("text", BROKEN_TEXTS)
def test_text_that_is_no_table_is_refused(text):
    with pytest.raises(ValueError):
        text_blocks.read(io.BytesIO(b"1 1:2\n" + text + b"\n2 2:1\n"), 1)


@pytest.mark.parametrize("text", [b"", b"\n \n", b"# nothing\n"])
def test_text_without_samples_has_none(text):
    X, y = text_blocks.read(io.BytesIO(text), 1)
    assert X.shape == (0, 1) and len(y) == 0


# --- .npz -------------------------------------------------------------------


def matrix():
    rng = np.random.default_rng(0)
    return sp.csr_array(rng.normal(size=(6, 4)) * (rng.random((6, 4)) < 0.6))


def parts(X=None, **changes):
    """What scipy.sparse.save_npz writes, changed."""
    X = matrix() if X is None else X
    found = {"format": X.format.encode(), "shape": X.shape, "data": X.data, "y": [0, 1] * 3}
    names = {"coo": ("row", "col"), "dia": ("offsets",)}.get(X.format, ("indices", "indptr"))
    found |= {name: getattr(X, name) for name in names}
    for name, change in changes.items():
        found[name] = change(np.array(found[name])) if callable(change) else change
    return {name: value for name, value in found.items() if value is not None}


def at(index, value):
    def change(array):
        array[index] = value
        return array

    return change


NPZ_DAMAGES = {
    "a column beyond the last": (
        parts(indices=at(2, 4)),
        "column index 4 in row . is not in 0 … 3",
    ),
    "a huge column": (parts(indices=at(2, 2**31 - 1)), "column index 2147483647"),
    "a negative column": (parts(indices=at(2, -3)), "column index -3"),
    "indptr that falls": (parts(indptr=at(2, 0)), "indptr must rise from 0"),
    "negative indptr": (parts(indptr=at(2, -9)), "indptr must rise from 0"),
    "indptr beyond the end": (parts(indptr=at(-1, 10**6)), "[Ii]nd.*pointer"),
    "indptr too short": (parts(indptr=lambda p: p[:-1]), r"pointer size \(?6\)? should be \(?7"),
    "indices as floats": (parts(indices=lambda i: i + 0.5), "indices must be a list of whole num"),
    "indices in a table": (
        parts(indices=lambda i: i[np.newaxis]),
        "indices must be a list of whol",
    ),
    "data too short": (parts(data=lambda d: d[:-1]), "indices and data should have the same size"),
    "data as text": (parts(data=lambda d: d.astype(str)), "data must hold numbers, not <U"),
    "NaN in data": (parts(data=at(2, np.nan)), "missing or infinite"),
    "a float as shape": (parts(shape=[6.0, 4.0]), "shape must be two whole numbers from 0, not fl"),
    "a number as shape": (
        parts(shape=24),
        "shape must be two whole numbers from 0, not int64, '24'",
    ),
    "three numbers as shape": (parts(shape=[6, 4, 1]), "shape must be two whole numbers"),
    "a negative shape": (parts(shape=[6, -4]), "shape must be two whole numbers"),
    "a shape in words": (parts(shape=["6", "4"]), "shape must be two whole numbers"),
    "a shape too small": (parts(shape=[6, 3]), "column index 3"),
    "an unknown format": (
        parts(format=b"xyz"),
        "the format of its matrix must be one of csr, .*'x",
    ),
    "a format that is none": (parts(format=np.zeros(3)), "must be one of csr, .* not null"),
    "no indices": (parts(indices=None), "format 'csr' has 'indices' as well"),
    "labels too few": (parts(y=[1, 2]), r"X has 6 rows, but y has shape \(2,\)"),
    "labels as dates": (parts(y=np.zeros(6, "M8[s]")), "y must hold numbers or text"),
    "labels that are none": (parts(y=[0, 1, np.nan, 1, 0, 1]), "y holds values that are missing"),
    "csc: a row beyond the last": (
        parts(matrix().tocsc(), indices=at(0, 6)),
        "row index 6 in column 0 is not in 0 … 5",
    ),
    "csc: too many rows": (
        parts(matrix().tocsc(), shape=[2**60, 4], y=None),
        "1152921504606846976 rows are too many",
    ),
    "coo: a row beyond the last": (
        parts(matrix().tocoo(), row=at(0, 6)),
        "exceeds matrix dimension",
    ),
    "coo: a negative column": (parts(matrix().tocoo(), col=at(0, -1)), "negative axis 1 index: -1"),
    "coo: too few rows": (parts(matrix().tocoo(), row=lambda r: r[:-1]), "all index .* length"),
    "bsr: one dimension": (parts(matrix().tobsr(), data=np.ones(4)), "BSR|blocks|dimension"),
    "bsr: a block beyond": (
        parts(matrix().tobsr((2, 2)), indices=at(0, 9)),
        "block column index 9",
    ),
    "dia: one dimension": (parts(matrix().todia(), data=np.ones(4)), "number of diagonals"),
    "dia: too few offsets": (
        parts(matrix().todia(), offsets=lambda o: o[:-1]),
        "number of diagonals",
    ),
    "a column of X as text": ({"X": [["1", "2"]], "y": [1]}, "X must be a table of numbers"),
    "X with one dimension": ({"X": [1.0, 2.0], "y": [1, 2]}, "X must be a table of numbers"),
    "X as pairs": ({"X": np.zeros((2, 2), "i4,i4"), "y": [1, 2]}, "X must be a table of numbers"),
    "X without columns": ({"X": np.zeros((2, 0)), "y": [1, 2]}, "there are no features"),
    "X beyond float64": (
        {"X": np.full((2, 2), np.longdouble("1e3000")), "y": [1, 2]},
        "missing or infinite",
    ),
    "another name": ({"data": [1.0]}, "has no array X, only data"),
}


@pytest.mark.parametrize("damage", NPZ_DAMAGES)
def test_damaged_arrays_are_refused(damage, refused, tmp_path):
    arrays, sentence = NPZ_DAMAGES[damage]
    np.savez(tmp_path / "bad.npz", **arrays)
    refused(tmp_path / "bad.npz", sentence)


def test_objects_are_not_read(refused, tmp_path):
    np.savez(tmp_path / "bad.npz", X=np.array([[1, None]], dtype=object), y=[1])
    refused(tmp_path / "bad.npz", "'X' cannot be read .Object arrays cannot be loaded")


def test_damaged_archives_are_refused(refused, tmp_path):
    np.savez_compressed(tmp_path / "good.npz", X=np.arange(3000.0).reshape(1000, 3), y=[0, 1] * 500)
    whole = (tmp_path / "good.npz").read_bytes()
    middle = bytearray(whole)
    for position in range(len(whole) // 3, len(whole) // 3 + 40):
        middle[position] ^= 0x5A
    np.save(tmp_path / "array.npy", np.ones((3, 3)))
    for content, sentence in [
        (bytes(middle), "its array 'X' cannot be read"),
        (whole[: len(whole) // 2], "is not an .npz file, or is damaged"),
        (whole.replace(b"X.npy", b"X.txt"), "'X' cannot be read|'X.txt' in it is not|no array X"),
        (b"", "is not an .npz file"),
        (b"1 1:2\n", "is not an .npz file"),
        ((tmp_path / "array.npy").read_bytes(), r"is a single array \(.npy\), not an .npz file"),
    ]:
        (tmp_path / "bad.npz").write_bytes(content)
        refused(tmp_path / "bad.npz", sentence)
    (tmp_path / "bad.npy").write_bytes(whole)
    refused(tmp_path / "bad.npy", r"is an .npz file of named arrays")
    (tmp_path / "bad.npy").write_bytes((tmp_path / "array.npy").read_bytes()[:-9])
    refused(tmp_path / "bad.npy", r"is not an .npy file, or is damaged")


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
@pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix])
def test_every_matrix_of_scipy_is_read_as_it_is(kind, container, tmp_path):
    """A square CSC matrix was once read as its transpose."""
    square = container(np.triu(np.arange(1.0, 26.0).reshape(5, 5)))
    sp.save_npz(tmp_path / "square.npz", square.asformat(kind))
    data = read_data(tmp_path / "square.npz")
    np.testing.assert_array_equal(data.X.toarray(), square.toarray())
    assert data.X.format == "csr" and data.y is None


def test_what_is_written_is_read_by_scipy(tmp_path):
    np.savez(tmp_path / "given.npz", **parts())
    write_data(tmp_path / "out.npz", read_data(tmp_path / "given.npz"))
    np.testing.assert_array_equal(sp.load_npz(tmp_path / "out.npz").toarray(), matrix().toarray())


def test_values_that_are_there_twice_add_up(tmp_path):
    np.savez(tmp_path / "twice.npz", data=[1.0, 2.0], indices=[1, 1], indptr=[0, 2], shape=[1, 3])
    np.testing.assert_array_equal(read_data(tmp_path / "twice.npz").X.toarray(), [[0, 3, 0]])


def test_npy_and_packed_arrays(tmp_path):
    X, y = load_iris(return_X_y=True)
    np.save(tmp_path / "X.npy", X.astype(">f8"))
    data = read_data(tmp_path / "X.npy")
    np.testing.assert_array_equal(data.X, X)
    assert data.X.dtype.isnative and data.y is None
    np.savez(tmp_path / "data.npz", X=X, y=y)
    (tmp_path / "data.npz.gz").write_bytes(gzip.compress((tmp_path / "data.npz").read_bytes()))
    np.testing.assert_array_equal(read_data(tmp_path / "data.npz.gz").X, X)


def test_a_sparse_kernel_is_refused(refused, tmp_path):
    sp.save_npz(tmp_path / "kernel.npz", sp.csr_array(np.eye(4)))
    refused(tmp_path / "kernel.npz", "a precomputed kernel must be a table", precomputed=True)


# --- text -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"a,y\n1,0\n{'x' * 131_073},1\n", r"line 3: field larger than field limit \(131072\)"),
        (f"a,{'y' * 131_073}\n1,0\n", r"line 1: field larger than field limit \(131072\)"),
        (f"a,y\n{'1' * 5000},0\n", "line 2: column 'a' must hold finite numbers, found '11111"),
        ("a,y\n1,0\n2,nan\n", "a label is 'nan', where the others are numbers"),
        ("a,y\n1,1e999\n2,1\n", "a label is '1e999', where the others are numbers"),
        ("a,y\n1\0,0\n", "line 2: column 'a' must hold finite numbers"),
        ('a,y\n"1,0\n', "line 2: 1 columns|line 3: 1 columns"),
        ("\n\n\n", "there are no samples"),
    ],
    ids=["long field", "long name", "long number", "nan", "inf", "zero", "quote", "empty"],
)
@pytest.mark.filterwarnings("error")
def test_damaged_csv_is_refused(text, sentence, refused, tmp_path):
    (tmp_path / "bad.csv").write_text(text)
    refused(tmp_path / "bad.csv", sentence, label="2" if "yyy" in text else "y")


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "+2", "-3"], [1, 2, -3]),
        (["1.5", "2"], [1.5, 2.0]),
        (["9" * 30, "1"], ["9" * 30, "1"]),  # no integer of 64 bits
        (["9" * 5000, "x"], ["9" * 5000, "x"]),
        (["nan", "low"], ["nan", "low"]),
    ],
    ids=["whole", "numbers", "large", "long", "words"],
)
def test_labels_of_csv(texts, expected, tmp_path):
    (tmp_path / "data.csv").write_text("a,y\n" + "".join(f"1,{text}\n" for text in texts))
    y = read_data(tmp_path / "data.csv", label="y").labels
    assert y.tolist() == expected and y.dtype.kind in "ifU"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (f"1 {'9' * 5000}:1", "line 2: feature 9{20}… is beyond the largest"),
        ("1 1.0:1", "line 2: expected index:value, found '1.0:1'"),
        ("1 2147483648:1", "line 2: feature 2147483648 is beyond the largest"),
        (f"{'9' * 5000} 1:1", "line 2: the label must be a number, not '9{59}…"),
        (f"1 1:{'9' * 5000}", "line 2: the value of feature 1 must be a finite number, not '9"),
        ("1 1:1e999", "line 2: the value of feature 1 must be a finite number, not '1e999'"),
        ("1 \u0661:1", "line 2: expected index:value, found"),
        ("1 qid:x:y 3", "line 2: expected index:value, found '3'"),
        ("\x00", "line 2: the label must be a number"),
    ],
    ids=range(9),
)
@pytest.mark.filterwarnings("error")
def test_damaged_libsvm_text_is_refused(line, sentence, refused, tmp_path):
    (tmp_path / "bad").write_text(f"1 1:1\n{line}\n-1 1:3\n")
    refused(tmp_path / "bad", f"bad, {sentence}")


@pytest.mark.filterwarnings("error")
def test_large_labels_of_libsvm_text(tmp_path):
    (tmp_path / "data").write_text("1e300 1:1\n-1e300 1:2\n")
    assert read_data(tmp_path / "data").labels.tolist() == [1e300, -1e300]


@pytest.mark.parametrize(
    "text",
    [
        "1 0:1 1:1 2:0.5\n2 0:2 1:0.5 3:1\n",  # value 2 is left out
        f"1 0:1 1:1 {2**30}:0.5\n2 0:2 1:0.5 2:1\n",
        "1 1:1 2:0.5\n2 1:0.5 2:1\n",
        "1 0:0 1:1 2:0.5\n2 0:2 1:0.5 2:1\n",
        "1\n2\n",
    ],
)
def test_kernels_with_gaps_are_refused(text, refused, tmp_path):
    """LIBSVM counts values by their place in the line, so that none may be left out."""
    (tmp_path / "bad").write_text(text)
    refused(tmp_path / "bad", "all values are there, zeros too", precomputed=True)


def test_a_feature_of_a_high_number_takes_little_memory(tmp_path):
    (tmp_path / "wide").write_text(f"1 1:1 {2**30}:2\n-1 {2**31 - 1}:1\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    data = read_data(tmp_path / "wide")
    for name in ("out", "out.npz"):
        write_data(tmp_path / name, data)
        back = read_data(tmp_path / name)
        assert back.X.indices.tolist() == [0, 2**30 - 1, 2**31 - 2]
    with pytest.raises(DataError, match="2147483647 are too many; write LIBSVM text"):
        write_data(tmp_path / "out.csv", data)
    assert not (tmp_path / "out.csv").exists()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**18  # in KiB


# --- Parquet ----------------------------------------------------------------


def test_damaged_parquet_is_refused(refused, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def write(**columns):
        parquet.write_table(arrow.table(columns), tmp_path / "bad.parquet")
        return tmp_path / "bad.parquet"

    refused(write(a=["1", "2"], y=[0, 1]), "column 'a' holds more than numbers", label="y")
    refused(write(a=[[1], [2]], y=[0, 1]), "column 'a' holds more than numbers", label="y")
    refused(write(a=[1, 2], y=[[0], [1]]), "labels must be numbers or text, not list", label="y")
    refused(write(a=[1, 2], y=[b"a", b"b"]), "labels must be numbers or text, not bin", label="y")
    refused(write(a=[1, 2], y=[0.5, np.nan]), "a label is not a number", label="y")
    refused(write(a=[None, None], y=[0, 1]), "column 'a' holds more than numbers", label="y")
    whole = write(a=[1.0, 2.0], y=["x", "y"]).read_bytes()
    (tmp_path / "bad.parquet").write_bytes(whole[:-9] + whole[-8:])
    refused(tmp_path / "bad.parquet", "is not a Parquet file, or is damaged", label="y")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1" + bytes(90) + b"PAR1")
    refused(tmp_path / "bad.parquet", "is not a Parquet file, or is damaged", label="y")
    dates = arrow.array([1, 2], arrow.timestamp("s"))
    assert read_data(write(a=[1, 2], y=dates), label="y").labels.dtype.kind == "U"
    kinds = arrow.array(["u", "v"]).dictionary_encode()
    data = read_data(write(a=arrow.array([True, False]), y=kinds), label="y")
    assert data.X.tolist() == [[1.0], [0.0]] and data.labels.tolist() == ["u", "v"]
