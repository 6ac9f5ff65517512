"""``maxmargin predict``: labels for data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
import typer

import maxmargin
from maxmargin.cli import _deferred as deferred
from maxmargin.cli import _options as options
from maxmargin.cli._measures import measures, numbers, sentences
from maxmargin.cli._output import emit, note, print_json
from maxmargin.cli._probability import noise_lines, require_probability
from maxmargin.io.data import Dataset, read_data
from maxmargin.io.files import DataError, format_suffix, write_text

# Values of sparse rows that are made dense at a time.
_BLOCK_VALUES = 2**22

Model = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A model of maxmargin train, or of svm-train."),
]
_Out = Annotated[
    str | None, typer.Argument(metavar="OUT", help="File for the labels; else printed.")
]
_Scores = Annotated[bool, typer.Option("--scores", help="Add the decision values to each line.")]
_Probability = Annotated[
    int,
    typer.Option(
        "--probability", "-b", metavar="0|1", min=0, max=1,
        help="Add probabilities of the classes, and go by them; for models of train -b 1.",
    ),
]  # fmt: skip


def predict(
    data: options.Data,
    model: Model,
    out: _Out = None,
    label: options.Label = None,
    scores: _Scores = False,
    probability: _Probability = 0,
    jobs: options.Jobs = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Predict labels, or numbers with a model of regression; +1 or −1 with a one-class model.

    And what the predictions are worth, where the data has labels.
    """
    estimator = maxmargin.io.load_model(model)
    classes = _check_options(estimator, model, scores, bool(probability))
    X, truth = samples_for(estimator, data, label, model, quiet)
    estimator.set_params(n_jobs=jobs)
    wanted = "decision_function" if scores else None if classes is None else "predict_proba"
    predicted, values = answers(estimator, X, wanted)
    if classes is not None and values is not None:
        predicted = classes[np.argmax(values, axis=1)]
    found = measures(estimator, predicted, truth)
    noise = estimator._noise if probability and classes is None else None
    if out is not None:
        write_text(out, _lines(predicted, values, classes))
    if json:
        result = {"n_samples": len(predicted), **found, "out": out}
        result |= {} if noise is None else {"noise": noise}
        result |= _contents(estimator, predicted, values, classes) if out is None else {}
        print_json(result)
        return
    if out is None:
        emit(_lines(predicted, values, classes).rstrip("\n"))
    if not quiet:
        # svm-predict's own lines; beside the predictions they must not look like one of them.
        of_noise = [] if noise is None else noise_lines(noise)
        for sentence in [*of_noise, *sentences(found, len(predicted))]:
            typer.echo(sentence, err=out is None)


def _check_options(estimator, model: str, scores: bool, probability: bool) -> np.ndarray | None:
    """A sentence for options that the model has no answer to; the classes with probabilities."""
    from sklearn.base import is_regressor

    of_numbers = is_regressor(estimator)
    if scores and of_numbers:
        raise DataError("--scores: what a regression predicts is its decision value already.")
    if not probability:
        return None
    require_probability(estimator, model)
    if scores:
        raise DataError("-b and --scores cannot be used together.")
    return None if of_numbers else estimator.classes_


def _contents(estimator, predicted: np.ndarray, values, classes) -> dict[str, Any]:
    """The predictions for JSON."""
    from sklearn.base import is_regressor

    contents = {"values" if is_regressor(estimator) else "labels": predicted}
    if classes is not None:
        contents |= {"classes": classes, "probabilities": values}
    elif values is not None:
        contents["scores"] = values
    return contents


def samples_for(
    estimator, data: str, label: str | None, model_name: str, quiet: bool
) -> tuple[Any, np.ndarray | None]:
    """Samples as a model takes them, and their true labels or targets where the data has them."""
    from sklearn.base import is_regressor

    dataset = read_data(data, label=label, precomputed=estimator.kernel == "precomputed")
    dataset = _columns_of(dataset, estimator)
    truth = dataset.y
    if truth is not None and is_regressor(estimator):
        truth = numbers(truth, dataset.name)
    return _of_width(dataset.X, _common_width(estimator, dataset, model_name, quiet)), truth


def _common_width(estimator, dataset: Dataset, model_name: str, quiet: bool) -> int:
    """The number of features of model and data; the model is widened where it has fewer.

    LIBSVM text does not say how many features there are: zeros may be left out, and features
    may occur that no support vector has. As in `svm-predict`, such features count in distances
    and nowhere else.
    """
    known, given = estimator.n_features_in_, dataset.X.shape[1]
    if given == known or (given < known and not dataset.fixed_width):
        return known
    by_kernel = estimator.kernel == "precomputed"
    model_says = format_suffix(model_name) == ".npz"
    if given < known or (model_says and (by_kernel or dataset.fixed_width)):
        what = "kernel values" if by_kernel else "features"
        raise DataError(
            f"{dataset.name} has {given} {what}, but the model {model_name} was trained on {known}."
        )
    if not by_kernel and not quiet:
        note(
            f"{dataset.name} has features up to {given}, the model {model_name} up to {known}; "
            "the others count as in svm-predict."
        )
    deferred.widen(estimator, given)
    return given


def _columns_of(dataset: Dataset, estimator) -> Dataset:
    """Columns in the order of the model's, where both know their names."""
    wanted = getattr(estimator, "feature_names_in_", None)
    if wanted is None:
        return dataset
    del estimator.feature_names_in_  # the columns are in order; arrays have no names
    if dataset.feature_names is None or list(wanted) == list(dataset.feature_names):
        return dataset
    at = {name: column for column, name in enumerate(dataset.feature_names)}
    missing = [name for name in wanted if name not in at]
    if missing:
        raise DataError(f"{dataset.name}: has no column {missing[0]!r}, which the model needs.")
    if len(at) < len(dataset.feature_names) or len(set(wanted)) < len(wanted):
        raise DataError(f"{dataset.name}: two columns have the same name, so none can be chosen.")
    columns = [at[name] for name in wanted]
    return Dataset(dataset.X[:, columns], dataset.y, list(wanted), dataset.name, True)


def _of_width(X, width: int):
    """X with features that are zero up to that width."""
    if not sp.issparse(X) or X.shape[1] == width:
        return X
    return sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], width))


def answers(estimator, X, wanted: str | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Predictions and, if wanted, values of another method; in blocks if rows are made dense."""
    blocks: Iterable
    if estimator._sparse or not sp.issparse(X):
        blocks = [sp.csr_array(X) if estimator._sparse else X]
    else:  # the model takes dense rows alone
        size = max(1, _BLOCK_VALUES // X.shape[1])
        blocks = (X[at : at + size].toarray() for at in range(0, X.shape[0], size))
    labels, values = [], []
    for block in blocks:
        labels.append(estimator.predict(block))
        if wanted is not None:
            values.append(getattr(estimator, wanted)(block))
    return np.concatenate(labels), np.concatenate(values) if wanted is not None else None


def _lines(labels: np.ndarray, values: np.ndarray | None, classes: np.ndarray | None) -> str:
    """One line per sample; before probabilities, a line with their classes."""
    texts = [str(label) for label in labels.tolist()]
    if values is not None:
        table = values.reshape(len(texts), -1).tolist()
        texts = [f"{text} {' '.join(map(repr, row))}" for text, row in zip(texts, table)]
    if classes is not None:
        texts.insert(0, f"labels {' '.join(map(str, classes.tolist()))}")
    return "\n".join(texts) + "\n"
