"""Models: a log density of named parameters, each in its own space."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array, is_array
from xpsample.core.backend import Backend
from xpsample.core.checks import broadcasts, check_function, given
from xpsample.core.errors import CapabilityError, HyperparameterError, LogDensityError, PositionError
from xpsample.core.hyperparameters import check_range
from xpsample.core.registry import backend_of, namespace, to_host
from xpsample.core.tree import Tree, dtype_name
from xpsample.gradients.choices import Auto, GradientChoice
from xpsample.spaces.named import Named, named, parameters
from xpsample.spaces.space import Space, check_positions
from xpsample.targets.batched import Lifted
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability
from xpsample.targets.start import StartMethod, around, chain_axes, found
from xpsample.targets.target import AbstractTarget, Target, check_target

AUTO = Auto()

OPTIONS = ("data", "gradient", "constrained", "dims", "coords")
"""Names that a parameter cannot have."""


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Model(AbstractTarget):
    """A distribution of named parameters.

    Chains move in unconstrained coordinates, ``(*chains, dim)``. The log density sees the parameters' values, and the
    Jacobian of the map between them is taken care of. The trace gives values by name: ``trace["tau"]``.

    Parameters
    ----------
    log_density : callable
        ``log_density(p)``, or ``log_density(p, data)`` when `data` is given. ``p`` has each parameter as an attribute,
        ``p.tau`` of shape ``(*chains, *shape)``; the result has shape ``(*chains)``. A density with respect to the
        values, not to the coordinates, and unnormalized.
    data : tree of arrays, optional
        As for `Target`.
    gradient : GradientChoice
        How the score is obtained, as for `Target`.
    constrained : bool
        Whether the log density is -inf outside a set on purpose, beyond what the spaces say.
    dims : mapping of str to str or sequence of str, optional
        Names for the axes of a parameter's values, such as ``{"theta": "school"}``.
    coords : mapping of str to sequence, optional
        What the places along such an axis are called, such as ``{"school": ["A", "B", "C"]}``. Tables and ArviZ show
        them.
    **parameters : Space
        The space of each parameter: ``mu=Real(), tau=Positive(), theta=Real(8)``.

    Raises
    ------
    HyperparameterError
        If a parameter has no space, or `dims` and `coords` do not fit.

    See Also
    --------
    Target : A density of one vector.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> heights = np.array([1.62, 1.75, 1.81, 1.69])
    >>> def log_density(p, heights):
    ...     z = (heights - p.mu[..., None]) / p.sigma[..., None]
    ...     return -0.5 * (z**2).sum(-1) - 5 * np.log(p.sigma)
    >>> model = xps.Model(log_density, mu=xps.Real(), sigma=xps.Positive(), data=heights)
    >>> x0 = model.start(like=np.zeros(0), chains=4, seed=0)
    >>> x0.shape
    (4, 2)
    """

    log_density: Callable[..., Array]
    space: Named
    data: Tree
    gradient: GradientChoice
    constrained: bool
    _target: Target = field(repr=False)

    def __init__(
        self,
        log_density: Callable[..., Array],
        /,
        *,
        data: Tree = None,
        gradient: GradientChoice = AUTO,
        constrained: bool = False,
        dims: Mapping[str, Any] | None = None,
        coords: Mapping[str, Any] | None = None,
        **parameters: Space,
    ) -> None:
        check_function("log_density", log_density, "(p)")
        for name, value in zip(OPTIONS, (data, gradient, constrained, dims, coords), strict=True):
            if isinstance(value, Space):
                raise HyperparameterError(f"a parameter cannot be called {name!r}, which is an option of Model")
        space = named(parameters, dims, coords)
        target = Target(
            _OfCoordinates(log_density, space), gradient=gradient, data=data, space=space, constrained=constrained
        )
        self._settle(log_density, target)

    @classmethod
    def of_target(cls, target: Target) -> "Model":
        """A model by a target in unconstrained coordinates, such as one with its own derivatives.

        Parameters
        ----------
        target : Target
            Its space is a `Named`, and the log Jacobian determinants of that are in its log density.
        """
        check_target("target", target)
        if not isinstance(target.space, Named):
            raise CapabilityError(f"a model's parameters have names; the target's space is {target.space!r}")
        model = object.__new__(cls)
        model._settle(target.log_density, target)
        return model

    def _settle(self, log_density: Any, target: Target) -> None:
        own = {"log_density": log_density, "space": target.space, "data": target.data, "gradient": target.gradient}
        for name, value in {**own, "constrained": target.constrained, "_target": target}.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        spaces = (f"{name}={space!r}" for name, space in zip(self.space.names, self.space.parts, strict=True))
        return f"Model({', '.join([getattr(self.log_density, '__name__', 'log_density'), *spaces])})"

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters, in order."""
        return self.space.names

    @property
    def target(self) -> Target:
        """The same distribution as a `Target` of the unconstrained coordinates."""
        return self._target

    def with_data(self, data: Tree) -> "Model":
        """Return the same target with other data."""
        model = object.__new__(type(self))
        model._settle(self.log_density, self._target.with_data(data))
        return model

    def place_data(self, backend: Backend, x: Array) -> Tree:
        """Return the data in the library, on the device and in the dtype of x."""
        return self._target.place_data(backend, x)

    def prepare(self, x: Array, requires: Capability) -> BoundTarget:
        """Prepare as `Target.prepare`, for positions in unconstrained coordinates."""
        return self._target.prepare(x, requires)

    def start(
        self,
        like: Array,
        chains: int | tuple[int, ...] = 4,
        *,
        seed: int,
        scale: Any = 1.0,
        values: Mapping[str, Any] | None = None,
        method: StartMethod | None = None,
    ) -> Array:
        """Random start positions where log density and score are finite, as `xpsample.start` draws them.

        Unconstrained coordinates are normal with mean 0 and standard deviation `scale`; discrete values are uniform.

        Parameters
        ----------
        like : array
            Array with the library, floating dtype and device for the positions; its shape does not matter.
        chains : int or tuple of int
            Chains, or the chain axes of a sweep, such as ``(groups, chains)``.
        seed : int
            The same positions on every library, to the rounding of the dtype.
        scale : float or array, shape (dim,)
        values : mapping of str to array, optional
            Parameters that start at given values, of shape ``(*chains, *shape)`` or the same for all chains,
            ``(*shape)``.
        method : StartMethod, optional
            `Pathfinder` or `Laplace`, which begin at such random positions and find better ones.

        Returns
        -------
        array, shape (*chains, dim)

        Raises
        ------
        PositionError
            If a name is unknown, a shape is wrong, or a value does not lie in its space.
        LogDensityError
            If a position has no finite log density after 100 draws.
        """
        check_positions(like)
        check_range("scale", scale, 0)
        if not isinstance(values, Mapping | None):
            raise PositionError(f"values must be a mapping, such as {{'mu': 1.0}}; got {given(values)}")
        if not hasattr(like, "dtype") or dtype_name(like) not in ("float32", "float64"):
            raise PositionError(f"like must be an array of float32 or float64; got {given(like)}")
        spread, axes, held = np.asarray(to_host(scale) if is_array(scale) else scale), chain_axes(chains), {}
        if spread.shape not in ((), (self.space.dim,)):
            raise HyperparameterError(f"scale must be a number or have shape ({self.space.dim},); got {given(scale)}")
        for name, value in (values or {}).items():
            try:
                host = np.asarray(to_host(value) if is_array(value) else value, dtype=dtype_name(like))
            except (TypeError, ValueError, OverflowError):
                raise PositionError(f"values of {name} must be numbers or an array; got {given(value)}") from None
            xp, part = array_namespace(host), self.space.part(name)
            self.space.check_value(xp, name, host)
            own = host.shape[: host.ndim - len(part.shape)]
            if not broadcasts(own, axes):
                raise PositionError(f"values of {name} are of chains {own}, which do not fit the chains {axes}")
            held[name] = part.unconstrain(xp, host)

        def positions(normals: np.ndarray) -> np.ndarray:
            drawn = self.space.from_normals(normals)
            return self.space.put(array_namespace(drawn), drawn, held) if held else drawn

        middle = np.zeros(self.space.dim, dtype=dtype_name(like))
        return found(method, self, lambda n: around(self, middle, spread, like, n, seed, positions), chains, seed)

    def values(self, x: Array) -> Any:
        """The parameters' values at positions ``(*chains, dim)``: a named tuple of arrays ``(*chains, *shape)``."""
        xp = backend_of(x).xp
        self.space.check(xp, x)
        return parameters(self.names)(*self.space.constrain(xp, x)[0])

    def position(self, values: Mapping[str, Array]) -> Array:
        """Positions ``(*chains, dim)`` of values by name.

        Parameters
        ----------
        values : mapping of str to array, each of shape (*chains, *shape)
            In one library, on one device.

        Raises
        ------
        PositionError
            If a name is missing or unknown, a shape is wrong, or a value does not lie in its space.
        """
        return self.space.position(values)


