"""What the adaptors of probabilistic programs share: latent sites as the parameters of a `Model`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from xpsample.core.arrays import Array
from xpsample.core.errors import CapabilityError
from xpsample.interop.modules import by_name
from xpsample.spaces.space import Constrained
from xpsample.targets.model import OPTIONS, Model


class Site(NamedTuple):
    """A latent site: the space of its values, and the names of their axes, or None where it is in no plate."""

    space: Constrained
    axes: tuple[str, ...] | None


def site_of(name: str, space: Constrained, event_dim: int, plates: Sequence[tuple[str, int]]) -> Site:
    """A site whose axes in plates are called what the plates are.

    `space` is that of the values, of batch and event axes, of which `event_dim` are those of one draw. `plates` has the
    name and the axis of each, counted from the last batch axis: -1, -2, ...
    """
    axes = [f"{name}_dim_{axis}" for axis in range(len(space.shape))]
    for plate, axis in plates:
        axes[len(axes) - event_dim + axis] = plate
    return Site(space, tuple(axes) if plates else None)


@contextmanager
def proper_priors() -> Iterator[None]:
    """Around a run of a program: refuse distributions that no value can be drawn from."""
    try:
        yield
    except NotImplementedError as error:
        raise CapabilityError(
            "a distribution of the model has no draws, such as ImproperUniform: give its parameter a proper prior"
        ) from error


def model_of(
    read: Callable[[int], Mapping[str, Site]],
    log_density: Callable[[dict[str, Array]], Array],
    vmap: Callable[[Callable[..., Any]], Callable[..., Any]],
    dims: Mapping[str, Any] | None,
    coords: Mapping[str, Any] | None,
) -> Model:
    """A `Model` whose parameters are the latent sites of a program, ``read(seed)`` by name, and a density of one chain.

    CapabilityError for sites that come and go or have no certain support, and for names that a model cannot have.
    """
    sites, again = read(0), read(1)
    for name in {**sites, **again}:
        if sites.get(name) != again.get(name):
            raise CapabilityError(
                f"{name} has another support, or is missing, when other parameters have other values: give it a fixed "
                "one, such as Uniform(0, 1) times a parameter in place of Uniform(0, parameter)"
            )
        if name in OPTIONS:
            raise CapabilityError(f"a site cannot be called {name!r}, which is an option of Model: call it otherwise")
    axes = {name: site.axes for name, site in sites.items() if site.axes is not None}
    spaces: dict[str, Any] = {name: site.space for name, site in sites.items()}
    return Model(
        lambda p: over_chains(vmap, log_density, p, sites), dims=axes | dict(dims or {}), coords=coords, **spaces
    )


def over_chains(
    vmap: Callable[[Callable[..., Any]], Callable[..., Any]],
    one: Callable[[dict[str, Array]], Any],
    p: Any,
    sites: Mapping[str, Site],
) -> Any:
    """A function of the values of one chain by name, at the parameters of a `Model`, ``(*chains, *shape)`` each."""
    for _ in range(p[0].ndim - len(next(iter(sites.values())).space.shape)):
        one = vmap(one)
    return one(by_name(p, sites))
