"""Derivatives as values: how a target gets its score and its Hessian-vector products."""

from xpsample.gradients.choices import Analytic, Auto, FiniteDifference, GradientChoice, NativeGradient, Via

__all__ = ["Analytic", "Auto", "FiniteDifference", "GradientChoice", "NativeGradient", "Via"]