@dataclass(frozen=True, eq=False)
class _OfCoordinates:
    """A log density of parameters as one of unconstrained coordinates; a value, so that workers can be sent it."""

    log_density: Callable[..., Array]
    space: Named

    def __call__(self, x: Array, *data: Any) -> Array:
        values, log_jacobian = self.space.constrain(namespace(x), x)
        p, chains = parameters(self.space.names)(*values), tuple(log_jacobian.shape)
        of_one = self.log_density if isinstance(self.log_density, Lifted) else None
        density = self.log_density(p, *data) if of_one is None else of_one.over(p, chains, *data)
        return check_density(density, log_jacobian.shape) + log_jacobian

    @property
    def raising(self) -> Callable[..., Array]:
        """The same density, whose exceptions are errors."""
        return _OfCoordinates(getattr(self.log_density, "raising", self.log_density), self.space)


def check_density(density: Any, chains: Any) -> Array:
    """Return a model's density; raise LogDensityError unless it has the shape of the chains."""
    if getattr(density, "shape", None) != chains:
        got = tuple(density.shape) if is_array(density) else given(density)
        if density is None:
            raise LogDensityError("the log density of a model gives None: let the function end with return")
        raise LogDensityError(
            f"the log density of a model has shape (*chains), here {tuple(chains)}; got {got}: values have shape "
            "(*chains, *shape), so sum over the axes of the shape only"
        )
    return density
