"""HiSS: hyperbolic secant-squared Gibbs sampling on discrete spaces."""

from xpsample.hiss.kernel import HiSS
from xpsample.hiss.smoothed import Gaussian, Logistic, Smoothing

__all__ = ["Gaussian", "HiSS", "Logistic", "Smoothing"]
