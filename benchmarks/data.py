"""Data for the benchmarks: LIBSVM text files from a folder, and synthetic sets.

A set NAME lies in the folder as `NAME` or `NAME.xz`. The number of features is
given where it is known, since the last features of a file may never occur in it.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from sklearn.utils import check_random_state

# Features of the known sets; `NAME.t`, the test set, has as many as NAME.
N_FEATURES = {
    **{f"a{k}a": 123 for k in range(1, 10)},
    **{f"w{k}a": 300 for k in range(1, 9)},
    "australian": 14,
    "banana": 2,
    "banana1": 2,
    "covtype": 54,
    "diabetis_ida": 8,
    "dna": 180,
    "german.numer": 24,
    "glass": 9,
    "heart": 13,
    "ionosphere": 34,
    "iris": 4,
    "isolet": 617,
    "lasvm_reuters": 8315,
    "liver-disorders": 6,
    "page-blocks": 10,
    "pima": 8,
    "segment": 19,
    "shuttle": 9,
    "splice": 60,
    "splice_ida": 60,
    "splice_uci": 60,
    "usps": 256,
    "vowel": 10,
    "wdbc": 30,
    "wine": 13,
    "zoo": 16,
}


def path_of(folder: Path, name: str) -> Path | None:
    """The file of a set, or None where the folder has none."""
    candidates = (Path(folder) / name, Path(folder) / f"{name}.xz")
    return next((path for path in candidates if path.is_file()), None)


def load(folder: Path, name: str) -> tuple[sp.csr_matrix, np.ndarray]:
    """X (CSR, float64, int32 indices) and y of the set `name`, as they are in its file."""
    path = path_of(folder, name)
    if path is None:
        raise FileNotFoundError(f"{folder} has neither {name} nor {name}.xz.")
    opener = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rb") as file:
        X, y = load_svmlight_file(file, n_features=N_FEATURES.get(name.removesuffix(".t")))
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, y


def one_against_rest(y: np.ndarray, label: float) -> np.ndarray:
    """+1 where y is `label`, −1 elsewhere."""
    return np.where(y == label, 1.0, -1.0)


def scale_unit(X):
    """Every feature moved and stretched to [0, 1], constant ones to 0; keeps the container.

    A sparse X stays sparse only where the least value of a feature is 0.
    """
    dense = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    low = dense.min(axis=0)
    span = np.ptp(dense, axis=0)
    scaled = (dense - low) / np.where(span > 0, span, 1.0)
    return sp.csr_matrix(scaled) if sp.issparse(X) else scaled


def two_gaussians(n: int = 4000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Half the points from N(0, I), label −1, half from N((2, 0), 4I), label +1; shuffled."""
    random = check_random_state(seed)
    half = n // 2
    X = np.vstack([random.randn(half, 2), 2 * random.randn(n - half, 2) + [2.0, 0.0]])
    y = np.repeat([-1.0, 1.0], [half, n - half])
    order = random.permutation(n)
    return X[order], y[order]


def shells(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Twenty normal features; the class is whether five of them are far from the origin."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n, 20))
    noise = 0.5 * random.normal(size=n)
    return X, np.where((X[:, :5] ** 2).sum(axis=1) + noise > 4.5, 1.0, -1.0)


def patches(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten features; classes in 200 overlapping clouds: many free and many bounded ones."""
    random = np.random.default_rng(0)
    centres, signs = random.random((200, 10)), np.where(np.arange(200) % 2, 1.0, -1.0)
    chosen = random.integers(200, size=n)
    return centres[chosen] + 0.13 * random.normal(size=(n, 10)), signs[chosen]


def ball(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Three features in a cube; the class is a ball in it, with a gap around: few support vectors.

    Like pixels by colour, of which one colour is wanted.
    """
    random = np.random.default_rng(0)
    X = random.random((2 * n, 3))
    radius = np.linalg.norm(X - [0.6, 0.5, 0.4], axis=1)
    kept = np.flatnonzero(np.abs(radius - 0.35) > 0.01)[:n]
    return X[kept], np.where(radius[kept] < 0.35, 1.0, -1.0)


def plane(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Twenty normal features and a plane, with a tenth of the labels turned."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n, 20))
    signs = np.where(X @ random.normal(size=20) > 0, 1.0, -1.0)
    return X, np.where(random.random(n) < 0.1, -signs, signs)
