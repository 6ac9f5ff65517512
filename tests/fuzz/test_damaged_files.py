"""Damaged files are read as something valid or refused in one sentence; nothing crashes.

The cases run in a process of their own, because a file that gets past the checks could end
it. A case that failed is run again by its number and file: see damaged_files.py.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("damaged_files.py")

# Cases that the fuzzer found and that were mended.
FOUND = {
    (0, "bsr.npz"): "scale refused data without labels after a remark",
    (131, "words.npz"): "an archive's error of a thousand characters",
    (413, "sparse.txt"): "qid after the first feature",
    (1772, "poly.npz"): "SciPy's own words without a full stop",
    (2508, "bsr.npz"): "blocks of no size",
}


def run(first, count, *name):
    command = [sys.executable, str(SCRIPT), str(first), str(count), *name]
    done = subprocess.run(command, capture_output=True, text=True)
    last = done.stdout.splitlines()[-1:]
    assert done.returncode == 0, f"{last}, exit {done.returncode}:\n{done.stderr}"
    return json.loads(last[0])


def test_some_hundred_damaged_files():
    counts = run(100_000, 500)
    assert sum(counts.values()) == 500
    assert min(counts.values()) > 50  # neither too damaged nor too little


@pytest.mark.parametrize("case", FOUND, ids=FOUND.values())
def test_files_that_once_went_wrong(case):
    number, name = case
    run(number, 1, name)


@pytest.mark.slow
def test_ten_thousand_damaged_files():
    assert sum(run(0, 10_000).values()) == 10_000
