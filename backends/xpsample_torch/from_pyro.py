"""Models of Pyro as models of xpsample: names, constraints and plates are kept."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, final

import torch

from xpsample.core.arrays import Array
from xpsample.interop.adaptors import Program
from xpsample.spaces.space import Constrained
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
        The model, as passed to Pyro's own samplers: a function or a `PyroModule`, with the handlers around it.
    model_args : sequence
        What it is called with, observations among them, on the positions' device.
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
        For discrete latent sites, priors that are not proper, `pyro.param`, plates that subsample, sites that come and
        go or have no certain support, and supports that no space stands for (`space_of`).

    Notes
    -----
    Distributions do not check their arguments meanwhile: values on an edge by rounding would end a run by an error. A
    model cannot branch on a latent value, since chains differ in it.

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
    return _PyroProgram(function, tuple(model_args), dict(model_kwargs or {})).model(dims, coords)


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
    return _PyroProgram(function, tuple(model_args), dict(model_kwargs or {})).generated()


@final
class _PyroProgram(Program):
    library = "Pyro"

    def sites(self, values: Mapping[str, Any], seed: int = 0) -> Mapping[str, Any]:
        if values:
            return self._trace(values).nodes
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self._trace(values).nodes

    def log_density(self, values: dict[str, Array]) -> Array:
        import pyro

        with pyro.validation_enabled(False):  # it looks for nan, for which there is one answer for all chains
            return self._trace(values).log_prob_sum()

    def _trace(self, values: Any) -> Any:
        import pyro
        from pyro import poutine

        with pyro.validation_enabled(False):
            return poutine.trace(poutine.condition(self.function, data=values)).get_trace(*self.args, **self.kwargs)

    def is_latent(self, site: Any) -> bool:
        from pyro.poutine.subsample_messenger import _Subsample  # the site of a plate, whose values are its indices

        return site["type"] == "sample" and not site["is_observed"] and not isinstance(site["fn"], _Subsample)

    def is_deterministic(self, site: Any) -> bool:
        return site["type"] == "sample" and site["infer"].get("_deterministic", False)

    def subsampled(self, sites: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
        plates = [plate for site in sites.values() for plate in site.get("cond_indep_stack") or ()]
        return ((plate.name, plate.full_size) for plate in plates if plate.full_size not in (None, plate.size))

    def space(self, name: str, site: Any) -> Constrained:
        from pyro.distributions import constraints

        return space_of_prior(constraints, name, site["fn"], tuple(site["value"].shape))

    def vmap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return torch.func.vmap(function)
