"""Measures of a run, written once for every array library."""

from xpsample.metrics.convergence import chain_ess, mcse_mean, split_rhat
from xpsample.metrics.states import (
    coverage,
    kl_divergence,
    log_mean_absolute_error,
    state_counts,
    state_numbers,
    total_variation,
)

__all__ = [
    "chain_ess",
    "coverage",
    "kl_divergence",
    "log_mean_absolute_error",
    "mcse_mean",
    "split_rhat",
    "state_counts",
    "state_numbers",
    "total_variation",
]
