"""Log densities, written once for all libraries: plain functions that keep the chain axes."""

from xpsample.core.lazy_imports import attach

_NAMES = {
    "derived": "log_cdf log_interval log_survival mixture zero_inflated",
    "discrete": "bernoulli binomial categorical negative_binomial ordered_logistic poisson",
    "positive": "exponential gamma half_cauchy half_normal inverse_gamma log_normal weibull",
    "real": "beta cauchy laplace logistic normal student_t uniform von_mises",
    "vectors": "dirichlet lkj multinomial multivariate_normal",
}
__getattr__, __all__ = attach(__name__, _NAMES)


def __dir__() -> list[str]:
    return __all__
