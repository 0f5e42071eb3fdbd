"""Targets: what is sampled, and the targets made from targets."""

from xpsample.core.lazily import lazily

__getattr__, __dir__ = lazily(globals())
