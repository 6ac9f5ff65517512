"""From a user's X, y and weights to arrays that the rest can rely on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
import scipy.sparse as sp
from sklearn.utils import column_or_1d, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, validate_data

from maxmargin.estimators.multiclass import members_of_classes, pairs_of_classes
from maxmargin.kernels.cuda import card_array, check_on_card
from maxmargin.parallel import resolve_n_jobs, run_blocks, session, split
from maxmargin.sklearn_private import num_samples
from maxmargin.sparse_format import check_format, checked_csr
from maxmargin.warn import warn_user

# Compiled code counts features with 32 bits.
_MAX_SPARSE_FEATURES = 2**31 - 1
# Values that one thread checks at a time.
_VALUES_AT_ONCE = 2**20


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Validated training data.

    Attributes
    ----------
    X : dense array, CSR matrix, or whatever a callable kernel takes
    codes : class number of each sample, −1 where its weight is zero
    classes, class_weight : the classes, and the weight of each
    costs : C of each sample, all weights included
    sample_weights : the user's weights, None where they are all the same
    on_card : X as an array of CuPy, where it came from a GPU
    """

    X: object
    codes: np.ndarray
    classes: np.ndarray
    class_weight: np.ndarray
    costs: np.ndarray
    sample_weights: np.ndarray | None
    on_card: object = None

    @property
    def n(self) -> int:
        return len(self.codes)

    def layout(
        self, multi_class: str, by_class: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How the problems of a fit share its samples: order, bounds, problems.

        Samples in the order of groups, where each group begins and the last ends, and for each
        problem the class with label +1, its group, and the other group or −1. Groups are the
        classes, or all samples where there are two classes or each is against the rest;
        `by_class` makes the groups of two classes these classes, too.
        """
        everything, n_classes = np.flatnonzero(self.codes >= 0), len(self.classes)
        if not by_class and (n_classes == 2 or multi_class == "ovr"):
            positive = np.arange(1 if n_classes == 2 else n_classes)
            problems = np.stack([positive, 0 * positive, 0 * positive - 1], axis=1)
            return everything, np.array([0, len(everything)]), problems
        codes = self.codes[everything]
        order = everything[codes.argsort(kind="stable")]
        bounds = np.zeros(n_classes + 1, np.int64)
        np.cumsum(np.bincount(codes, minlength=n_classes), out=bounds[1:])
        first, second = pairs_of_classes(n_classes)
        return order, bounds, np.stack([first, first, second], axis=1)

    def class_pairs(self, tasks: Sequence) -> tuple[list[tuple[int, int]], list[np.ndarray]]:
        """The two classes of each task, and the members of each class; nothing one-vs-rest."""
        pairs = [(task.positive, task.negative) for task in tasks if task.negative is not None]
        return pairs, members_of_classes(self.codes, len(self.classes)) if pairs else []


def validate_training_data(estimator, X, y, sample_weight) -> TrainingData:
    """Check X, y and the weights for a fit of `estimator`."""
    on_card = card_array(X)
    if on_card is not None:
        check_on_card(estimator.device)
        X, y, sample_weight = (_to_host(values) for values in (on_card, y, sample_weight))
        return replace(validate_training_data(estimator, X, y, sample_weight), on_card=on_card)
    if callable(estimator.kernel):
        if sp.issparse(X):
            check_format(X)
        check_consistent_length(X, y)
        y = column_or_1d(y, warn=True)
    else:
        X, y = validate_features(estimator, X, y)
    classes, codes = _classes_of(y)
    if len(classes) < 2:
        raise ValueError(
            f"The number of classes has to be greater than one; got {len(classes)} class"
        )
    _check_square(estimator, X)
    class_weight = np.ones(len(classes))
    if sample_weight is None and estimator.class_weight is None:  # nothing to check
        costs = np.full(num_samples(X), float(estimator._cost))
        return TrainingData(X, codes, classes, class_weight, costs, None)
    if estimator.class_weight is not None:
        class_weight = class_weights(estimator.class_weight, classes, y)
    sample_weights = valid_weights(sample_weight, num_samples(X))
    weights = sample_weights * class_weight[codes]
    codes = np.where(weights > 0, codes, -1)
    _check_every_class_has_weight(estimator, codes, classes)
    uneven = np.ptp(sample_weights) > 0
    return TrainingData(
        X, codes, classes, class_weight, estimator._cost * weights,
        sample_weights if uneven else None,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class RegressionData:
    """Validated training data without classes.

    Attributes
    ----------
    X : dense array, CSR matrix, or whatever a callable kernel takes
    targets : what is to be predicted, in float64; None where there is nothing to predict
    costs : C of each sample, its weight included
    sample_weights : the user's weights, None where they are all the same
    on_card : X as an array of CuPy, where it came from a GPU
    """

    X: object
    targets: np.ndarray | None
    costs: np.ndarray
    sample_weights: np.ndarray | None
    on_card: object = None

    @property
    def n(self) -> int:
        return len(self.costs)


def validate_regression_data(estimator, X, y, sample_weight) -> RegressionData:
    """Check X, y and the weights for a fit without classes; y may be "no_validation"."""
    on_card = card_array(X)
    if on_card is not None:
        check_on_card(estimator.device)
        X, y, sample_weight = (_to_host(values) for values in (on_card, y, sample_weight))
        return replace(validate_regression_data(estimator, X, y, sample_weight), on_card=on_card)
    targets, has_targets = None, not isinstance(y, str)
    if callable(estimator.kernel):
        if has_targets:
            check_consistent_length(X, y)
            targets = column_or_1d(y, warn=True)
    elif has_targets:
        X, targets = validate_features(estimator, X, y)
    else:
        X = validate_features(estimator, X)
    _check_square(estimator, X)
    weights = valid_weights(sample_weight, num_samples(X))
    if not (weights > 0).any():
        raise ValueError("Invalid input - all samples have zero or negative weights.")
    uneven = sample_weight is not None and np.ptp(weights) > 0
    if targets is not None:
        targets = targets.astype(np.float64, copy=False)
    costs = costs_of(estimator._cost, weights)
    return RegressionData(X, targets, costs, weights if uneven else None)


def costs_of(C: float, weights: np.ndarray) -> np.ndarray:
    """C of each sample, its weight included; 0 without weight, even if C is infinite."""
    return C * weights if np.isfinite(C) else np.where(weights > 0, np.inf, 0.0)


def _check_square(estimator, X) -> None:
    if estimator.kernel == "precomputed" and X.shape[0] != X.shape[1]:
        raise ValueError(
            "Precomputed matrix must be a square matrix. "
            f"Input is a {X.shape[0]}x{X.shape[1]} matrix."
        )


def _to_host(values):
    on_card = card_array(values)
    return values if on_card is None else on_card.get()


def _classes_of(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The classes, and the class number of each sample; an error unless these are class labels.

    scikit-learn's check takes longer than a small fit, so it is skipped where it cannot fail.
    """
    if y.dtype.kind not in "iubUf":
        check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    with np.errstate(invalid="ignore"):
        whole = y.dtype.kind != "f" or not (np.fmod(classes, 1.0) != 0).any()
    if not (whole and 2 * len(classes) <= len(y)):
        check_classification_targets(y)
    return classes, codes


def is_dask_collection(X) -> bool:
    """Whether X is a Dask collection, by Dask's own protocol and without importing it."""
    return hasattr(X, "__dask_graph__")


def validate_features(estimator, X, y="no_validation", *, reset: bool = True):
    """scikit-learn's checks of X (and y); numbers of up to 64 bits stay as they are."""
    X, y = _in_numpy(X), _in_numpy(y)
    if sp.issparse(X):
        if estimator.kernel == "precomputed":
            raise TypeError("Sparse precomputed kernels are not supported.")
        X = valid_csr(X)
    X = _within_64_bits(X)
    if _is_plain_and_finite(estimator, X, y, reset):
        if reset:
            estimator.n_features_in_ = X.shape[1]
        return X if isinstance(y, str) else (X, y)
    checked = validate_data(
        estimator, X, y, reset=reset, dtype="numeric", accept_sparse="csr", accept_large_sparse=True
    )
    X, y = checked if isinstance(checked, tuple) else (checked, None)
    if X.dtype.kind not in "fiub":
        X = X.astype(np.float64)
    return (X, y) if y is not None else X


def _in_numpy(values):
    """An array of another library in main memory as one of NumPy, on which all solvers work.

    PyTorch, array-api-strict and JAX say by DLPack's protocol that they are arrays; data frames
    do not, and keep the names of their columns.
    """
    if hasattr(values, "__dlpack__") and not isinstance(values, np.ndarray):
        return np.asarray(values)
    return values


def valid_csr(X):
    """Any sparse matrix as a valid CSR matrix whose rows name each feature once, in order."""
    X = checked_csr(X)
    if X.shape[1] > _MAX_SPARSE_FEATURES:
        raise ValueError(
            f"X has {X.shape[1]} features; sparse data can have at most {_MAX_SPARSE_FEATURES}."
        )
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _within_64_bits(X):
    """Numbers of more than 64 bits as float64, in which kernels are computed."""
    if getattr(X, "dtype", None) == np.longdouble and np.longdouble != np.float64:
        with np.errstate(over="ignore"):  # scikit-learn's checks complain about infinity
            return X.astype(np.float64)
    return X


def _is_plain_and_finite(estimator, X, y, reset: bool) -> bool:
    """Whether these are plain arrays of finite numbers, which pass scikit-learn's checks.

    The checks look for data frames, other array types and feature names, which takes longer
    than training or predicting a hundred samples.
    """
    if type(X) is not np.ndarray or X.ndim != 2 or X.dtype.char not in "fd" or X.size == 0:
        return False
    if hasattr(estimator, "feature_names_in_"):
        return False
    if not reset and X.shape[1] != estimator.n_features_in_:
        return False
    n_jobs = getattr(estimator, "n_jobs", None)
    if isinstance(y, str):  # "no_validation"
        return _finite(X, n_jobs)
    if type(y) is not np.ndarray or y.shape != X.shape[:1]:
        return False
    if not (y.dtype.kind in "iub" or y.dtype.char in "fd"):
        return False
    return _finite(X, n_jobs) and _finite(y, n_jobs)


def _finite(values: np.ndarray, n_jobs) -> bool:
    """Whether all values are finite, and their sum as well; of many values by blocks of rows."""
    if values.size <= _VALUES_AT_ONCE:
        return _finite_sum(values)
    with session(resolve_n_jobs(n_jobs)):
        blocks = split(len(values), max(1, _VALUES_AT_ONCE * len(values) // values.size))
        return all(run_blocks(lambda rows: _finite_sum(values[rows]), blocks))


def _finite_sum(values: np.ndarray) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()))


def class_weights(class_weight, classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The weight of each class; scikit-learn checks the classes, but not the weights."""
    if isinstance(class_weight, dict):
        for label, weight in class_weight.items():
            if not isinstance(weight, Real) or not np.isfinite(float(weight)):
                raise ValueError(
                    f"class_weight must hold finite numbers, but that of class {label!r} is "
                    f"{weight!r}."
                )
    return compute_class_weight(class_weight, classes=classes, y=y)


def valid_weights(sample_weight, n_samples: int) -> np.ndarray:
    """The user's weights as an array; negative ones become zero, as in scikit-learn."""
    if sample_weight is None:
        return np.ones(n_samples)
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(n_samples, float(weights))
    if weights.shape != (n_samples,):
        raise ValueError(
            f"sample_weight has shape {weights.shape}, but X has {n_samples} samples: "
            f"it must have shape ({n_samples},)."
        )
    if not np.isfinite(weights).all():
        raise ValueError("Input sample_weight contains NaN or infinity; weights must be finite.")
    negative = int((weights < 0).sum())
    if negative and (weights > 0).any():
        warn_user(
            f"{negative} of {n_samples} sample weights are negative; as in scikit-learn's SVC, "
            "these samples take no part in the fit.",
            UserWarning,
        )
    return np.maximum(weights, 0.0)


def _check_every_class_has_weight(estimator, codes: np.ndarray, classes: np.ndarray) -> None:
    present = np.bincount(codes[codes >= 0], minlength=len(classes)) > 0
    if present.all():
        return
    if not present.any():
        raise ValueError("Invalid input - all samples have zero or negative weights.")
    if present.sum() == 1:
        infeasible = "specified nu is infeasible: " if hasattr(estimator, "nu") else ""
        raise ValueError(
            f"{infeasible}Invalid input - all samples with positive weights belong to the same "
            f"class: {classes[present][0]!r}."
        )
    raise ValueError(
        f"All samples of class {classes[~present][0]!r} have zero or negative weights; "
        "every class needs at least one sample with a positive weight."
    )
