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
from xpsample.metrics.modes import modes_discovered, nearest_centre
from xpsample.metrics.vendi import cosine_similarity, vendi_score

__all__ = [
    "chain_ess",
    "class_shares",
    "classes_covered",
    "cosine_similarity",
    "cumulative_class_shares",
    "kl_to_uniform",
    "mcse_mean",
    "modes_discovered",
    "nearest_centre",
    "normalised_entropy",
    "split_rhat",
    "tv_to_uniform",
    "vendi_score",
]
