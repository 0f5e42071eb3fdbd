"""Densities that other programs compute: models of PyMC and Stan, distributions of SciPy, and constraints.

Models of NumPyro are in `xpsample_jax.from_numpyro`, models of Pyro in `xpsample_torch.from_pyro`, distributions of
torch in `xpsample_torch.from_distributions`, and modules in the `from_module` of both.
"""

from xpsample.interop.bridgestan import stan_parameters as stan_parameters
from xpsample.interop.bridgestan import stan_target as stan_target
from xpsample.interop.constraints import space_of as space_of
from xpsample.interop.pymc import pymc_generated as pymc_generated
from xpsample.interop.pymc import pymc_model as pymc_model
from xpsample.interop.scipy import scipy_model as scipy_model
