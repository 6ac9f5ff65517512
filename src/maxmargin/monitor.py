"""What watches a solve: its history, its limits, the user's wish to stop."""

from __future__ import annotations

import bisect
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import numpy as np

from maxmargin.clock import working_time
from maxmargin.solution import Status

# Modules of scikit-learn that wrap the `fit` of every estimator.
_AROUND_EVERY_FIT = ("sklearn.base", "sklearn.callback")
# Iterations where there is no limit.
_NO_LIMIT = int(np.iinfo(np.int64).max)
# Seconds between two updates, and between two lines of `verbose`.
_UPDATE_SECONDS = 0.1
# How many times the seconds that a state took pass before the next: β of many samples is copied.
_PAUSE_FOR_EACH = 30.0
VERBOSE_SECONDS = 1.0
# Numbers that compiled code may touch between two calls of a monitor: about 0.05 s.
WORK_PER_CALL = 50_000_000


@dataclass(frozen=True)
class Progress:
    """One line of a solve's history.

    Attributes
    ----------
    seconds, n_iter, n_support : time and iterations so far, samples with β ≠ 0
    kkt_violation, objective : of the present β
    estimated : whether these two are estimates, as during a solve: they follow from the running
        gradient, whose error with float32 kernel rows is some per cent at a large C. The last
        line of a report comes from the certificate.
    n_settled : samples that are shrunk at present: at a bound, and far from leaving it; 0 where
        the solver does not shrink
    seconds_left : estimated time to the end, from the rate at which the violation fell or by
        the time limit; infinite while neither is known
    """

    seconds: float
    n_iter: int
    kkt_violation: float
    objective: float
    n_support: int
    estimated: bool = True
    n_settled: int = 0
    seconds_left: float = math.inf


class Pace:
    """How fast the violation of a solve falls, and so when it will reach its tolerance.

    It falls by about equal factors in equal times. Its rate is that of the second half of the
    time so far: solves begin faster than they end.
    """

    def __init__(self, tol: float):
        self._tol = tol
        self._seconds: list[float] = []
        self._lowest: list[float] = []

    def seconds_left(self, seconds: float, violation: float) -> float:
        """The estimate at that time, with that violation; infinite where there is no rate yet."""
        lowest = min(violation, self._lowest[-1]) if self._lowest else violation
        self._seconds.append(seconds)
        self._lowest.append(lowest)
        if lowest <= self._tol:
            return 0.0
        before = max(0, bisect.bisect_right(self._seconds, 0.5 * seconds) - 1)
        fallen = self._lowest[before] / lowest
        # No time passes while another thread compiles.
        elapsed = seconds - self._seconds[before]
        if not 1.0 < fallen < math.inf or self._tol <= 0 or elapsed <= 0:
            return math.inf
        rate = math.log(fallen) / elapsed
        return math.log(lowest / self._tol) / rate


