"""The requirements on the parts of a file, written as data and checked in one place.

A part is described by one of the classes below. ``part.check(value, name, sizes)`` raises
a ValueError of one sentence if a value does not fit, such as "dual_coef must have shape
(1, 40), not (1, 38)". `sizes` gives numbers to the names that shapes are written with.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

_KINDS = {"f": "numbers", "iu": "whole numbers", "U": "text", "biufU": "numbers or text"}
_MAX_WHOLE = 2**63 - 1  # the largest 64-bit integer
_SHOWN = 60  # characters of a wrong value that a message quotes


class Part(Protocol):
    """Anything that can be described."""

    def check(self, value: Any, name: str, sizes: Mapping[str, int]) -> None:
        """Raise a ValueError of one sentence unless the value fits."""


@dataclass(frozen=True)
class Array:
    """A NumPy array.

    Attributes
    ----------
    kinds : the kinds of its type, as NumPy writes them ("iu" for whole numbers)
    shape : a number, or a name whose number `sizes` gives, for each dimension
    at_least, at_most : limits of its numbers, which must be finite in any case
    distinct : whether no value may occur twice
    """

    kinds: str
    shape: tuple[int | str, ...]
    at_least: float = -math.inf
    at_most: float = math.inf
    distinct: bool = False

    def check(self, value: Any, name: str, sizes: Mapping[str, int]) -> None:
        if not isinstance(value, np.ndarray) or value.dtype.kind not in self.kinds:
            raise ValueError(f"{name} must hold {_KINDS[self.kinds]}, not {_type_of(value)}.")
        if value.dtype.kind == "f" and value.dtype.itemsize > 8:
            raise ValueError(f"{name} must have numbers of at most 64 bits, not {value.dtype}.")
        shape = tuple(sizes[size] if isinstance(size, str) else size for size in self.shape)
        if value.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, not {value.shape}.")
        if value.dtype.kind in "iuf" and value.size:
            self._check_numbers(value, name)
        if self.distinct and len(np.unique(value)) < len(value):
            raise ValueError(f"{name} holds the same value twice.")

    def _check_numbers(self, value: np.ndarray, name: str) -> None:
        if not np.isfinite(value).all():
            raise ValueError(f"{name} holds values that are missing or infinite.")
        for found, fits in (
            (value.min(), value.min() >= self.at_least),
            (value.max(), value.max() <= self.at_most),
        ):
            if not fits:
                limits = _limits(self.at_least, self.at_most)
                raise ValueError(f"{name} must be {limits}, not {found}.")


@dataclass(frozen=True)
class Number:
    """A finite number of JSON; with `whole` an integer, with `finite=False` any number."""

    whole: bool = False
    at_least: float = -math.inf
    at_most: float = math.inf
    finite: bool = True

    def check(self, value: Any, name: str, sizes: Mapping[str, int]) -> None:
        kinds = int if self.whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds):
            what = "a whole number" if self.whole else "a number"
            raise ValueError(f"{name} must be {what}, not {shown(value)}.")
        if isinstance(value, int) and abs(value) > _MAX_WHOLE:
            raise ValueError(f"{name} must be less than 2⁶³.")
        if not math.isfinite(value):
            if self.finite:
                raise ValueError(f"{name} must be finite, not {value}.")
            return
        if not self.at_least <= value <= self.at_most:
            raise ValueError(f"{name} must be {_limits(self.at_least, self.at_most)}, not {value}.")


@dataclass(frozen=True)
class Text:
    """Text, one of `options` where there are any."""

    options: Sequence[str] = ()

    def check(self, value: Any, name: str, sizes: Mapping[str, int]) -> None:
        if not isinstance(value, str):
            raise ValueError(f"{name} must be text, not {shown(value)}.")
        if self.options and value not in self.options:
            known = ", ".join(self.options)
            raise ValueError(f"{name} must be one of {known}, not {shown(value)}.")


@dataclass(frozen=True)
class Truth:
    """True or false."""

    def check(self, value: Any, name: str, sizes: Mapping[str, int]) -> None:
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false, not {shown(value)}.")


@dataclass(frozen=True)
class Anything:
    """Whatever JSON can hold."""

    def check(self, value: Any, name: str, sizes: Mapping[str, int]) -> None:
        pass


@dataclass(frozen=True)
class OneOf:
    """A value that fits one of several parts."""

    parts: tuple[Part, ...]

    def check(self, value: Any, name: str, sizes: Mapping[str, int]) -> None:
        problem: ValueError | None = None
        for part in self.parts:
            try:
                part.check(value, name, sizes)
                return
            except ValueError as error:
                problem = problem or error
        assert problem is not None
        raise problem


@dataclass(frozen=True)
class Nothing:
    """JSON's null."""

    def check(self, value: Any, name: str, sizes: Mapping[str, int]) -> None:
        if value is not None:
            raise ValueError(f"{name} must be null, not {shown(value)}.")


