"""Valid model files for tests that damage them, and ways to change a part of one."""

import json

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from maxmargin.estimators.pair_sigmoids import PairSigmoids
from maxmargin.io import save_model


def two_classes():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:80, :5], np.where(y[:80] == 1, 1, -1)


def three_classes():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X)[::3], y[::3]


def write_models(folder):
    """A model of each kind; name → path."""
    X, y = two_classes()
    X3, y3 = three_classes()
    words = np.array(["low", "mid", "high"])[y3]
    gaps = sp.csr_array(np.where(np.abs(X3) < 0.7, 0.0, X3))
    models = {
        "rbf": SVC(C=2, gamma=0.3).fit(X, y),
        "linear": SVC(kernel="linear").fit(X3, y3),
        "poly": SVC(kernel="poly", degree=2, coef0=0.5).fit(gaps, y3),
        "precomputed": SVC(kernel="precomputed").fit(X @ X.T, y),
        "nu_svc": NuSVC(nu=0.3, kernel="sigmoid", gamma=0.1).fit(X3, y3),
        "svr": SVR(C=3, epsilon=0.2).fit(X3[:, :3], X3[:, 3]),
        "nu_svr": NuSVR(kernel="linear").fit(gaps[:, [0, 1, 2]], X3[:, 3]),
        "one_class": OneClassSVM(kernel="precomputed", nu=0.2).fit(X @ X.T),
    }
    models["linear"]._pair_sigmoids = PairSigmoids(-np.ones(3), np.array([0.1, -0.2, 0.0]))
    models["svr"]._noise = 0.4
    paths = {}
    for name, model in models.items():
        for suffix in ("model", "npz"):
            paths[f"{name}.{suffix}"] = folder / f"{name}.{suffix}"
            save_model(model, paths[f"{name}.{suffix}"])
    paths["ovr.npz"] = folder / "ovr.npz"
    ovr = SVC(multi_class="ovr", class_weight={"low": 2.0}, random_state=3)
    save_model(ovr.fit(X3, words), paths["ovr.npz"])
    return paths


def read_parts(path):
    """The arrays of an .npz model, and its description as a dictionary."""
    with np.load(path) as file:
        arrays = dict(file)
    return arrays, json.loads(str(arrays["description"]))


def write_parts(path, arrays, description):
    np.savez(path, **(arrays | {"description": np.array(json.dumps(description))}))
