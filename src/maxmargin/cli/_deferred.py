"""Parts of the package that bring scikit-learn or Numba, imported when a command uses them.

Their start takes longer than help, a complaint about an option, or a whole ``scale``. Public names
come late by themselves: ``maxmargin.SVC``, ``maxmargin.io.load_model``.
"""

from __future__ import annotations

from maxmargin.late_names import late_names

__getattr__ = late_names(
    __name__,
    {
        "LocalSource": "maxmargin.training",
        "SVM_TYPES": "maxmargin.io.libsvm_model",
        "binary_tasks": "maxmargin.estimators.multiclass",
        "certify": "maxmargin.optimality",
        "check_can_save": "maxmargin.io.model_file",
        "coefficients_by_task": "maxmargin.estimators.multiclass",
        "counting": "maxmargin.cli._progress",
        "fit_noise": "maxmargin.estimators.noise",
        "fit_sigmoids": "maxmargin.estimators.pair_sigmoids",
        "html_report": "maxmargin.html_report",
        "safe_split": "maxmargin.sklearn_private",
        "validate_training_data": "maxmargin.estimators.inputs",
        "warm_up": "maxmargin.warmup",
        "watched": "maxmargin.cli._progress",
        "widen": "maxmargin.estimators.fitted",
    },
)
