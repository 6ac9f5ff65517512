"""The SVM that a model file keeps of a pipeline, a search or a calibrated model."""

from __future__ import annotations

from maxmargin.estimators.unwrap import unwrap


def bare_model(model):
    """The SVM of a model without wrappers that a file would lose.

    Of a search its best model is saved, which gives the same answers. Files hold an SVM alone,
    so transformers and calibrators are refused in one sentence.
    """
    found = unwrap(model)
    if not found.before and not found.after:
        return found.svm
    parts = " and ".join(type(part).__name__ for part in (*found.before, *found.after))
    raise TypeError(
        f"A model file holds an SVM alone, and this {type(model).__name__} also has {parts}: "
        'save it whole with joblib.dump(model, "model.joblib"), or give save_model the SVM '
        "in it and apply the rest yourself."
    )
