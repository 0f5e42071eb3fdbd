"""Densities that other programs compute: models of PyMC and Stan, distributions of SciPy, and constraints.

Models of NumPyro are in `xpsample_jax.from_numpyro`, those of Pyro in `xpsample_torch.from_pyro`, distributions of
torch in `xpsample_torch.from_distributions`, and modules in the `from_module` of both.
"""

from xpsample.interop.bridgestan import stan_parameters, stan_target
from xpsample.interop.constraints import space_of
from xpsample.interop.pymc import pymc_generated, pymc_model
from xpsample.interop.scipy import scipy_model

__all__ = ["pymc_generated", "pymc_model", "scipy_model", "space_of", "stan_parameters", "stan_target"]