class Throttle:
    """Returns True at a call, but at most once in a given number of seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._last = seconds, -np.inf

    def __call__(self) -> bool:
        now = time.perf_counter()
        if now - self._last < self._seconds:
            return False
        self._last = now
        return True

    def pause(self, seconds: float) -> None:
        """Let at least this much time pass before the next True."""
        self._last = max(self._last, time.perf_counter() + seconds - self._seconds)


class Interrupt:
    """Ctrl-C as a flag: solvers stop between two blocks, with their state in order.

    A fit that its user called keeps the model that it has by then. One that another
    estimator called, such as a search, raises `KeyboardInterrupt` once its solvers have
    stopped: Ctrl-C is meant for the whole, and a truncated model must not enter its
    scores. A second Ctrl-C raises at once. Outside the main thread Python delivers no
    signals, and nothing is installed.
    """

    def __init__(self) -> None:
        self.requested = False

    @contextmanager
    def listening(self) -> Iterator[Interrupt]:
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        previous = signal.getsignal(signal.SIGINT)
        if previous is not signal.default_int_handler:
            # Another program (a server, a notebook's front end) handles Ctrl-C in its own way.
            yield self
            return

        def handle(signum, frame):
            if self.requested:
                raise KeyboardInterrupt
            self.requested = True

        nested = _called_by_another_estimator()
        signal.signal(signal.SIGINT, handle)
        try:
            yield self
        finally:
            signal.signal(signal.SIGINT, previous)
        if nested and self.requested:
            raise KeyboardInterrupt


def _called_by_another_estimator() -> bool:
    """Whether the present call stack leads through more than one estimator.

    That is so inside a pipeline, a search or a meta-estimator of any library, and inside the
    functions of scikit-learn and joblib that fit estimators, such as `cross_val_score`.
    """
    first = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module, owner = frame.f_globals.get("__name__", ""), frame.f_locals.get("self")
        if module.startswith(("sklearn.", "joblib.")) and not module.startswith(_AROUND_EVERY_FIT):
            return True
        if hasattr(owner, "get_params") and hasattr(owner, "fit"):
            if first is not None and owner is not first:
                return True
            first = owner
        frame = frame.f_back
    return False


class Monitor:
    """Passed to a solver, which calls `update` between blocks of work.

    Parameters
    ----------
    max_iter : limit on the iterations of one solve, −1 for none
    deadline : `time.perf_counter()` value at which to stop, or None
    interrupt : the flag that Ctrl-C sets
    on_progress : called with (Progress, beta, intercept) at each update; true asks to stop
    tol : the KKT violation that the solve is to reach; without it, no time left is estimated

    Attributes
    ----------
    certificate_seconds : β → the seconds that its certificate will take, or None; the deadline
        is for the certificate, too
    """

    certificate_seconds: Callable[[np.ndarray], float] | None = None

    def __init__(
        self,
        *,
        max_iter: int = -1,
        deadline: float | None = None,
        interrupt: Interrupt | None = None,
        on_progress: Callable[[Progress, np.ndarray, float], bool] | None = None,
        tol: float = 0.0,
    ):
        self.max_iter = max_iter
        self.deadline = deadline
        self.interrupt = interrupt
        self.on_progress = on_progress
        self.history: list[Progress] = []
        self._start = working_time()
        self._update_is_due = Throttle(_UPDATE_SECONDS)
        self._reserved = 0.0
        self._pace = Pace(tol)

    @property
    def seconds(self) -> float:
        """Since the beginning, without what the compiler took."""
        return working_time() - self._start

    def iterations_left(self, n_iter: int) -> int:
        """The number of further iterations that the limit allows."""
        return _NO_LIMIT if self.max_iter < 0 else max(0, self.max_iter - n_iter)

    def should_stop(self, n_iter: int) -> Status | None:
        """The reason to stop now, or None. Cheap, so that it can be asked often."""
        if self.interrupt is not None and self.interrupt.requested:
            return Status.INTERRUPTED
        if self._time_left() <= self._reserved:
            return Status.TIME_LIMIT
        if 0 <= self.max_iter <= n_iter:
            return Status.MAX_ITER
        return None

    def reserve(self, beta: np.ndarray) -> bool:
        """Set time aside for the certificate of β; whether there is as much before the deadline."""
        if self.deadline is not None and self.certificate_seconds is not None:
            self._reserved = self.certificate_seconds(beta)
        return self._time_left() >= self._reserved

    def has_time_for_another_certificate(self) -> bool:
        """Whether the time suffices for two certificates: work as long as one, and the last."""
        return self.deadline is None or self._time_left() >= 2 * self._reserved

    def _time_left(self) -> float:
        return math.inf if self.deadline is None else self.deadline - time.perf_counter()

    def observe(self, n_iter: int, state: Callable[[], tuple]) -> Status | None:
        """Call `update` with the violation, objective, β and intercept that `state` returns.

        At most ten times a second, since a state may cost a pass over the samples.
        """
        if not self._update_is_due():
            return self.should_stop(n_iter)
        start = time.perf_counter()
        present = state()
        self._update_is_due.pause(_PAUSE_FOR_EACH * (time.perf_counter() - start))
        return self.update(n_iter, *present)

    def update(
        self, n_iter: int, violation: float, objective: float, beta: np.ndarray, intercept: float,
        n_settled: int = 0,
    ) -> Status | None:  # fmt: skip
        """Record progress, call the callbacks, and return the reason to stop, or None."""
        self.reserve(beta)
        seconds = self.seconds
        left = self._pace.seconds_left(seconds, float(violation))
        line = Progress(
            seconds, n_iter, violation, objective, int(np.count_nonzero(beta)),
            n_settled=int(n_settled), seconds_left=max(0.0, min(left, self._time_left())),
        )  # fmt: skip
        self.history.append(line)
        if self.on_progress is not None and self.on_progress(line, beta, intercept):
            return Status.INTERRUPTED
        return self.should_stop(n_iter)
