"""Measures of a run, written once for every array library."""

from xpsample.metrics.convergence import chain_ess, mcse_mean, split_rhat
from xpsample.metrics.discrete import (
    coverage,
    exact_probabilities,
    frequencies,
    kl_divergence,
    log_mean_absolute_error,
    prominent_states,
    state_counts,
    total_variation,
)
from xpsample.metrics.tours import TourDiversity, canonical_tours, tour_diversity

__all__ = [
    "TourDiversity",
    "canonical_tours",
    "chain_ess",
    "coverage",
    "exact_probabilities",
    "frequencies",
    "kl_divergence",
    "log_mean_absolute_error",
    "mcse_mean",
    "prominent_states",
    "split_rhat",
    "state_counts",
    "total_variation",
    "tour_diversity",
]
