"""Densities that other programs compute: models of Stan, and the constraints of torch.distributions and NumPyro.

Models of NumPyro are in `xpsample_jax.from_numpyro`, distributions of torch in `xpsample_torch.from_distributions`, and
modules in the `from_module` of both.
"""

from xpsample.interop.bridgestan import stan_parameters, stan_target
from xpsample.interop.constraints import space_of

__all__ = ["space_of", "stan_parameters", "stan_target"]
