"""Optimisers of trees of parameters."""

from xpsample.optimize.optimizers import SGD, Adam, Clipped, CosineDecay

__all__ = ["SGD", "Adam", "Clipped", "CosineDecay"]
