"""Models of distributions from torch.distributions."""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from torch.distributions import Distribution, TransformedDistribution, VonMises, constraints

from xpsample.core.arrays import Array
from xpsample.core.checks import check_function, given
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.core.tree import Tree
from xpsample.interop.constraints import space_of
from xpsample.spaces.constrained import Circular
from xpsample.spaces.space import Constrained
from xpsample.targets.batched import REJECTIONS, Lifted
from xpsample.targets.model import Model, check_density


def model(
    log_likelihood: Callable[..., Array] | None = None,
    /,
    *,
    data: Tree = None,
    dims: Mapping[str, Any] | None = None,
    coords: Mapping[str, Any] | None = None,
    **priors: Distribution,
) -> Model:
    """A `Model` of torch tensors whose parameters have priors from torch.distributions.

    Parameters
    ----------
    log_likelihood : callable, optional
        ``log_likelihood(p)``, or ``log_likelihood(p, data)``, as the log density of a `Model`, without the priors. The
        priors alone when not given.
    data : tree of arrays, optional
        As for `Model`.
    dims, coords : mapping, optional
        As for `Model`.
    **priors : torch.distributions.Distribution
        Independent priors of the parameters. A parameter has the shape of a draw, batch and event axes. Their
        own tensors must be on the positions' device.

    Returns
    -------
    Model
        Each parameter is in the space that the support of its prior is.

    Raises
    ------
    CapabilityError
        For a discrete prior, one whose support torch does not know, or a support that no space stands for.
    HyperparameterError
        If a prior is no distribution.

    Notes
    -----
    Values are in the support of their prior by construction, so priors do not check them. Distributions that you make
    in `log_likelihood` do, and raise for extreme proposals or values rounded to the edge, such as a scale of 0.
    Such a proposal is rejected like any other; at the start it is an error.

    Examples
    --------
    >>> import torch
    >>> import xpsample as xps
    >>> from torch.distributions import HalfCauchy, Normal
    >>> from xpsample_torch import from_distributions
    >>> y = torch.tensor([28.0, 8.0, -3.0, 7.0])
    >>> def log_likelihood(p, y):
    ...     return Normal(p.mu[..., None], 10 + p.tau[..., None]).log_prob(y).sum(-1)
    >>> model = from_distributions.model(log_likelihood, data=y, mu=Normal(0.0, 5.0), tau=HalfCauchy(5.0))
    >>> x0 = model.start(like=torch.zeros(0), chains=4, seed=0)
    >>> trace = xps.sample(model, xps.NUTS(0.5), x0, 50, seed=1, progress=False)
    >>> trace["tau"].shape, bool((trace["tau"] > 0).all())
    (torch.Size([50, 4]), True)
    """
    if log_likelihood is not None:
        check_function("log_likelihood", log_likelihood, "(p)")
    spaces: dict[str, Any] = {}
    for name, prior in priors.items():
        if not isinstance(prior, Distribution):
            raise HyperparameterError(
                f"the prior of {name} is a distribution, such as Normal(0, 1); got {given(prior)}"
            )
        spaces[name] = space_of_prior(constraints, name, prior, tuple(prior.batch_shape + prior.event_shape))
    density = Posterior(tuple(_unchecked(prior) for prior in priors.values()), log_likelihood)
    return Model(density, data=data, dims=dims, coords=coords, **spaces)


