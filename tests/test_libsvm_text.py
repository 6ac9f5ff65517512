"""The reader of small LIBSVM files against scikit-learn's."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from maxmargin.io.libsvm_text import read_regular

WORDS = st.sampled_from(
    ["1", "-1", "+1", "0", "2:1", "1:0.5", "3:-2e-3", "7:1e300", "10:.5", "2147483647:1", "0:7",
     "1:", ":1", "1:2:3", "1 :2", "nan", "1:inf", "1:nan", "2:+1", "1.0:1", "+3:1", "x", "1_0",
     "1:0x10", "# 1:2", "qid:1", "1-2", "5:1-2", "1:1e5.3", "\t", "  ", "\r", "\x0b", "é", "1e2"]
)  # fmt: skip
LINES = st.lists(st.lists(WORDS, max_size=5).map(" ".join), max_size=5)


@given(LINES, st.sampled_from(["\n", "\r\n", "\n\n"]), st.booleans())
def test_what_is_read_is_what_scikit_learn_reads(lines, end, zero_based):
    text = (end.join(lines)).encode()
    found = read_regular(text, 0 if zero_based else 1)
    if found is None:
        return
    X, y = found
    expected, labels = load_svmlight_file(io.BytesIO(text), zero_based=True)
    np.testing.assert_array_equal(y, labels)
    np.testing.assert_array_equal(X.indices, expected.indices)
    np.testing.assert_array_equal(X.indptr, expected.indptr)
    np.testing.assert_array_equal(X.data, expected.data)
    assert X.shape[0] == len(y)
    assert zero_based or not (X.indices == 0).any()


@pytest.mark.parametrize(
    "text",
    [
        b"1 1:0.5 3:-2\n-1 2:1e-3\n",
        b"+1 1:1 \r\n\n-1\n 2.5 7:3",
        b"1\n2\n",
        b"-1 1:1 2147483647:2",
        b"3 1:0.1 2:0.30000000000000004 3:5e-324 4:1.7976931348623157e308\n",
    ],
)
def test_regular_text_is_read(text):
    X, y = read_regular(text, 1)
    expected, labels = load_svmlight_file(io.BytesIO(text), zero_based=True)
    np.testing.assert_array_equal(y, labels)
    np.testing.assert_array_equal(X.data, expected.data)
    np.testing.assert_array_equal(X.indices, expected.indices)


@pytest.mark.parametrize(
    "text",
    [b"", b"\n \n", b"# x\n1 1:1\n", b"1 qid:1 1:1\n", b"1 1 :1\n", b"1 1: 1\n", b"1 1:1:1\n",
     b"1 2:1 1:1\n", b"1 1:1 1:1\n", b"1 0:1\n", b"1 -1:1\n", b"1 1.0:1\n", b"1 1\n", b"1:1\n",
     b"1 2147483648:1\n", b"nan 1:1\n", b"1 1:inf\n", b"1 1:1e999\n", b"1 1:1-2\n", b"1 1:\x00\n",
     b"1 1:1,5\n", b"1\x0b2:1\n", b"1 1:e\n"],
)  # fmt: skip
def test_other_text_is_left_to_the_other_reader(text):
    assert read_regular(text, 1) is None
