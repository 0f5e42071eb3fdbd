"""Models of NumPyro as models of xpsample: names, constraints and plates are kept."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax

from xpsample.core.arrays import Array
from xpsample.core.checks import check_function
from xpsample.core.errors import CapabilityError
from xpsample.interop.constraints import space_of
from xpsample.interop.sites import Site, model_of, over_chains, proper_priors, site_of
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
        The model, as NumPyro's own samplers take it; handlers around it are kept.
    model_args : sequence
        What it is called with, observations among them.
    model_kwargs : mapping, optional
    dims : mapping of str to str or sequence of str, optional
        As for `Model`. Of other parameters, axes in plates are called what their plates are.
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
    from numpyro.infer.util import log_density as log_joint

    args, kwargs = tuple(model_args), dict(model_kwargs or {})
    return model_of(
        partial(_latent, function, args, kwargs),
        lambda values: log_joint(function, args, kwargs, values)[0],
        jax.vmap,
        dims,
        coords,
    )


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
    from numpyro import handlers

    args, kwargs = tuple(model_args), dict(model_kwargs or {})
    latent = _latent(function, args, kwargs)

    def one(values: dict[str, Array]) -> dict[str, Array]:
        fixed = handlers.substitute(function, data=values)
        sites = handlers.trace(handlers.seed(fixed, jax.random.key(0))).get_trace(*args, **kwargs)
        return {name: site["value"] for name, site in sites.items() if site["type"] == "deterministic"}

    return lambda p: over_chains(jax.vmap, one, p, latent)


def _latent(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any], seed: int = 0) -> dict[str, Site]:
    """The sites that are not observed."""
    from numpyro import handlers

    check_function("function", function, "(*model_args, **model_kwargs)")
    with proper_priors():
        sites = handlers.trace(handlers.seed(function, jax.random.key(seed))).get_trace(*args, **kwargs)
    for name, site in sites.items():
        if site["type"] == "plate" and len(site["value"]) != site["args"][0]:
            raise CapabilityError(f"the plate {name} takes a part of its rows: take all {site['args'][0]}")
        if site["type"] == "param":
            raise CapabilityError(f"{name} is a numpyro.param, which has no prior: make it a numpyro.sample")
    latent = {
        name: _site(name, site)
        for name, site in sites.items()
        if site["type"] == "sample" and not site.get("is_observed", False)
    }
    if not latent:
        raise CapabilityError("the NumPyro model has no latent site: what it samples is all observed")
    return latent


def _site(name: str, site: Mapping[str, Any]) -> Site:
    from numpyro.distributions import constraints

    space = space_of(constraints, name, site["fn"].support, tuple(site["value"].shape))
    plates = [(plate.name, plate.dim) for plate in site["cond_indep_stack"]]
    return site_of(name, space, site["fn"].event_dim, plates)
