"""The link to the documentation that scikit-learn's HTML view of an estimator shows."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, metadata


class DocumentedMixin:
    """Links an estimator to its entry on the page of the API.

    The address of the site is the `Documentation` of the package's own metadata; without one
    there is no link.
    """

    _doc_link_module = "maxmargin"
    _doc_link_url_param_generator = None

    @property
    def _doc_link_template(self) -> str:
        address = documentation_address()
        return f"{address}/api.html#maxmargin.{{estimator_name}}" if address else ""


@cache
def documentation_address() -> str:
    """Where the documentation is published; empty if that is not known."""
    try:
        entries = metadata("maxmargin").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    addresses = dict(entry.split(", ", 1) for entry in entries)
    return addresses.get("Documentation", "").rstrip("/")
