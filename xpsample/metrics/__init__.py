"""Measures of runs and of samples: convergence, discrepancies, modes and classes."""

from xpsample.metrics.classes import (
    class_shares,
    classes_covered,
    cumulative_class_shares,
    kl_to_uniform,
    normalised_entropy,
    tv_to_uniform,
)
from xpsample.metrics.convergence import autocorrelation, chain_ess, mcse_mean, split_rhat
from xpsample.metrics.discrepancy import median_bandwidth, squared_ksd, squared_mmd
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
from xpsample.metrics.images import mean_squared_error, structural_similarity
from xpsample.metrics.modes import modes_discovered, nearest_centre
from xpsample.metrics.tours import TourDiversity, canonical_tours, tour_diversity
from xpsample.metrics.vendi import cosine_similarity, vendi_score
from xpsample.metrics.wasserstein import marginal_wasserstein, wasserstein, wasserstein_1d

__all__ = [
    "TourDiversity",
    "autocorrelation",
    "canonical_tours",
    "chain_ess",
    "class_shares",
    "classes_covered",
    "cosine_similarity",
    "coverage",
    "cumulative_class_shares",
    "exact_probabilities",
    "frequencies",
    "kl_divergence",
    "kl_to_uniform",
    "log_mean_absolute_error",
    "marginal_wasserstein",
    "mcse_mean",
    "mean_squared_error",
    "median_bandwidth",
    "modes_discovered",
    "nearest_centre",
    "normalised_entropy",
    "prominent_states",
    "split_rhat",
    "squared_ksd",
    "squared_mmd",
    "state_counts",
    "structural_similarity",
    "total_variation",
    "tour_diversity",
    "tv_to_uniform",
    "vendi_score",
    "wasserstein",
    "wasserstein_1d",
]
