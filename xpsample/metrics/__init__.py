"""Measures of runs and of samples: convergence, discrepancies, modes and classes."""

from xpsample.core.lazily import lazily

__getattr__, __dir__ = lazily(globals())
