"""HiSS: hyperbolic secant-squared Gibbs sampling on discrete spaces."""

from xpsample.hiss.kernel import HiSS as HiSS
from xpsample.hiss.smoothed import Gaussian as Gaussian
from xpsample.hiss.smoothed import Logistic as Logistic
from xpsample.hiss.smoothed import Smoothing as Smoothing
