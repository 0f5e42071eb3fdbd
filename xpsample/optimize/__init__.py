"""Optimisers of trees of parameters."""

from xpsample.optimize.optimizers import SGD, Adam, Averaged, Clipped, CosineDecay

__all__ = ["SGD", "Adam", "Averaged", "Clipped", "CosineDecay"]
