"""Kernels: one file per algorithm, each a frozen value with a pure step."""

from xpsample.core.lazily import lazily

__getattr__, __dir__ = lazily(globals())
