"""Time against the number of samples, for several solvers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from maxmargin.clock import watch_compiler, working_time
from maxmargin.estimators.unwrap import svm_of
from maxmargin.plotting._style import colours, pyplot, thin_ticks
from maxmargin.sklearn_private import num_samples, safe_indexing

_SIZES = 5  # numbers of samples by default, each twice the one before
_POINTS_FOR_EXPONENT = 3  # the fewest points for which a line is fitted
_LABELS = 6  # the most labels that fit the axis


@dataclass(kw_only=True, eq=False, repr=False)
class ScalingDisplay:
    """Seconds of a fit over the number of samples, and the exponent k of the n^k between them.

    Make one with :meth:`from_estimators`, or from times that were measured elsewhere.

    Parameters
    ----------
    n_samples : numbers of samples
    seconds : {name: seconds for each of them, NaN where there is none}

    Attributes
    ----------
    exponents_ : {name: k}; None where fewer than three times are known
    ax_, figure_ : where it was drawn
    lines_ : the line of each name
    """

    n_samples: Sequence[int]
    seconds: Mapping[str, Sequence[float]]

    @classmethod
    def from_estimators(
        cls, estimators: Mapping | Sequence, X, y, *, sizes=None, repeat=1, limit=60.0,
        random_state=None, ax=None,
    ) -> ScalingDisplay:  # fmt: skip
        """Time fits to growing parts of the data, and draw.

        Parameters
        ----------
        estimators : {name: estimator}, or a list of estimators
            In a list they are named by the solver of the SVM inside, or by their class.
        X, y : the samples
        sizes : numbers of samples, default=None
            None takes five, each twice the last, up to all.
        repeat : int, default=1
            Fits of each; the fastest counts, less what the compiler took.
        limit : float, default=60.0
            An estimator that took longer than this many seconds is not tried on more samples.
        random_state : int, RandomState instance or None, default=None
            Which samples are taken; smaller parts lie in larger ones.
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.
        """
        pyplot("ScalingDisplay")
        if not isinstance(estimators, Mapping):
            estimators = {f"{k}: {_name(one)}": one for k, one in enumerate(estimators, start=1)}
        n = num_samples(X)
        sizes = sorted(sizes) if sizes is not None else [n >> k for k in range(_SIZES)][::-1]
        if not len(sizes) or sizes[0] < 2 or sizes[-1] > n:
            raise ValueError(f"sizes must lie between 2 and the {n} samples of X, not {sizes!r}.")
        order = check_random_state(random_state).permutation(n)
        seconds: dict[str, list[float]] = {name: [] for name in estimators}
        for size in sizes:
            part = np.sort(order[:size])
            X_part, y_part = safe_indexing(X, part), safe_indexing(y, part)
            for name, estimator in estimators.items():
                gave_up = any(np.isnan(t) or t > limit for t in seconds[name])
                seconds[name].append(
                    np.nan if gave_up else _time(estimator, X_part, y_part, repeat)
                )
        return cls(n_samples=sizes, seconds=seconds).plot(ax)

    def plot(self, ax=None) -> ScalingDisplay:
        """Draw, on `ax` or a new figure."""
        plt = pyplot("ScalingDisplay")
        if ax is None:
            _, ax = plt.subplots(figsize=(5.6, 4.2), layout="constrained")
        n = np.asarray(self.n_samples, dtype=np.float64)
        self.lines_, self.exponents_ = {}, {}
        for (name, times), colour in zip(self.seconds.items(), colours(len(self.seconds))):
            fit = _power_law(n, np.asarray(times, dtype=np.float64))
            label = name
            if fit is not None:
                label = f"{name}: $n^{{{fit[0]:.2f}}}$"
                ax.plot(n, np.exp(fit[1]) * n ** fit[0], color=colour, linewidth=0.8, alpha=0.6)
            self.exponents_[name] = None if fit is None else fit[0]
            self.lines_[name] = ax.plot(
                n, times, color=colour, marker="o", markersize=4, linestyle="--", label=label
            )[0]
        ax.set(xlabel="samples", ylabel="seconds", xscale="log", yscale="log")
        _mark(ax, self.n_samples)
        ax.grid(linewidth=0.3)
        ax.legend(fontsize=8, framealpha=0.8)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _name(estimator) -> str:
    """The solver of the SVM in an estimator, or the class of one that has none."""
    solver = getattr(svm_of(estimator), "solver", None)
    if solver is None:
        return type(estimator).__name__
    return solver if isinstance(solver, str) else solver.name


def _mark(ax, n_samples: Sequence[int]) -> None:
    """Ticks at the numbers of samples, written out."""
    from matplotlib.ticker import NullLocator, StrMethodFormatter

    every = -(-len(n_samples) // _LABELS)
    ax.set_xticks(list(n_samples)[::-1][::every], minor=False)
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.xaxis.set_minor_locator(NullLocator())
    thin_ticks(ax.yaxis)


def _time(estimator, X, y, repeat: int) -> float:
    watch_compiler()
    seconds = []
    for _ in range(repeat):
        model = clone(estimator)
        start = working_time()
        model.fit(X, y)
        seconds.append(working_time() - start)
    return min(seconds)


def _power_law(n: np.ndarray, seconds: np.ndarray) -> tuple[float, float] | None:
    """(k, log a) of seconds = a·n^k by least squares on the log-log scale."""
    known = np.isfinite(seconds) & (seconds > 0)
    if np.count_nonzero(known) < _POINTS_FOR_EXPONENT:
        return None
    exponent, constant = np.polyfit(np.log(n[known]), np.log(seconds[known]), 1)
    return float(exponent), float(constant)
