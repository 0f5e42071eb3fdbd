"""Spaces: where positions live."""

from xpsample.core.lazily import lazily

__getattr__, __dir__ = lazily(globals())
