"""``maxmargin bench``: solvers and other libraries on a user's own data."""

from __future__ import annotations

import importlib
import time
import warnings
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
import typer

import maxmargin
from maxmargin.cli import _deferred as deferred
from maxmargin.cli import _options as options
from maxmargin.cli._inputs import dataset_for
from maxmargin.cli._output import emit, print_json
from maxmargin.sparse_format import densified

# Other libraries whose SVC has scikit-learn's interface: name in the table → module.
_PEERS = {"scikit-learn": "sklearn.svm", "scikit-learn-intelex": "sklearnex.svm"}

# Columns of the table, and their formats.
_COLUMNS = {
    "seconds": ".3f",
    "n_support": "d",
    "kkt_violation": ".2e",
    "objective": ".8g",
    "accuracy": ".4f",
}


@dataclass(frozen=True)
class Result:
    """One line of the table; the violation is recomputed in float64 from the model alone."""

    name: str
    seconds: float
    n_support: int
    kkt_violation: float
    objective: float
    accuracy: float


def bench(
    data: options.Data,
    C: Annotated[
        float, typer.Option("--C", "-c", metavar="C", help="The price of a margin violation.")
    ] = 1.0,
    gamma: options.Gamma = "scale",
    kernel: options.Kernel = "rbf",
    degree: options.Degree = 3,
    coef0: options.Coef0 = 0.0,
    tol: options.Tolerance = 1e-3,
    solver: Annotated[
        list[str] | None,
        typer.Option("--solver", metavar="NAME", help="Solvers to compare; may be repeated."),
    ] = None,
    peers: Annotated[bool, typer.Option(help="Also run other libraries.")] = True,
    repeat: Annotated[
        int, typer.Option("--repeat", metavar="N", min=1, help="Runs; the best counts.")
    ] = 1,
    label: options.Label = None,
    json: options.Json = False,
) -> None:
    """Compare solvers and libraries on DATA.

    Every answer is judged alike, by its KKT violation recomputed in float64.
    Seconds are those of fit alone, after a first fit of a few samples.
    """
    kernel = options.kernel_name(kernel)
    dataset = dataset_for(maxmargin.SVC(kernel=kernel), data, label)
    parameters: dict[str, Any] = {
        "C": C, "kernel": kernel, "degree": degree, "coef0": coef0, "tol": tol,
        "gamma": options.gamma_value(gamma),
    }  # fmt: skip
    contestants = {
        f"maxmargin {name}": maxmargin.SVC(solver=name, **parameters) for name in solver or ["auto"]
    }
    if peers:
        contestants |= {name: model(**parameters) for name, model in _installed().items()}
    width = max(map(len, contestants))
    if not json:
        emit("  ".join([" " * width, *(f"{name:>13}" for name in _COLUMNS)]))
    results = []
    for name, model in contestants.items():
        results.append(_run(name, model, dataset, repeat))
        if not json:
            emit(_line(results[-1], width))
    if json:
        print_json({"data": dataset.name, **parameters, "results": [vars(one) for one in results]})


def _installed() -> dict[str, type]:
    found = {}
    for name, module in _PEERS.items():
        try:
            found[name] = importlib.import_module(module).SVC
        except ImportError:
            continue
    return found


def _run(name: str, model, dataset, repeat: int) -> Result:
    X, y = dataset.X, dataset.labels
    if sp.issparse(X):
        X = sp.csr_matrix(X)  # every library takes this type
    best = np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _warm_up(model, X, y)
        for _ in range(repeat):
            start = time.perf_counter()
            model.fit(X, y)
            best = min(best, time.perf_counter() - start)
        accuracy = float(np.mean(model.predict(X) == y))
    violation, objective = _judge(model, X, y)
    return Result(name, best, len(model.support_), violation, objective, accuracy)


def _warm_up(model, X, y) -> None:
    """Fit ten samples per class, since libraries compile and load code at first use."""
    from sklearn.base import clone

    if model.kernel == "precomputed":
        return
    few = np.concatenate([np.flatnonzero(y == label)[:10] for label in np.unique(y)])
    clone(model).fit(X[few], y[few])


def _judge(model, X, y) -> tuple[float, float]:
    """(largest KKT violation, summed objective) of a model, from its coefficients and the data."""
    names = ("C", "kernel", "degree", "gamma", "coef0", "tol")
    judge = maxmargin.SVC(**{name: getattr(model, name) for name in names})
    data = deferred.validate_training_data(judge, X, y, None)
    tasks = deferred.binary_tasks(data.codes, len(data.classes), "ovo")
    sign = -1.0 if len(data.classes) == 2 else 1.0
    by_task = deferred.coefficients_by_task(sign * densified(model.dual_coef_), model.n_support_)
    gamma = judge._resolve_gamma(data.X, None)
    problems = deferred.LocalSource(judge, data, tasks, gamma).problems([None] * len(tasks))
    violation, objective = 0.0, 0.0
    for number, (task, (problem, _)) in enumerate(zip(tasks, problems, strict=True)):
        beta = np.zeros(len(y))
        beta[model.support_] = by_task[[number]].toarray()[0]
        certificate = deferred.certify(problem, beta[task.index])
        violation = max(violation, certificate.kkt_violation)
        objective += certificate.objective
    return violation, objective


def _line(one: Result, width: int) -> str:
    cells = [f"{getattr(one, name):>13{form}}" for name, form in _COLUMNS.items()]
    return "  ".join([one.name.ljust(width), *cells])
