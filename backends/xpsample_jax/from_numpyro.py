"""Models of NumPyro as models of xpsample: names, constraints and plates are kept."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, final

import jax

from xpsample.core.arrays import Array
from xpsample.interop.adaptors import Program
from xpsample.interop.constraints import space_of
from xpsample.spaces.space import Constrained
from xpsample.targets.model import Model


def model(
    function: Callable[..., Any],
    model_args: Sequence[Any] = (),
    model_kwargs: Mapping[str, Any] | None = None,
    *,
    dims: Mapping[str, Any] | None = None,
    coords: Mapping[str, Any] | None = None,
) -> Model:
    """A NumPyro model as a `Model` of JAX arrays.

    Every latent site is a parameter of the same name, in the space that its distribution's support is. The log density
    is NumPyro's own, of one chain, mapped over the chains.

    Parameters
    ----------
    function : callable
        The model, as passed to NumPyro's own samplers; handlers around it are kept.
    model_args : sequence
        What it is called with, observations among them.
    model_kwargs : mapping, optional
    dims : mapping of str to str or sequence of str, optional
        As for `Model`. By default, axes in plates have the names of their plates.
    coords : mapping of str to sequence, optional
        What the places along an axis are called; an axis may be a plate.

    Returns
    -------
    Model

    Raises
    ------
    CapabilityError
        For discrete latent sites, priors that are not proper, `numpyro.param`, plates that subsample, sites that come
        and go or have no certain support, and supports that no space stands for (`space_of`).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpyro
    >>> import numpyro.distributions as dist
    >>> import xpsample as xps
    >>> from xpsample_jax import from_numpyro
    >>> def scale(y):
    ...     sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    ...     with numpyro.plate("row", len(y)):
    ...         numpyro.sample("y", dist.Normal(0.0, sigma), obs=y)
    >>> model = from_numpyro.model(scale, (jnp.linspace(-2.0, 2.0, 20),))
    >>> model.names
    ('sigma',)
    >>> x0 = model.start(like=jnp.zeros(0), chains=4, seed=0)
    >>> xps.sample(model, xps.NUTS(), x0, 1000, seed=1, progress=False)["sigma"].shape
    (1000, 4)
    """
    return _NumPyroProgram(function, tuple(model_args), dict(model_kwargs or {})).model(dims, coords)


def generated(
    function: Callable[..., Any], model_args: Sequence[Any] = (), model_kwargs: Mapping[str, Any] | None = None
) -> Callable[[Any], dict[str, Array]]:
    """A function for `Trace.map`: the values of `numpyro.deterministic` at draws, by name.

    Parameters
    ----------
    function, model_args, model_kwargs
        As for `model`.

    Returns
    -------
    callable
        The parameters of the draws to a dict of arrays ``(draw, *chains, *shape)``.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpyro
    >>> import numpyro.distributions as dist
    >>> import xpsample as xps
    >>> from xpsample_jax import from_numpyro
    >>> def doubled():
    ...     numpyro.deterministic("twice", 2 * numpyro.sample("x", dist.Normal(0.0, 1.0)))
    >>> model = from_numpyro.model(doubled)
    >>> x0 = model.start(like=jnp.zeros(0), chains=4, seed=0)
    >>> trace = xps.sample(model, xps.NUTS(0.5), x0, 50, seed=1, progress=False)
    >>> trace.map(from_numpyro.generated(doubled))["twice"].shape
    (50, 4)
    """
    return _NumPyroProgram(function, tuple(model_args), dict(model_kwargs or {})).generated()


@final
class _NumPyroProgram(Program):
    library = "NumPyro"

    def sites(self, values: Mapping[str, Any], seed: int = 0) -> Mapping[str, Any]:
        from numpyro import handlers

        function = handlers.substitute(self.function, data=values)
        return handlers.trace(handlers.seed(function, jax.random.key(seed))).get_trace(*self.args, **self.kwargs)

    def log_density(self, values: dict[str, Array]) -> Array:
        from numpyro.infer.util import log_density

        return log_density(self.function, self.args, self.kwargs, values)[0]

    def is_latent(self, site: Any) -> bool:
        return site["type"] == "sample" and not site.get("is_observed", False)

    def is_deterministic(self, site: Any) -> bool:
        return site["type"] == "deterministic"

    def subsampled(self, sites: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
        plates = ((name, site) for name, site in sites.items() if site["type"] == "plate")
        return ((name, site["args"][0]) for name, site in plates if len(site["value"]) != site["args"][0])

    def space(self, name: str, site: Any) -> Constrained:
        from numpyro.distributions import constraints

        return space_of(constraints, name, site["fn"].support, tuple(site["value"].shape))

    def vmap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return jax.vmap(function)
