"""Options that several commands share: their names, LIBSVM's letters, their help."""

from __future__ import annotations

from typing import Annotated

import typer

from maxmargin.io.files import DataError

KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")  # in the order of LIBSVM's -t
SVM_TYPES = ("c_svc", "nu_svc", "one_class", "epsilon_svr", "nu_svr")  # in the order of its -s

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="LIBSVM text (- is standard input), .csv, .parquet, .npz, .npy; also .gz, .bz2, .xz.",
    ),
]
Label = Annotated[
    str | None,
    typer.Option("--label", metavar="COLUMN", help="CSV, Parquet: the column with the labels."),
]
Cost = Annotated[
    float | None,
    typer.Option(
        "--C", "-c", metavar="C", show_default="1.0",
        help="The price of a margin violation; of an error, in regression.",
    ),
]  # fmt: skip
Nu = Annotated[
    float | None,
    typer.Option(
        "--nu", "-n", metavar="NU", show_default="0.5",
        help="nu_svc, one_class, nu_svr: the part of samples that may be on the wrong side.",
    ),
]  # fmt: skip
Epsilon = Annotated[
    float | None,
    typer.Option(
        "--epsilon", "-p", metavar="X", show_default="0.1",
        help="epsilon_svr: errors up to this size cost nothing.",
    ),
]  # fmt: skip
Gamma = Annotated[
    str,
    typer.Option(
        "--gamma", "-g", metavar="GAMMA",
        help="A number; scale, which follows the spread of the data; auto or 0 for LIBSVM's "
        "1/features.",
    ),
]  # fmt: skip
SvmType = Annotated[
    str,
    typer.Option(
        "--svm-type", "-s", metavar="TYPE",
        help="c_svc, nu_svc, one_class, epsilon_svr, nu_svr, or LIBSVM's 0 to 4.",
    ),
]  # fmt: skip
Kernel = Annotated[
    str,
    typer.Option(
        "--kernel", "-t", metavar="KERNEL",
        help="linear, poly, rbf, sigmoid, precomputed, or LIBSVM's 0 to 4.",
    ),
]  # fmt: skip
Degree = Annotated[int, typer.Option("--degree", "-d", metavar="N", help="Degree of poly.")]
Coef0 = Annotated[
    float, typer.Option("--coef0", "-r", metavar="X", help="Constant of poly and sigmoid.")
]
Weights = Annotated[
    list[str] | None,
    typer.Option(
        "--weight", "-w", metavar="LABEL=FACTOR",
        help="Factor on C for a class, or: balanced. LIBSVM's -wLABEL FACTOR works too.",
    ),
]  # fmt: skip
Tolerance = Annotated[
    float,
    typer.Option("--tol", "-e", metavar="X", help="The KKT violation at which training stops."),
]
CacheSize = Annotated[
    str,
    typer.Option(
        "--cache-size", "-m", metavar="MB", help="Memory for kernel values in MB, or auto."
    ),
]
Shrinking = Annotated[
    int,
    typer.Option(
        "--shrinking", "-h", metavar="0|1", min=0, max=1,
        help="Whether solvers leave samples out that seem to stay at a bound.",
    ),
]  # fmt: skip
Folds = Annotated[
    int | None,
    typer.Option(
        "--folds", "-v", metavar="N", min=2,
        help="Cross-validate with N folds instead; no model is written.",
    ),
]  # fmt: skip
MultiClass = Annotated[
    str | None,
    typer.Option(
        "--multi-class", metavar="WAY", show_default="ovo",
        help="More than two classes: ovo trains each pair, ovr each against the rest.",
    ),
]  # fmt: skip
MaxIter = Annotated[
    int, typer.Option("--max-iter", metavar="N", help="Limit on iterations; -1 for none.")
]
TimeLimit = Annotated[
    float | None,
    typer.Option("--time-limit", metavar="SECONDS", help="Limit on the time of training."),
]
Probability = Annotated[
    int,
    typer.Option(
        "--probability", "-b", metavar="0|1", min=0, max=1,
        help="Whether the model gets probabilities of classes, or the noise of a regression.",
    ),
]  # fmt: skip
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="For folds and random choices.")]
Report = Annotated[
    str | None, typer.Option("--report", metavar="HTML", help="Write a page about the fit.")
]
SolverName = Annotated[
    str, typer.Option("--solver", metavar="NAME", help="How to train; auto chooses for you.")
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", metavar="N", help="Cores; all by default.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


def gamma_value(text: str) -> float | str:
    """A number, "scale" or "auto"; LIBSVM's 0 means 1/features."""
    value = number_or(text, ("scale", "auto"), "--gamma")
    return "auto" if value == 0 else value


def kernel_name(text: str) -> str:
    """The kernel by its name or by LIBSVM's number."""
    return _numbered(text, KERNELS, "--kernel")


def svm_type_name(text: str) -> str:
    """The kind of SVM by LIBSVM's name or number."""
    return _numbered(text, SVM_TYPES, "--svm-type")


def _numbered(text: str, names: tuple[str, ...], option: str) -> str:
    if text in names:
        return text
    if text.isdecimal() and len(text) < 3 and int(text) < len(names):
        return names[int(text)]
    last = len(names) - 1
    raise DataError(f"{option} must be one of {', '.join(names)} or 0 to {last}, not {text!r}.")


def number_or(text: str, words: tuple[str, ...], option: str) -> float | str:
    """A number, or one of the words."""
    if text in words:
        return text
    try:
        return float(text)
    except ValueError:
        choices = " or ".join(words)
        raise DataError(f"{option} must be a number or {choices}, not {text!r}.") from None


def class_weights(texts: list[str] | None, classes) -> dict | str | None:
    """``--weight`` as scikit-learn's class_weight, with labels of the data's own type."""
    if not texts:
        return None
    if texts == ["balanced"]:
        return "balanced"
    by_text = {str(label): label for label in classes.tolist()}
    weights = {}
    for text in texts:
        label, _, factor = text.rpartition("=")
        label = label.removeprefix("+")
        if label not in by_text:
            known = ", ".join(list(by_text)[:8])
            raise DataError(f"--weight: there is no class {label!r}; the classes are {known}.")
        try:
            weights[by_text[label]] = float(factor)
        except ValueError:
            raise DataError(f"--weight must be LABEL=FACTOR, not {text!r}.") from None
        if weights[by_text[label]] < 0:
            raise DataError(f"--weight must not be negative, not {text!r}.")
    return weights