@dataclass(frozen=True, eq=False)
class Posterior:
    """Independent priors and a log likelihood, as the log density of a `Model`.

    Distributions in the likelihood check their arguments for all chains together, and an extreme proposal has none that
    pass: then the chains are evaluated by halves, and those that raise get -inf.
    """

    priors: tuple[Distribution, ...]
    log_likelihood: Callable[..., Array] | None
    rejects: tuple[type[Exception], ...] = (ValueError, torch.linalg.LinAlgError)

    def __call__(self, p: Any, *data: Any) -> Array:
        terms: list[Array] = [
            _summed(prior.log_prob(value), prior) for value, prior in zip(p, self.priors, strict=True)
        ]
        if self.log_likelihood is not None:
            terms.append(check_density(self._likelihood(p, tuple(terms[0].shape), data), terms[0].shape))
        return sum(terms[1:], start=terms[0])

    @property
    def raising(self) -> "Posterior":
        """The same density, whose exceptions are errors."""
        return replace(self, rejects=())

    def _likelihood(self, p: Any, chains: tuple[int, ...], data: tuple) -> Array:
        assert self.log_likelihood is not None
        try:
            if isinstance(self.log_likelihood, Lifted):
                return self.log_likelihood.over(p, chains, *data)
            return self.log_likelihood(p, *data)
        except self.rejects as error:
            if prod(chains) == 1:
                REJECTIONS.count += 1
                return torch.full_like(p[0].detach().reshape(-1)[0], -torch.inf).expand(chains)
            flat = [value.reshape(-1, *value.shape[len(chains) :]) for value in p]
            middle = prod(chains) // 2
            halves: list[Any] = []
            for part in (slice(None, middle), slice(middle, None)):
                own = type(p)(*(value[part] for value in flat))
                halves.append(self._likelihood(own, tuple(own[0].shape[:1]), data))
                if halves[-1].shape != own[0].shape[:1]:  # data with chain axes do not fit a half
                    raise error
            return torch.cat(halves).reshape(chains)


def space_of_prior(constraints: Any, name: str, prior: Distribution, shape: tuple[int, ...]) -> Constrained:
    """The space of a parameter's values, (*shape) of one chain; `constraints` is the module of their supports.

    Raises
    ------
    CapabilityError
        If torch does not know the support, or no space represents it.
    """
    if _is_angle(prior):
        return Circular(*shape)
    try:
        support = prior.support
    except NotImplementedError as error:
        kind = type(prior).__name__
        raise CapabilityError(f"the prior of {name}, {kind}, does not say where its values are") from error
    _check_support(name, prior)
    return space_of(constraints, name, support, shape)


def _is_angle(prior: Distribution) -> bool:
    """Return whether values are angles; torch calls them all reals, where the density repeats and chains drift."""
    inside = () if isinstance(prior, TransformedDistribution) else vars(prior).values()
    return isinstance(prior, VonMises) or any(_is_angle(own) for own in inside if isinstance(own, Distribution))


def _check_support(name: str, prior: Any) -> None:
    """Raise CapabilityError where the support that torch tells is larger than where the values are.

    That of a `TransformedDistribution` is the codomain of its last transform, whatever goes into that: right where all
    real numbers do. Outside, the density would be a number that means nothing.
    """
    if getattr(type(prior), "support", None) is TransformedDistribution.support:  # the class itself declares no more
        before = [prior.base_dist.support, *(transform.codomain for transform in prior.transforms[:-1])]
        if any(_flat(support) is not constraints.real for support in before):
            raise CapabilityError(
                f"the support of {name} is unknown, since a transform of its prior starts from part of the reals. "
                "Sample the untransformed parameter and transform it in log_likelihood."
            )
    for value in vars(prior).values():
        if isinstance(value, Distribution):
            _check_support(name, value)


def _flat(support: Any) -> Any:
    """Elementwise part of a constraint."""
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    return support


def _summed(log_prob: torch.Tensor, prior: Distribution) -> torch.Tensor:
    """The sum over a distribution's batch axes."""
    axes = tuple(range(-len(prior.batch_shape), 0))
    return torch.sum(log_prob, dim=axes) if axes else log_prob


def _unchecked(prior: Distribution) -> Distribution:
    """A copy that does not check values: those on an edge by rounding would end a run by an error."""
    own = copy(prior)
    own._validate_args = False
    for name, value in vars(prior).items():
        if isinstance(value, Distribution):
            setattr(own, name, _unchecked(value))
    return own
