"""Shared parts of the adaptors of other libraries' modules and probabilistic programs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, final

from xpsample.core.arrays import Array
from xpsample.core.checks import check_function, given
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.spaces.named import parameters
from xpsample.spaces.space import Constrained
from xpsample.targets.model import OPTIONS, Model

# ---- modules ---------------------------------------------------------------------------------------------------------


class ModuleFunction(ABC):
    """A module as a function of its inputs and of its parameters.

    Attributes
    ----------
    axes : dict of str to int
        The parameters, by name, and how many axes each has.
    """

    axes: dict[str, int]

    @final
    def __call__(self, *arguments: Any) -> Any:
        """``network(*inputs, parameters)``; for inputs (*runs, ...) also with parameters (*runs, 1, ...)."""
        *inputs, parameters = arguments
        if different := self.axes.keys() ^ parameters.keys():
            raise HyperparameterError(f"the parameters are {[*self.axes]}; missing, or unknown: {sorted(different)}")
        name, own = next(iter(self.axes.items()))
        runs = parameters[name].ndim - own
        if runs < 0 or (runs and parameters[name].shape[runs - 1] != 1):
            raise HyperparameterError(
                f"the parameters must be of one network, or of runs, (*runs, 1, ...); {name} has shape "
                f"{tuple(parameters[name].shape)}"
            )
        if not runs:
            return self.at(parameters, *inputs)
        one: Callable[..., Any] = self.at
        for _ in range(runs - 1):
            one = self.vmap(one, (0, *map(mapped_axis, inputs)))
        return one({name: leaf.squeeze(runs - 1) for name, leaf in parameters.items()}, *inputs)

    @abstractmethod
    def at(self, parameters: Any, *inputs: Any) -> Any:
        """Output of one network for a batch of inputs."""

    @abstractmethod
    def vmap(self, function: Callable[..., Any], axes: tuple[int | None, ...]) -> Callable[..., Any]:
        """The function mapped over these axes of its arguments."""

    @abstractmethod
    def of_networks(self, parameters: Any, chains: tuple[int, ...], inputs: tuple, at_once: int | None) -> Any:
        """Outputs of networks for the same rows, (*chains, rows, ...): parameters have one axis of networks.

        With `at_once`, so many networks at a time, and without derivatives.
        """


@final
@dataclass(frozen=True, eq=False)
class Networks:
    """The networks of all chains: what a log likelihood is given.

    Attributes
    ----------
    parameters : dict of str to array, each of shape (*chains, *shape)
    """

    network: ModuleFunction
    parameters: dict[str, Any]
    at_once: int | None = None

    def __call__(self, *inputs: Any) -> Any:
        """Output of each network for the same rows: an array (*chains, rows, ...), or a tree of such."""
        name, axes = next(iter(self.network.axes.items()))
        chains = tuple(self.parameters[name].shape[: self.parameters[name].ndim - axes])
        flat = {name: leaf.reshape(-1, *leaf.shape[len(chains) :]) for name, leaf in self.parameters.items()}
        return self.network.of_networks(flat, chains, inputs, self.at_once)


@final
@dataclass(frozen=True, eq=False)
class Prediction:
    """A function for `Trace.map`; `predict` of a backend makes it."""

    network: ModuleFunction
    inputs: tuple

    def __call__(self, p: Any) -> Any:
        return Networks(self.network, by_name(p, self.network.axes), at_once=1000)(*self.inputs)


def mapped_axis(value: Any) -> int | None:
    """The axis of an input that is mapped; a number is the same for all."""
    return 0 if getattr(value, "ndim", 0) else None


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


def by_name(p: Any, names: Iterable[str]) -> dict[str, Any]:
    """The parameters of a `Model` by their names in a module or program; HyperparameterError if they are others."""
    own = tuple(names)
    if getattr(p, "_fields", ()) != parameters(own)._fields:
        theirs = [*getattr(p, "_fields", ())]
        raise HyperparameterError(f"the draws have the parameters {theirs}; expected {[*own]}")
    return dict(zip(own, p, strict=True))


# ---- probabilistic programs ------------------------------------------------------------------------------------------


class Site(NamedTuple):
    """A latent site: the space of its values, and the names of their axes, or None where it is in no plate."""

    space: Constrained
    axes: tuple[str, ...] | None


@dataclass(frozen=True, eq=False)
class Program(ABC):
    """A probabilistic program and its arguments, whose latent sites are the parameters of a `Model`.

    Sites are dicts, as NumPyro and Pyro have them: with a type, a value, a distribution ``fn`` and a stack of plates.
    """

    function: Callable[..., Any]
    args: tuple
    kwargs: dict[str, Any]

    @property
    @abstractmethod
    def library(self) -> str:
        """The library's name."""

    @abstractmethod
    def sites(self, values: Mapping[str, Any], seed: int = 0) -> Mapping[str, Any]:
        """The sites of a run, by name, with some values given."""

    @abstractmethod
    def log_density(self, values: dict[str, Array]) -> Array:
        """The library's own log density, of one chain."""

    @abstractmethod
    def is_latent(self, site: Any) -> bool:
        """Return whether a site is sampled and not observed."""

    @abstractmethod
    def is_deterministic(self, site: Any) -> bool:
        """Return whether a site is a named function of others."""

    @abstractmethod
    def subsampled(self, sites: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
        """Names and sizes of the plates that use only some of their rows."""

    @abstractmethod
    def space(self, name: str, site: Any) -> Constrained:
        """The space of a latent site's values."""

    @abstractmethod
    def vmap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function mapped over the first axes of its arguments."""

    @final
    def model(self, dims: Mapping[str, Any] | None, coords: Mapping[str, Any] | None) -> Model:
        """A `Model` whose parameters are the latent sites.

        CapabilityError for sites that come and go or have no certain support, and for names that a model cannot have.
        """
        sites, again = self.latent(0), self.latent(1)
        for name in {**sites, **again}:
            if sites.get(name) != again.get(name):
                raise CapabilityError(
                    f"{name} has another support, or is missing, for other values of the parameters. Use a fixed "
                    "support: Uniform(0, 1) * parameter instead of Uniform(0, parameter)."
                )
            if name in OPTIONS:
                raise CapabilityError(
                    f"a site cannot be called {name!r}, which is an option of Model: call it otherwise"
                )
        axes = {name: site.axes for name, site in sites.items() if site.axes is not None}
        spaces: dict[str, Any] = {name: site.space for name, site in sites.items()}
        density = self.over_chains(self.log_density, sites)
        return Model(density, dims=axes | dict(dims or {}), coords=coords, **spaces)

    @final
    def generated(self) -> Callable[[Any], dict[str, Array]]:
        """A function for `Trace.map`: the values of deterministic sites at draws, by name."""

        def one(values: dict[str, Array]) -> dict[str, Array]:
            return {n: site["value"] for n, site in self.sites(values).items() if self.is_deterministic(site)}

        return self.over_chains(one, self.latent())

    @final
    def latent(self, seed: int = 0) -> dict[str, Site]:
        """The sites that are not observed; their axes in plates are called what the plates are."""
        check_function("function", self.function, "(*model_args, **model_kwargs)")
        try:
            sites = self.sites({}, seed)
        except NotImplementedError as error:
            raise CapabilityError(
                "a distribution of the model has no draws, such as ImproperUniform: set a proper prior"
            ) from error
        lower = self.library.lower()
        for name, site in sites.items():
            if site["type"] == "param":
                raise CapabilityError(f"{name} is a {lower}.param, which has no prior: make it a {lower}.sample")
        for plate, size in self.subsampled(sites):
            raise CapabilityError(f"the plate {plate} uses a part of its rows: use all {size}")
        latent: dict[str, Site] = {}
        for name, site in sites.items():
            if self.is_latent(site):
                space = self.space(name, site)
                axes = [f"{name}_dim_{axis}" for axis in range(len(space.shape))]
                plates = [plate for plate in site["cond_indep_stack"] if plate.dim is not None]
                for plate in plates:  # whose axes are counted from the last batch axis: -1, -2, ...
                    axes[len(axes) - site["fn"].event_dim + plate.dim] = plate.name
                latent[name] = Site(space, tuple(axes) if plates else None)
        if not latent:
            raise CapabilityError(f"the {self.library} model has no latent site: what it samples is all observed")
        return latent

    @final
    def over_chains(self, one: Callable[[dict[str, Array]], Any], sites: Mapping[str, Site]) -> Callable[[Any], Any]:
        """A function of the values of one chain by name, at the parameters of a `Model`, (*chains, *shape) each."""
        first = len(next(iter(sites.values())).space.shape)

        def of_chains(p: Any) -> Any:
            mapped = one
            for _ in range(p[0].ndim - first):
                mapped = self.vmap(mapped)
            return mapped(by_name(p, sites))

        return of_chains
