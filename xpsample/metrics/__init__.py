"""Measures of runs and of samples, written once for every array library."""

from xpsample.metrics.convergence import autocorrelation, chain_ess, mcse_mean, split_rhat
from xpsample.metrics.discrepancy import median_bandwidth, squared_ksd, squared_mmd
from xpsample.metrics.wasserstein import marginal_wasserstein, wasserstein, wasserstein_1d

__all__ = [
    "autocorrelation",
    "chain_ess",
    "marginal_wasserstein",
    "mcse_mean",
    "median_bandwidth",
    "split_rhat",
    "squared_ksd",
    "squared_mmd",
    "wasserstein",
    "wasserstein_1d",
]
