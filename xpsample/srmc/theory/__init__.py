"""What repellence does to the error of an estimate: the central limit theorem of SRMC, and predictions from it."""

from xpsample.srmc.theory.clt import (
    Linearization,
    average_covariance,
    direction_variance,
    drift_matrix,
    gaussian_covariance,
    independent,
    independent_covariance,
    iterate_covariance,
    solve_lyapunov,
)
from xpsample.srmc.theory.prediction import (
    Comparison,
    MeasuredCovariance,
    compare,
    cost_per_step,
    estimate,
    measured_covariance,
)

__all__ = [
    "Comparison",
    "Linearization",
    "MeasuredCovariance",
    "average_covariance",
    "compare",
    "cost_per_step",
    "direction_variance",
    "drift_matrix",
    "estimate",
    "gaussian_covariance",
    "independent",
    "independent_covariance",
    "iterate_covariance",
    "measured_covariance",
    "solve_lyapunov",
]
