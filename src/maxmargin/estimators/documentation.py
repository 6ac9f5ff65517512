"""Documentation of estimators: parameters described once, and a link to the API page."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from inspect import cleandoc
from typing import TypeVar

_ENTRY = re.compile(r"^(\w+) : .*\n(?:    .*\n)+", re.MULTILINE)
_NAMES = re.compile(r"^(\w+(?:, \w+)+)\n    As of :class:`\w+`\.\n", re.MULTILINE)
_Class = TypeVar("_Class", bound=type)


def with_parameters_of(source: type) -> Callable[[_Class], _Class]:
    """A class decorator: parameters "as of" a class get their descriptions from that class.

    Each is thus written once, while `help` and tooltips show it for every estimator.
    """
    entries = {entry[1]: entry[0] for entry in _ENTRY.finditer(cleandoc(source.__doc__ or ""))}

    def described(cls: _Class) -> _Class:
        cls.__doc__ = _NAMES.sub(
            lambda names: "".join(entries[name] for name in names[1].split(", ")),
            cleandoc(cls.__doc__ or ""),
        )
        return cls

    return described


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
