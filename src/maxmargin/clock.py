"""Time that is spent on a problem, and not on the compiler."""

from __future__ import annotations

import threading
import time
from functools import cache


class _Compiler:
    """How long Numba has compiled, or loaded what it compiled before, in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at_work, self._since, self._seconds = 0, 0.0, 0.0

    def begins(self) -> None:
        with self._lock:
            if self._at_work == 0:
                self._since = time.perf_counter()
            self._at_work += 1

    def ends(self) -> None:
        with self._lock:
            if self._at_work == 0:
                return  # it was at work before anybody listened
            self._at_work -= 1
            if self._at_work == 0:
                self._seconds += time.perf_counter() - self._since

    def seconds(self) -> float:
        with self._lock:
            begun = time.perf_counter() - self._since if self._at_work else 0.0
            return self._seconds + begun


_compiler = _Compiler()


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
    return time.perf_counter() - compile_seconds()
