"""Derivatives as values: how a target gets its score and its Hessian-vector products."""

from xpsample.gradients.check import check
from xpsample.gradients.choices import Analytic, Auto, FiniteDifference, GradientChoice, Native, Via

__all__ = ["Analytic", "Auto", "FiniteDifference", "GradientChoice", "Native", "Via", "check"]
