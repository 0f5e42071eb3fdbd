"""Warm-up: how hyper-parameters that a user leaves out are tuned, each rule a value that a kernel names for a field."""

from xpsample.core.lazily import lazily

__getattr__, __dir__ = lazily(globals())
