"""Measures of runs and of samples: convergence, discrepancies, distances on few states."""

from xpsample.core.lazily import lazily

__getattr__, __dir__ = lazily(globals())
