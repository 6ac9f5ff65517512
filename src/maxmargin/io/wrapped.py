"""What a model file keeps of a pipeline, a search or a calibrated model."""

from __future__ import annotations

from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators.prediction import KernelModel


def bare_model(model):
    """The SVM of a model around which nothing is wrapped that a file would lose.

    A search answers as its best model does, which is saved. Files hold an SVM alone, so
    transformers and calibrators are refused in one sentence.
    """
    if isinstance(model, KernelModel):
        check_is_fitted(model)
        return model
    # What else can be wrapped around a model takes longer to import than most commands do.
    from maxmargin.estimators.unwrap import unwrap

    found = unwrap(model)
    if not found.before and not found.after:
        return found.svm
    parts = " and ".join(type(part).__name__ for part in (*found.before, *found.after))
    raise TypeError(
        f"A model file holds an SVM alone, and this {type(model).__name__} also has {parts}: "
        'save it whole with joblib.dump(model, "model.joblib"), or give save_model the SVM '
        "in it and apply the rest yourself."
    )
