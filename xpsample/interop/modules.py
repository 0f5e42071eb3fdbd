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
    """The prior of a parameter, whose batch and event axes together are its shape.

    `prior` is a distribution for every parameter, or a mapping from patterns of names, such as ``"*.bias"``, of which
    the first that fits counts; `kind` is the library's class of distributions. CapabilityError if a model could have no
    parameter of that name, HyperparameterError if no pattern fits, or the prior is no distribution or does not
    broadcast.
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

    Each is ``(*shape)`` or ``(*runs, 1, *shape)``; `axes` says how many it has in one network. HyperparameterError for
    other names or axes.
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
    """The parameters of a `Model` by their names in a module or program; HyperparameterError if they are others."""
    own = tuple(names)
    if getattr(p, "_fields", ()) != parameters(own)._fields:
        theirs = [*getattr(p, "_fields", ())]
        raise HyperparameterError(f"the draws have the parameters {theirs}, and {[*own]} are asked for")
    return dict(zip(own, p, strict=True))