@dataclass(frozen=True)
class Items:
    """A list of parts of one kind."""

    part: Part
    length: int | str | None = None

    def check(self, value: Any, name: str, sizes: Mapping[str, int]) -> None:
        if not isinstance(value, list):
            raise ValueError(f"{name} must be a list, not {shown(value)}.")
        length = sizes[self.length] if isinstance(self.length, str) else self.length
        if length is not None and len(value) != length:
            raise ValueError(f"{name} must have {length} entries, not {len(value)}.")
        for at, entry in enumerate(value):
            self.part.check(entry, f"{name}[{at}]", sizes)


@dataclass(frozen=True)
class Record:
    """Named parts: `parts` must be there, `optional` ones may be, others only as `extra`."""

    parts: Mapping[str, Part]
    optional: Mapping[str, Part] = field(default_factory=dict)
    extra: Part | None = None

    def check(self, value: Any, name: str, sizes: Mapping[str, int]) -> None:
        if not isinstance(value, dict):
            raise ValueError(f"{name} must be a record of named values, not {shown(value)}.")
        missing = [part for part in self.parts if part not in value]
        if missing:
            raise ValueError(f"{missing[0]} is missing{f' in {name}' if name else ''}.")
        for part, entry in value.items():
            described = self.parts.get(part) or self.optional.get(part) or self.extra
            if described is None:
                raise ValueError(f"{shown(part)} is not known{f' in {name}' if name else ''}.")
            described.check(entry, f"{name}.{part}" if name else part, sizes)


_BY_ANNOTATION: dict[str, Part] = {
    "str": Text(),
    "bool": Truth(),
    "int": Number(whole=True, at_least=0),
    "float": Number(finite=False),
}


def record_of(dataclass_type: type, special: Mapping[str, Part]) -> Record:
    """The description of a dataclass as a record of its fields.

    Fields with a default may be missing. `special` describes fields whose annotation says too
    little.
    """
    needed: dict[str, Part] = {}
    optional: dict[str, Part] = {}
    for one in dataclasses.fields(dataclass_type):
        part = special.get(one.name) or _BY_ANNOTATION.get(str(one.type), Anything())
        has_default = (one.default, one.default_factory) != (dataclasses.MISSING,) * 2
        (optional if has_default else needed)[one.name] = part
    return Record(needed, optional)


def shown(value: Any) -> str:
    """A wrong value in a sentence: short, and on one line."""
    if isinstance(value, dict | list):
        return "a record" if isinstance(value, dict) else "a list"
    text = "null" if value is None else repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _type_of(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return shown(value)
    return f"{value.dtype.name if value.dtype.kind != 'U' else 'text'} of shape {value.shape}"


def _limits(low: float, high: float) -> str:
    if low == -math.inf:
        return f"at most {high:g}"
    return f"at least {low:g}" if high == math.inf else f"from {low:g} to {high:.16g}"
