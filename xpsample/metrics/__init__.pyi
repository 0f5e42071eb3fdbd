# The names of `__init__.py`, each with its module, for type checkers; a test compares both files.

from xpsample.diagnostics.convergence import chain_ess as chain_ess
from xpsample.diagnostics.convergence import mcse_mean as mcse_mean
from xpsample.diagnostics.convergence import split_rhat as split_rhat
from xpsample.metrics.discrepancy import fisher_divergence as fisher_divergence
from xpsample.metrics.discrepancy import median_bandwidth as median_bandwidth
from xpsample.metrics.discrepancy import squared_ksd as squared_ksd
from xpsample.metrics.discrepancy import squared_mmd as squared_mmd
from xpsample.metrics.discrete import TourDiversity as TourDiversity
from xpsample.metrics.discrete import canonical_tours as canonical_tours
from xpsample.metrics.discrete import coverage as coverage
from xpsample.metrics.discrete import exact_probabilities as exact_probabilities
from xpsample.metrics.discrete import frequencies as frequencies
from xpsample.metrics.discrete import kl_divergence as kl_divergence
from xpsample.metrics.discrete import log_mean_absolute_error as log_mean_absolute_error
from xpsample.metrics.discrete import prominent_states as prominent_states
from xpsample.metrics.discrete import total_variation as total_variation
from xpsample.metrics.discrete import tour_diversity as tour_diversity
