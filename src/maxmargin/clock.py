"""Time that is spent on a problem, and not on the compiler, which one process at a time runs."""

from __future__ import annotations

import os
import tempfile
import threading
import time
import zlib
from functools import cache

# Seconds that a process waits for another one's compiler, and between two looks.
_LONGEST_WAIT = 120.0
_INTERVAL = 0.02


class Turn:
    """Processes that share Numba's cache compile one after the other.

    Processes that start together would all compile the same code. The first one does it, and the
    others find it in the cache when their turn comes. A process that has waited too long, or has
    no place for a lock, goes ahead: then code is compiled twice, and nothing else is lost.
    """

    def __init__(self) -> None:
        user = os.getuid() if hasattr(os, "getuid") else 0
        cache = os.environ.get("NUMBA_CACHE_DIR") or os.path.dirname(__file__)
        name = f"maxmargin-compiler-{user}-{zlib.crc32(os.path.abspath(cache).encode()):08x}.lock"
        self._path = os.path.join(tempfile.gettempdir(), name)
        self._file: int | None = None

    def wait(self) -> None:
        try:
            import fcntl

            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except (ImportError, OSError):
            return
        until = time.perf_counter() + _LONGEST_WAIT
        while time.perf_counter() < until:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                time.sleep(_INTERVAL)
            else:
                self._file = file
                return
        os.close(file)

    def over(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_UN)  # the end of a process does it, too
            os.close(file)

    def forget(self) -> None:
        """In a forked process, which has no part in its parent's turn."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


class _Compiler:
    """How long Numba has compiled, or loaded what it compiled before, in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at_work, self._since, self._seconds = 0, 0.0, 0.0
        self._turn = Turn()

    def begins(self) -> None:
        with self._lock:
            first = self._at_work == 0
            if first:
                self._since = time.perf_counter()
            self._at_work += 1
        if first:
            self._turn.wait()

    def ends(self) -> None:
        with self._lock:
            if self._at_work == 0:
                return  # it was at work before this listener was installed
            self._at_work -= 1
            last = self._at_work == 0
            if last:
                self._seconds += time.perf_counter() - self._since
        if last:
            self._turn.over()

    def forget(self) -> None:
        """In a forked process, in which the threads of its parent are not at work."""
        self._lock = threading.Lock()
        self._at_work = 0
        self._turn.forget()

    def times(self) -> tuple[float, float]:
        """What the clock says, and the seconds of the compiler until then."""
        with self._lock:
            now = time.perf_counter()
            return now, self._seconds + (now - self._since if self._at_work else 0.0)

    def seconds(self) -> float:
        return self.times()[1]


_compiler = _Compiler()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _compiler.forget())


@cache
def watch_compiler() -> None:
    """Listen to Numba from here on; loads it."""
    from numba.core import event

    class Watcher(event.Listener):
        def on_start(self, event) -> None:
            _compiler.begins()

        def on_end(self, event) -> None:
            _compiler.ends()

    event.register("numba:compiler_lock", Watcher())


def compile_seconds() -> float:
    """Seconds of this process that went into compiled code, made or loaded."""
    return _compiler.seconds()


def working_time() -> float:
    """Like `time.perf_counter()`, but stands still while the compiler is at work."""
    now, of_compiler = _compiler.times()
    return now - of_compiler
