"""Measures of a run, written once for every array library."""

from xpsample.metrics.convergence import chain_ess, mcse_mean, split_rhat

__all__ = ["chain_ess", "mcse_mean", "split_rhat"]
