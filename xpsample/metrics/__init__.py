"""Discrepancies of samples, distances on few states, and the ESS and R-hat of `diagnostics`."""

from xpsample.core.lazy_imports import attach

_NAMES = {
    ".diagnostics.convergence": "chain_ess mcse_mean split_rhat",
    "discrepancy": "fisher_divergence median_bandwidth squared_ksd squared_mmd",
    "discrete": "coverage exact_probabilities frequencies kl_divergence log_mean_absolute_error prominent_states "
    "total_variation TourDiversity canonical_tours tour_diversity",
}
__getattr__, __all__ = attach(__name__, _NAMES)


def __dir__() -> list[str]:
    return __all__
