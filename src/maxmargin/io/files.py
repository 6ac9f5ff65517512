"""Files: opened with any of the known compressions, and written whole or not at all."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
STANDARD_STREAM = "-"
_MAX_REASON = 120  # characters of another library's message

# What the decompressors raise when a file is cut short or is not what its name says.
_BROKEN = (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error)


class DataError(ValueError):
    """A file that cannot be used; the message names the file and, where it can, the line."""


@contextmanager
def errors_of(name: str) -> Iterator[None]:
    """A ValueError about what a file holds becomes a `DataError` that names the file."""
    try:
        yield
    except ValueError as error:
        raise DataError(f"{name}: {error}") from error


def brief(error: BaseException, length: int = _MAX_REASON) -> str:
    """The message of an error, without a full stop and short enough to quote in a sentence."""
    text = (str(error) or type(error).__name__).partition("\n")[0].rstrip(". ")
    return text if len(text) <= length else text[:length] + "…"


def display_name(path: str | os.PathLike) -> str:
    """The name of the file in messages."""
    return "standard input" if str(path) == STANDARD_STREAM else str(path)


def format_suffix(path: str | os.PathLike) -> str:
    """The suffix of the format, in lower case and without that of a compression."""
    path = Path(path)
    if path.suffix.lower() in _OPENERS:
        path = path.with_suffix("")
    return path.suffix.lower()


@contextmanager
def open_binary(path: str | os.PathLike) -> Iterator[IO[bytes]]:
    """Open a file for reading: "-" is standard input; .gz, .bz2 and .xz are unpacked.

    Standard input is read to its end first, so that a reader may go back to the
    start of what it got.
    """
    name = display_name(path)
    try:
        if str(path) == STANDARD_STREAM:
            yield io.BytesIO(sys.stdin.buffer.read())
            return
        opener = _OPENERS.get(Path(path).suffix.lower(), open)
        with opener(path, "rb") as file:
            yield file
    except _BROKEN as error:
        raise DataError(f"{name}: cannot be unpacked ({brief(error)}).") from error
    except OSError as error:
        # bz2 says that a file is not its own without an error number.
        if error.errno is None:
            raise DataError(f"{name}: cannot be unpacked ({brief(error)}).") from error
        raise DataError(f"{name}: {error.strerror}.") from error


@contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears whole or not at all.

    The bytes go to a file beside it, which takes its name once all of them are on
    the disk. If anything fails, the old file is still there and the new one is not.
    .gz, .bz2 and .xz are packed; "-" is standard output.
    """
    try:
        if str(path) == STANDARD_STREAM:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        elif _is_special(Path(path)):
            with open(path, "wb") as stream:  # a device or a pipe cannot be replaced
                yield stream
        else:
            with _written_beside(Path(os.path.realpath(path))) as file:
                yield file
    except OSError as error:  # of a full disk without a file name, or with the temporary one
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write a text as `atomic_write` does, in UTF-8."""
    with atomic_write(path) as file:
        file.write(text.encode())


@contextmanager
def _written_beside(target: Path) -> Iterator[IO[bytes]]:
    opener = _OPENERS.get(target.suffix.lower())
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as raw:
            if opener is None:
                yield raw
            else:
                with opener(raw, "wb") as packed:
                    yield packed
            raw.flush()
            os.fsync(raw.fileno())
        os.chmod(temporary, _mode_for(target))
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _is_special(path: Path) -> bool:
    """Whether it is a device, a pipe or a folder, or a name for a stream such as /dev/stdout."""
    return path.is_relative_to("/dev") or (path.exists() and not path.is_file())


def _mode_for(target: Path) -> int:
    """Permissions of the file that is replaced, or of a new file."""
    if target.exists():
        return target.stat().st_mode & 0o777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
