"""Convex functions that are not smooth, with their proximal operators."""

from xpsample.prox.regularizer import L1 as L1
from xpsample.prox.regularizer import Regularizer as Regularizer
from xpsample.prox.regularizer import envelope as envelope
from xpsample.prox.total_variation import AnisotropicTV as AnisotropicTV
from xpsample.prox.total_variation import IsotropicTV as IsotropicTV
from xpsample.prox.total_variation import TotalVariation as TotalVariation
