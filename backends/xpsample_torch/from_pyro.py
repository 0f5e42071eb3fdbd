"""Models of Pyro as models of xpsample: names, constraints and plates are kept."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from xpsample.core.arrays import Array
from xpsample.core.checks import check_function
from xpsample.core.errors import CapabilityError
from xpsample.interop.constraints import space_of
from xpsample.spaces.space import Constrained
from xpsample.targets.model import OPTIONS, Model
from xpsample_torch.from_distributions import support_of


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
        For discrete latent sites, `pyro.param`, plates that subsample, sites that come and go or have no certain
        support, and supports that no space stands for (`space_of`).

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
    sites = _latent(function, args, kwargs)
    spaces = {name: _space(name, site) for name, site in sites.items()}
    again = {name: _space(name, site) for name, site in _latent(function, args, kwargs, seed=1).items()}
    for name in spaces | again:
        if spaces.get(name) != again.get(name):
            raise CapabilityError(
                f"{name} has another support, or is missing, when other parameters have other values: give it a fixed "
                "one, such as Uniform(0, 1) times a parameter in place of Uniform(0, parameter)"
            )
        if name in OPTIONS:
            raise CapabilityError(f"a site cannot be called {name!r}, which is an option of Model: call it otherwise")

    def log_density(p: Any) -> Array:
        def one(*values: Array) -> Array:
            with pyro.validation_enabled(False):  # it looks for nan, for which there is one answer for all chains
                return _trace(function, args, kwargs, dict(zip(spaces, values, strict=True))).log_prob_sum()

        return _over_chains(one, p, spaces)(*p)

    axes = {name: own for name, site in sites.items() if (own := _axes(name, site)) is not None}
    parameters: dict[str, Any] = dict(spaces)
    return Model(log_density, dims=axes | dict(dims or {}), coords=coords, **parameters)


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
    spaces = {name: _space(name, site) for name, site in _latent(function, args, kwargs).items()}

    def at(p: Any) -> dict[str, Array]:
        def one(*values: Array) -> dict[str, Array]:
            sites = _trace(function, args, kwargs, dict(zip(spaces, values, strict=True))).nodes
            return {name: site["value"] for name, site in sites.items() if _is_deterministic(site)}

        return _over_chains(one, p, spaces)(*p)

    return at


def _trace(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any], values: dict[str, Any]) -> Any:
    """A run of the model with some values given."""
    import pyro
    from pyro import poutine

    with pyro.validation_enabled(False):
        return poutine.trace(poutine.condition(function, data=values)).get_trace(*args, **kwargs)


def _over_chains(one: Callable[..., Any], p: Any, spaces: Mapping[str, Constrained]) -> Callable[..., Any]:
    """A function of the parameters of one chain, mapped over all leading axes."""
    for _ in range(p[0].ndim - len(next(iter(spaces.values())).shape)):
        one = torch.func.vmap(one)
    return one


def _latent(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    """The sites that are not observed."""
    check_function("function", function, "(*model_args, **model_kwargs)")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sites = _trace(function, args, kwargs, {}).nodes
    for name, site in sites.items():
        if site["type"] == "param":
            raise CapabilityError(f"{name} is a pyro.param, which has no prior: make it a pyro.sample")
        for plate in site.get("cond_indep_stack") or ():
            if plate.full_size is not None and plate.size != plate.full_size:
                raise CapabilityError(f"the plate {plate.name} takes a part of its rows: take all {plate.full_size}")
    latent = {
        name: site
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


def _space(name: str, site: Mapping[str, Any]) -> Constrained:
    from pyro.distributions import constraints

    return space_of(constraints, name, support_of(name, site["fn"]), tuple(site["value"].shape))


def _axes(name: str, site: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Names of the axes of a site's values, from its plates; None where it is in none that is vectorised."""
    plates = [plate for plate in site["cond_indep_stack"] if plate.dim is not None]
    if not plates:
        return None
    shape = site["value"].shape
    batch = len(shape) - site["fn"].event_dim
    axes = [f"{name}_dim_{axis}" for axis in range(len(shape))]
    for plate in plates:
        axes[batch + plate.dim] = plate.name
    return tuple(axes)
