"""``maxmargin predict``: labels for data."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import scipy.sparse as sp
import typer

from maxmargin.cli import _options as options
from maxmargin.cli._output import emit, print_json
from maxmargin.io.data import Dataset, read_data
from maxmargin.io.files import DataError, atomic_write

Model = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A model of maxmargin train, or of svm-train (C-SVC)."),
]


def predict(
    data: options.Data,
    model: Model,
    out: Annotated[
        str | None, typer.Argument(metavar="OUT", help="File for the labels; else printed.")
    ] = None,
    label: options.Label = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="Add the decision values to each line.")
    ] = False,
    unseen: Annotated[
        bool,
        typer.Option("--unseen", help="Allow features that the model has never seen."),
    ] = False,
    jobs: options.Jobs = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Predict the labels of data, and the accuracy where it has labels."""
    from maxmargin.io import load_model

    estimator = load_model(model)
    dataset = read_data(data, label=label, precomputed=estimator.kernel == "precomputed")
    dataset = _without_unused(dataset, estimator)
    estimator = _fitting(estimator, dataset, model, unseen).set_params(n_jobs=jobs)
    X = _as_trained(dataset.X, estimator)
    labels = estimator.predict(X)
    values = estimator.decision_function(X) if scores else None
    accuracy = None if dataset.y is None else float(np.mean(_same(labels, dataset.y)))
    if out is not None:
        with atomic_write(out) as file:
            file.write(_lines(labels, values).encode())
    if json:
        result = {"n_samples": len(labels), "accuracy": accuracy, "out": out}
        if out is None:
            result |= {"labels": labels} | ({} if values is None else {"scores": values})
        print_json(result)
        return
    if out is None:
        emit(_lines(labels, values).rstrip("\n"))
    if accuracy is not None and not quiet:
        right = round(accuracy * len(labels))
        # svm-predict's own line; beside the labels it must not look like one of them.
        typer.echo(
            f"Accuracy = {100 * accuracy:g}% ({right}/{len(labels)}) (classification)",
            err=out is None,
        )


def _fitting(estimator, dataset: Dataset, model_name: str, unseen: bool):
    """The model for data of this width; LIBSVM text may leave out features that are zero."""
    from maxmargin.io import load_model

    known, given = estimator.n_features_in_, dataset.X.shape[1]
    if given == known or (given < known and not dataset.fixed_width):
        return estimator
    is_libsvm = not model_name.endswith(".npz")
    if given > known and is_libsvm and (unseen or estimator.kernel == "precomputed"):
        return load_model(model_name, n_features=given)
    hint = "; --unseen allows it, as svm-predict does" if given > known and is_libsvm else ""
    raise DataError(
        f"{dataset.name} has {given} features, but the model {model_name} was trained on "
        f"{known}{hint}."
    )


def _without_unused(dataset: Dataset, estimator) -> Dataset:
    """Columns in the order of the model's, where both know their names."""
    wanted = getattr(estimator, "feature_names_in_", None)
    if wanted is None or dataset.feature_names is None:
        return dataset
    at = {name: column for column, name in enumerate(dataset.feature_names)}
    missing = [name for name in wanted if name not in at]
    if missing:
        raise DataError(f"{dataset.name}: has no column {missing[0]!r}, which the model needs.")
    columns = [at[name] for name in wanted]
    return Dataset(dataset.X[:, columns], dataset.y, list(wanted), dataset.name, True)


def _as_trained(X, estimator):
    """Dense or sparse as the training data was, and as wide."""
    if sp.issparse(X) and X.shape[1] < estimator.n_features_in_:
        X = X.copy()
        X.resize((X.shape[0], estimator.n_features_in_))
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_  # the columns are in order; arrays have no names
    if estimator._sparse:
        return sp.csr_array(X)
    return X.toarray() if sp.issparse(X) else X


def _same(labels: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Equal labels; those of another type are none of the model's."""
    if (labels.dtype.kind in "US") != (truth.dtype.kind in "US"):
        return labels.astype(str) == truth.astype(str)
    return labels == truth


def _lines(labels: np.ndarray, values: np.ndarray | None) -> str:
    texts = [str(label) for label in labels.tolist()]
    if values is not None:
        table = values.reshape(len(texts), -1).tolist()
        texts = [f"{text} {' '.join(map(repr, row))}" for text, row in zip(texts, table)]
    return "\n".join(texts) + "\n"
