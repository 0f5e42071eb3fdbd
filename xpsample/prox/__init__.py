"""Convex functions that are not smooth, with their proximal operators."""

from xpsample.prox.line import prox_line
from xpsample.prox.regularizer import L1, Regularizer, envelope
from xpsample.prox.total_variation import AnisotropicTV, IsotropicTV, TotalVariation

__all__ = ["L1", "AnisotropicTV", "IsotropicTV", "Regularizer", "TotalVariation", "envelope", "prox_line"]
