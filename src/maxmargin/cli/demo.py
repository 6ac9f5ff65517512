"""``maxmargin demo``: a fit to look at, on data that comes with scikit-learn."""

from __future__ import annotations

import maxmargin
from maxmargin.cli import _deferred as deferred
from maxmargin.cli import _options as options
from maxmargin.cli._output import emit, print_json, report_values
from maxmargin.io.files import write_text


def demo(
    report: options.Report = None,
    json: options.Json = False,
) -> None:
    """Train on data that comes with scikit-learn, and print the report."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    cancer = load_breast_cancer()
    y = cancer.target_names[cancer.target]
    X_train, X_test, y_train, y_test = train_test_split(cancer.data, y, random_state=0)
    scaler = StandardScaler().fit(X_train)
    X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
    model = maxmargin.SVC(C=10).fit(X_train, y_train)
    accuracy = model.score(X_test, y_test)
    if report is not None:
        page = deferred.html_report(
            model, X_test, y_test, title="Breast cancer", evaluated_on="held-out samples"
        )
        write_text(report, page)
    if json:
        print_json({"accuracy": accuracy, **report_values(model.fit_report_)})
        return
    emit(str(model.fit_report_))
    emit(f"accuracy on {len(y_test)} held-out samples: {accuracy:.4f}")
    if report is not None:
        emit(f"report: {report}")
