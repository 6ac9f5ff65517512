"""Prediction with a fitted model, whatever its formulation: a kernel expansion."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators.base import BaseSVM
from maxmargin.estimators.decision import decision_functions
from maxmargin.estimators.deferred import dask_collections, decisions, expansions, sklearn_models
from maxmargin.estimators.first_labels import first_labels
from maxmargin.estimators.inputs import validate_features
from maxmargin.estimators.multiclass import blocks_of_classes, coefficients_by_task
from maxmargin.kernels.cuda import card_array, check_on_card, to_card, use_card
from maxmargin.parallel import resolve_n_jobs, session
from maxmargin.report import FitReport
from maxmargin.sklearn_private import in_sparse_interface
from maxmargin.sparse_format import check_format, combined_rows

# Kernels whose decision values are sums of kernel values; a linear one has weights of the features.
_OF_KERNEL_VALUES = ("poly", "rbf", "sigmoid")


class KernelModel(BaseSVM):
    """Decision values Σ_s k(x, x_s) β_s + b, and the attributes that they are made of."""

    fit_report_: FitReport
    support_: np.ndarray
    support_vectors_: Any
    dual_coef_: Any
    intercept_: np.ndarray
    shape_fit_: tuple[int, ...]
    n_features_in_: int

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags

    @classmethod
    def from_sklearn(cls, fitted: Any) -> Self:
        """A fitted model with the parameters and solution of scikit-learn's class of this name."""
        return sklearn_models().from_sklearn(fitted, cls)

    def to_sklearn(self) -> Any:
        """The fitted model of scikit-learn with the parameters and solution of this one."""
        return sklearn_models().to_sklearn(self)

    def _lazily(self, method: str, X):
        check_is_fitted(self)
        return dask_collections().lazily(self, method, X)

    def _on_card(self, method, X):
        """The answer to samples on a GPU, there too unless it is made of words."""
        check_on_card(self.device)
        return to_card(method(card_array(X).get()))

    def _decisions(self, X, form: str) -> np.ndarray:
        """Values of all decision functions, in LIBSVM's sign and in that form."""
        X = self._validate_for_predict(X)
        if self.kernel in _OF_KERNEL_VALUES and use_card(
            self.device, float(X.shape[0]) * len(self.support_)
        ):
            return self._decisions_on_card(X, form)
        labels = first_labels(self, X, form) if form in ("votes", "largest") else None
        if labels is not None:
            return labels
        return decision_functions(self).evaluate(X, form, resolve_n_jobs(self.n_jobs))

    def _decisions_on_card(self, X, form: str) -> np.ndarray:
        model, n_classes = expansions(), len(self._n_support)
        kernel = model.KernelFunction(self.kernel, self._gamma, self.coef0, self.degree)
        values = model.decisions_on_card(
            kernel, X, self.support_vectors_,
            blocks_of_classes(self._dual_coef_, self._n_support, len(self._intercept_)),
            self._intercept_,
        )  # fmt: skip
        return np.concatenate([decisions().in_form(part, form, n_classes) for part in values])

    def _expansion(self, X, chosen, coefficients: np.ndarray) -> np.ndarray:
        """Kernel values with the support vectors `chosen`, times coefficients."""
        model = expansions()
        support = self.support_[chosen]
        with session(resolve_n_jobs(self.n_jobs)):
            if self.kernel == "precomputed":
                return model.precomputed_expansion(X, support, coefficients)
            if callable(self.kernel):
                return model.callable_expansion(self.kernel, X, self._X_fit, support, coefficients)
            kernel = model.KernelFunction(self.kernel, self._gamma, self.coef0, self.degree)
            vectors = self.support_vectors_[chosen]
            return model.kernel_expansion(kernel, X, vectors, coefficients)

    def _validate_for_predict(self, X):
        check_is_fitted(self)
        if self.support_.size != self._n_support.sum():
            raise ValueError(f"The internal representation of {type(self).__name__} was altered")
        if callable(self.kernel):
            if sp.issparse(X):
                check_format(X)
            return X
        X = validate_features(self, X, reset=False)
        if sp.issparse(X) and not self._sparse:
            raise ValueError(
                f"cannot use sparse input in {type(self).__name__!r} trained on dense data"
            )
        if self._sparse and not sp.issparse(X):
            X = sp.csr_array(X)
        if self.kernel == "precomputed" and X.shape[1] != self.shape_fit_[0]:
            raise ValueError(
                f"X.shape[1] = {X.shape[1]} should be equal to {self.shape_fit_[0]}, "
                "the number of samples at training time"
            )
        return X

    @property
    def n_support_(self):
        """Number of support vectors of each class; of a model without classes, of all."""
        if not hasattr(self, "_n_support"):
            raise AttributeError("n_support_ is not available before fit.")
        return self._n_support

    @property
    def fit_status_(self):
        """0 if training converged, else 1."""
        if not hasattr(self, "fit_report_"):
            raise AttributeError("fit_status_ is not available before fit.")
        return int(self.fit_report_.status != "converged")

    @property
    def coef_(self):
        """Weights of the features, where the kernel is linear."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        if not hasattr(self, "_n_support"):
            raise AttributeError("coef_ is not available before fit.")
        coefficients = coefficients_by_task(self._dual_coef_, self._n_support)
        coefficients = self._public_sign() * coefficients
        if self._sparse:
            coef = in_sparse_interface(combined_rows(coefficients, self.support_vectors_))
            coef.data.flags.writeable = False
        else:
            coef = coefficients @ self.support_vectors_
            coef.flags.writeable = False
        return coef

    def _public_sign(self) -> float:
        """Between the internal coefficients and the public ones."""
        return 1.0
