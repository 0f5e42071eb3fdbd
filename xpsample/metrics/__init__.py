"""Measures of a run, written once for every array library."""

from xpsample.metrics.classes import (
    class_shares,
    classes_covered,
    cumulative_class_shares,
    kl_to_uniform,
    normalised_entropy,
    tv_to_uniform,
)
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
from xpsample.metrics.modes import modes_discovered, nearest_centre
from xpsample.metrics.tours import TourDiversity, canonical_tours, tour_diversity
from xpsample.metrics.vendi import cosine_similarity, vendi_score

__all__ = [
    "TourDiversity",
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
    "mcse_mean",
    "modes_discovered",
    "nearest_centre",
    "normalised_entropy",
    "prominent_states",
    "split_rhat",
    "state_counts",
    "total_variation",
    "tour_diversity",
    "tv_to_uniform",
    "vendi_score",
]
