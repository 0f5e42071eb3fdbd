"""Optimisers of trees of parameters."""

from xpsample.optimize.optimizers import SGD, Adam

__all__ = ["SGD", "Adam"]
