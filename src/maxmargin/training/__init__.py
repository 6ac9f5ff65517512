"""The one way from data to a fitted model: formulate → solve → certify → assemble."""

from maxmargin.training.fit import TrainingSource, resolve_gamma, train
from maxmargin.training.local import LocalSource

__all__ = ["LocalSource", "TrainingSource", "resolve_gamma", "train"]
