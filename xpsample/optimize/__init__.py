"""Optimisers of trees of parameters."""

from xpsample.optimize.optimizers import SGD, Adam, Averaged

__all__ = ["SGD", "Adam", "Averaged"]
