"""Models of NumPyro as models of xpsample: names, constraints and plates are kept."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from xpsample.core.arrays import Array
from xpsample.core.checks import check_function
from xpsample.core.errors import CapabilityError
from xpsample.interop.constraints import space_of
from xpsample.spaces.space import Constrained
from xpsample.targets.model import OPTIONS, Model


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
        For discrete latent sites, `numpyro.param`, plates that subsample, sites that come and go or have no certain
        support, and supports that no space stands for (`space_of`).

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
    sites = _latent(function, args, kwargs)
    spaces = {name: _space(name, site) for name, site in sites.items()}
    again = {name: _space(name, site) for name, site in _latent(function, args, kwargs, seed=1).items()}
    for name in spaces | again:
        if spaces.get(name) != again.get(name):
            raise CapabilityError(
                f"{name} has another support, or is missing, when other parameters have other values: give it a fixed "
                "one, such as Uniform(0, 1) times a parameter in place of Uniform(0, parameter)"
            )

    def log_density(p: Any) -> Array:
        def one(*values: Array) -> Array:
            return log_joint(function, args, kwargs, dict(zip(spaces, values, strict=True)))[0]

        return _over_chains(one, p, spaces)(*p)

    axes = {name: own for name, site in sites.items() if (own := _axes(name, site)) is not None}
    for name in OPTIONS:
        if name in spaces:
            raise CapabilityError(f"a site cannot be called {name!r}, which is an option of Model: call it otherwise")
    parameters: dict[str, Any] = dict(spaces)
    return Model(log_density, dims=axes | dict(dims or {}), coords=coords, **parameters)


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
    spaces = {name: _space(name, site) for name, site in _latent(function, args, kwargs).items()}

    def at(p: Any) -> dict[str, Array]:
        def one(*values: Array) -> dict[str, Array]:
            fixed = handlers.substitute(function, data=dict(zip(spaces, values, strict=True)))
            sites = handlers.trace(handlers.seed(fixed, jax.random.key(0))).get_trace(*args, **kwargs)
            return {name: site["value"] for name, site in sites.items() if site["type"] == "deterministic"}

        return _over_chains(one, p, spaces)(*p)

    return at


def _over_chains(one: Callable[..., Any], p: Any, spaces: Mapping[str, Constrained]) -> Callable[..., Any]:
    """A function of the parameters of one chain, mapped over all leading axes."""
    for _ in range(p[0].ndim - len(next(iter(spaces.values())).shape)):
        one = jax.vmap(one)
    return one


def _latent(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    """The sites that are not observed."""
    from numpyro import handlers

    check_function("function", function, "(*model_args, **model_kwargs)")
    sites = handlers.trace(handlers.seed(function, jax.random.key(seed))).get_trace(*args, **kwargs)
    for name, site in sites.items():
        if site["type"] == "plate" and len(site["value"]) != site["args"][0]:
            raise CapabilityError(f"the plate {name} takes a part of its rows: take all {site['args'][0]}")
        if site["type"] == "param":
            raise CapabilityError(f"{name} is a numpyro.param, which has no prior: make it a numpyro.sample")
    latent = {
        name: site for name, site in sites.items() if site["type"] == "sample" and not site.get("is_observed", False)
    }
    if not latent:
        raise CapabilityError("the NumPyro model has no latent site: what it samples is all observed")
    return latent


def _space(name: str, site: Mapping[str, Any]) -> Constrained:
    from numpyro.distributions import constraints

    return space_of(constraints, name, site["fn"].support, tuple(site["value"].shape))


def _axes(name: str, site: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Names of the axes of a site's values, from its plates; None where it is in none."""
    if not site["cond_indep_stack"]:
        return None
    shape = site["value"].shape
    batch = len(shape) - site["fn"].event_dim
    axes = [f"{name}_dim_{axis}" for axis in range(len(shape))]
    for plate in site["cond_indep_stack"]:
        axes[batch + plate.dim] = plate.name
    return tuple(axes)
