"""Models of Pyro as models of xpsample: names, constraints and plates are kept."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from xpsample.core.arrays import Array
from xpsample.core.checks import check_function
from xpsample.core.errors import CapabilityError
from xpsample.interop.sites import Site, model_of, over_chains, proper_priors, site_of
from xpsample.targets.model import Model
from xpsample_torch.from_distributions import space_of_prior


def model(
    function: Callable[..., Any],
    model_args: Sequence[Any] = (),
    model_kwargs: Mapping[str, Any] | None = None,
    *,
    dims: Mapping[str, Any] | None = None,
    coords: Mapping[str, Any] | None = None,
) -> Model:
    """A Pyro model as a `Model` of torch tensors.

    Every latent site is a parameter of the same name, in the space that its distribution's support is. The log density
    is Pyro's own, of one chain, mapped over the chains by `torch.func.vmap`.

    Parameters
    ----------
    function : callable
        The model, as Pyro's own samplers take it: a function or a `PyroModule`, with the handlers around it.
    model_args : sequence
        What it is called with, observations among them, on the positions' device.
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
        For discrete latent sites, priors that are not proper, `pyro.param`, plates that subsample, sites that come and
        go or have no certain support, and supports that no space stands for (`space_of`).

    Notes
    -----
    Distributions do not check their arguments meanwhile: values on an edge by rounding would end a run by an error. A
    model cannot branch on a latent value, which has none of its own for all chains.

    Examples
    --------
    >>> import pyro
    >>> import pyro.distributions as dist
    >>> import torch
    >>> import xpsample as xps
    >>> from xpsample_torch import from_pyro
    >>> def scale(y):
    ...     sigma = pyro.sample("sigma", dist.HalfNormal(2.0))
    ...     with pyro.plate("row", len(y)):
    ...         pyro.sample("y", dist.Normal(0.0, sigma), obs=y)
    >>> model = from_pyro.model(scale, (torch.tensor([0.5, -1.5, 1.0]),))
    >>> x0 = model.start(like=torch.zeros(0), chains=4, seed=0)
    >>> xps.sample(model, xps.NUTS(0.5), x0, 50, seed=1, progress=False)["sigma"].shape
    torch.Size([50, 4])
    """
    import pyro

    args, kwargs = tuple(model_args), dict(model_kwargs or {})

    def log_density(values: dict[str, Array]) -> Array:
        with pyro.validation_enabled(False):  # it looks for nan, for which there is one answer for all chains
            return _trace(function, args, kwargs, values).log_prob_sum()

    return model_of(partial(_latent, function, args, kwargs), log_density, torch.func.vmap, dims, coords)


def generated(
    function: Callable[..., Any], model_args: Sequence[Any] = (), model_kwargs: Mapping[str, Any] | None = None
) -> Callable[[Any], dict[str, Array]]:
    """A function for `Trace.map`: the values of `pyro.deterministic` at draws, by name.

    Parameters
    ----------
    function, model_args, model_kwargs
        As for `model`.

    Returns
    -------
    callable
        The parameters of the draws to a dict of tensors ``(draw, *chains, *shape)``.

    Examples
    --------
    >>> import pyro
    >>> import pyro.distributions as dist
    >>> import torch
    >>> import xpsample as xps
    >>> from xpsample_torch import from_pyro
    >>> def doubled():
    ...     pyro.deterministic("twice", 2 * pyro.sample("x", dist.Normal(0.0, 1.0)))
    >>> model = from_pyro.model(doubled)
    >>> x0 = model.start(like=torch.zeros(0), chains=4, seed=0)
    >>> trace = xps.sample(model, xps.NUTS(0.5), x0, 50, seed=1, progress=False)
    >>> trace.map(from_pyro.generated(doubled))["twice"].shape
    torch.Size([50, 4])
    """
    args, kwargs = tuple(model_args), dict(model_kwargs or {})
    latent = _latent(function, args, kwargs)

    def one(values: dict[str, Array]) -> dict[str, Array]:
        sites = _trace(function, args, kwargs, values).nodes
        return {name: site["value"] for name, site in sites.items() if _is_deterministic(site)}

    return lambda p: over_chains(torch.func.vmap, one, p, latent)


def _trace(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any], values: dict[str, Any]) -> Any:
    """A run of the model with some values given."""
    import pyro
    from pyro import poutine

    with pyro.validation_enabled(False):
        return poutine.trace(poutine.condition(function, data=values)).get_trace(*args, **kwargs)


def _latent(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any], seed: int = 0) -> dict[str, Site]:
    """The sites that are not observed."""
    check_function("function", function, "(*model_args, **model_kwargs)")
    with torch.random.fork_rng(devices=[]), proper_priors():
        torch.manual_seed(seed)
        sites = _trace(function, args, kwargs, {}).nodes
    for name, site in sites.items():
        if site["type"] == "param":
            raise CapabilityError(f"{name} is a pyro.param, which has no prior: make it a pyro.sample")
        for plate in site.get("cond_indep_stack") or ():
            if plate.full_size is not None and plate.size != plate.full_size:
                raise CapabilityError(f"the plate {plate.name} takes a part of its rows: take all {plate.full_size}")
    latent = {
        name: _site(name, site)
        for name, site in sites.items()
        if site["type"] == "sample" and not site["is_observed"] and not _is_subsample(site)
    }
    if not latent:
        raise CapabilityError("the Pyro model has no latent site: what it samples is all observed")
    return latent


def _is_subsample(site: Mapping[str, Any]) -> bool:
    """Whether a site is that of a plate, whose values are its indices."""
    from pyro.poutine.subsample_messenger import _Subsample

    return isinstance(site["fn"], _Subsample)


def _is_deterministic(site: Mapping[str, Any]) -> bool:
    return site["type"] == "sample" and site["infer"].get("_deterministic", False)


def _site(name: str, site: Mapping[str, Any]) -> Site:
    from pyro.distributions import constraints

    space = space_of_prior(constraints, name, site["fn"], tuple(site["value"].shape))
    plates = [(plate.name, plate.dim) for plate in site["cond_indep_stack"] if plate.dim is not None]
    return site_of(name, space, site["fn"].event_dim, plates)
