"""What the adaptors of modules share: priors by patterns of names, and the parameters of one network or of many."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from xpsample.core.arrays import Array
from xpsample.core.checks import given
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.spaces.named import parameters
from xpsample.targets.model import OPTIONS


def prior_of(prior: Any, name: str, shape: tuple[int, ...], kind: Any) -> Any:
    """The prior of a parameter, in its shape.

    Parameters
    ----------
    prior : distribution, or mapping of str to distribution
        Of every parameter, or by patterns of names, such as ``"*.bias"``, of which the first that fits counts.
    name : str
    shape : tuple of int
    kind : type
        ``torch.distributions.Distribution`` or ``numpyro.distributions.Distribution``.

    Returns
    -------
    distribution
        Its batch and event axes together are the shape.

    Raises
    ------
    CapabilityError
        If a model could have no parameter of that name.
    HyperparameterError
        If no pattern fits, or the prior is no distribution or does not broadcast to the shape.

    Examples
    --------
    >>> from torch.distributions import Distribution, Normal
    >>> from xpsample.interop.modules import prior_of
    >>> prior_of({"*.bias": Normal(0.0, 10.0), "*": Normal(0.0, 1.0)}, "layers.0.bias", (3,), Distribution).stddev
    tensor([10., 10., 10.])
    """
    own: Any = prior
    if name in OPTIONS:
        raise CapabilityError(f"a parameter cannot be called {name!r}, which is an option of Model: call it otherwise")
    if isinstance(prior, Mapping):
        own = next((value for pattern, value in prior.items() if fnmatchcase(name, pattern)), None)
        if own is None:
            raise HyperparameterError(f'{name} has no prior: no pattern fits it, of {[*prior]}; "*" fits all')
    if not isinstance(own, kind):
        raise HyperparameterError(f"the prior of {name} is a distribution, such as Normal(0, 1); got {given(own)}")
    batch, event = tuple(own.batch_shape), tuple(own.event_shape)
    axes = len(shape) - len(event)
    if axes >= 0 and shape[axes:] == event:
        try:
            return own.expand(shape[:axes])
        except (RuntimeError, ValueError):  # what the libraries say to a shape that does not broadcast
            pass
    raise HyperparameterError(f"the prior of {name} has shape {batch + event}, which does not broadcast to {shape}")


def runs_of(parameters: Mapping[str, Array], axes: Mapping[str, int]) -> int:
    """The axes in front of those of a network's parameters, the last of them of length 1; 0 for one network.

    Parameters
    ----------
    parameters : mapping of str to array
        ``(*shape)`` each, or ``(*runs, 1, *shape)``.
    axes : mapping of str to int
        How many axes each has in one network.

    Raises
    ------
    HyperparameterError
        For other names, and for other axes in front.
    """
    if different := axes.keys() ^ parameters.keys():
        raise HyperparameterError(f"the parameters are {[*axes]}; missing, or unknown: {sorted(different)}")
    name = next(iter(axes))
    more = parameters[name].ndim - axes[name]
    if more < 0 or (more and parameters[name].shape[more - 1] != 1):
        raise HyperparameterError(
            f"the parameters are those of one network, or of runs, (*runs, 1, ...); {name} has shape "
            f"{tuple(parameters[name].shape)}"
        )
    return more


def by_name(p: Any, names: Iterable[str]) -> dict[str, Any]:
    """The parameters of a `Model`, by the names that they have in a module or a program.

    Raises
    ------
    HyperparameterError
        If they are those of another one.
    """
    own = tuple(names)
    if getattr(p, "_fields", ()) != parameters(own)._fields:
        theirs = [*getattr(p, "_fields", ())]
        raise HyperparameterError(f"the draws have the parameters {theirs}, and {[*own]} are asked for")
    return dict(zip(own, p, strict=True))
