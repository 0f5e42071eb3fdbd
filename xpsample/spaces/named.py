"""Named spaces side by side: the space of a model's parameters."""

import math
from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array, is_array
from xpsample.core.backend import Backend
from xpsample.core.checks import given
from xpsample.core.errors import HyperparameterError, PositionError
from xpsample.core.registry import backend_of, check_same_home
from xpsample.spaces.discrete import Discrete, Unmapped
from xpsample.spaces.names import check_axes, check_names
from xpsample.spaces.space import AsMany, Constrained, Real, Space, at_place


@dataclass(frozen=True, repr=False)
class States(AsMany):
    """Values of an unmapped space as a parameter: its coordinates are its values."""

    space: Unmapped
    shape: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", self.space.axes)

    def __repr__(self) -> str:
        return repr(self.space)

    def _constrain(self, xp: Any, z: Array) -> tuple[Array, Array]:
        return z, xp.zeros_like(z)

    def _unconstrain(self, xp: Any, value: Array) -> Array:
        return value

    def _inside(self, xp: Any, value: Array) -> Array:
        try:
            self.space.check(xp, xp.reshape(value, (-1, self.dim)))
        except PositionError:
            return xp.zeros_like(value, dtype=xp.bool)
        return xp.ones_like(value, dtype=xp.bool)


@dataclass(frozen=True)
class Named(Space):
    """Spaces with names. A position holds their unconstrained coordinates, one after the other.

    `dims` has what the axes of a parameter's values are called, and `coords` what the places along such an axis are.
    """

    names: tuple[str, ...]
    parts: tuple[Constrained, ...]
    dims: tuple[tuple[str, tuple[str, ...]], ...] = ()
    coords: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    bound: tuple[Unmapped, ...] = field(default=(), compare=False, repr=False)  # spaces of the discrete parts

    def __post_init__(self) -> None:
        known = dict(zip(self.names, self.parts, strict=True))
        check_names(self.names)
        for name, axes in self.dims:
            if name not in known:
                raise HyperparameterError(f"dims names {name!r}, which is no parameter; there are {list(known)}")
            shape = known[name].shape
            if len(axes) != len(shape):
                raise HyperparameterError(f"dims has {len(axes)} axes for {name}, whose values have shape {shape}")
        every = check_axes({n: self.axes(n) for n in known}, {n: part.shape for n, part in known.items()})
        sizes = {axis: every[axis] for _, axes in self.dims for axis in axes}
        for axis, labels in self.coords:
            if axis not in sizes:
                raise HyperparameterError(f"coords names {axis!r}, which is no axis in dims; there are {list(sizes)}")
            if len(labels) != sizes[axis]:
                raise HyperparameterError(
                    f"coords has {len(labels)} labels for {axis!r}, which has {sizes[axis]} places"
                )
        if any("[" in name for name in self.names) and len(set(self.labels)) < len(self.labels):
            raise HyperparameterError(
                f"two rows of a table would be called the same, of the parameters {', '.join(self.names)}: give one of "
                "them a name without brackets"
            )

    @cached_property
    def dim(self) -> int:
        """Unconstrained coordinates of all parts together."""
        return sum(part.dim for part in self.parts)

    def part(self, name: str) -> Constrained:
        """The space of one parameter."""
        return self.parts[self._place(name)]

    def coordinates(self, name: str) -> slice:
        """Return the coordinates of a position that belong to a parameter."""
        return self._places[self._place(name)]

    @cached_property
    def _places(self) -> tuple[slice, ...]:
        ends = list(accumulate(part.dim for part in self.parts))
        return tuple(slice(end - part.dim, end) for end, part in zip(ends, self.parts, strict=True))

    def check(self, xp: Any, x: Array) -> None:
        Real().check(xp, x)
        if x.shape[-1] != self.dim:
            sizes = ", ".join(f"{name}: {part.dim}" for name, part in zip(self.names, self.parts, strict=True))
            raise PositionError(
                f"positions of this model have {self.dim} coordinates ({sizes}); got shape "
                f"{tuple(x.shape)}. Use the positions of model.start(...) or model.position(...)."
            )
        for name, part in zip(self.names, self.parts, strict=True):
            if isinstance(part, States):
                part.space.check(xp, x[..., self.coordinates(name)])

    def bind(self, backend: Backend, x: Array) -> Space:
        named = zip(self.names, self.parts, strict=True)
        discrete = [(name, part.space) for name, part in named if isinstance(part, States)]
        if not discrete:
            return self
        bound: Any = tuple(space.bind(backend, x[..., self.coordinates(name)]) for name, space in discrete)
        return replace(self, bound=bound)

    def take(self, xp: Any, x: Array, names: Sequence[str]) -> Array:
        """The coordinates of some parts, one after the other."""
        parts = [x[..., self.coordinates(name)] for name in names]
        return parts[0] if len(parts) == 1 else xp.concat(parts, axis=-1)

    def put(self, xp: Any, x: Any, parts: Mapping[str, Any]) -> Any:
        """Positions with the coordinates of some parts replaced; chain axes may be added in front."""
        first = next(iter(parts.values()))
        axes = np.broadcast_shapes(tuple(first.shape[:-1]), tuple(x.shape[:-1]))
        pieces = []
        for name in self.names:
            piece = parts[name] if name in parts else x[..., self.coordinates(name)]
            pieces.append(piece if piece.shape[:-1] == axes else xp.broadcast_to(piece, (*axes, piece.shape[-1])))
        return xp.concat(pieces, axis=-1)

    @cached_property
    def mirrors(self) -> int:
        """The number of variables that have a mirror."""
        spaces = ((part.space, part.dim) for part in self.parts if isinstance(part, States))
        return sum(space.variables(dim) for space, dim in spaces if isinstance(space, Discrete))

    def mirrored(self, xp: Any, x: Array) -> Array:
        """Positions with one discrete variable mirrored in each: ``(*chains, dim) -> (mirrors, *chains, dim)``.

        Defined for a bound space with discrete parts.
        """
        names = [name for name, part in zip(self.names, self.parts, strict=True) if isinstance(part, States)]
        found = []
        for name, space in zip(names, self.bound, strict=True):
            if not isinstance(space, Discrete):
                continue
            own = x[..., self.coordinates(name)]
            choice = space.mirror(xp, own)
            numbers = space.numbers(choice.shape[-1])
            one = xp.reshape(numbers, (-1, *(1,) * len(choice.shape))) == numbers
            found.append(self.put(xp, x, {name: space.move(xp, own, xp.where(one, choice, 0))}))
        return xp.concat(found)

    def constrain(self, xp: Any, x: Array) -> tuple[tuple[Array, ...], Array]:
        """The values of all parts, in order, each ``(*chains, *shape)``, and the log Jacobian, ``(*chains)``."""
        values, total = [], None
        for part, place in zip(self.parts, self._places, strict=True):
            if isinstance(part, (Real, States)):  # whose map is the identity
                values.append(at_place(xp, x, place, part.shape))
                continue
            value, log_jacobian = part.constrain_place(xp, x, place)
            values.append(value)
            total = log_jacobian if total is None else total + log_jacobian
        return tuple(values), xp.zeros_like(x[..., 0]) if total is None else total

    def value(self, xp: Any, x: Array, name: str) -> Array:
        """The values of one part, (*chains, *shape)."""
        return self.part(name).constrain(xp, x[..., self.coordinates(name)])[0]

    def position(self, values: Mapping[str, Array]) -> Array:
        """Public version of `unconstrain` for a user's values, which are arrays of one library on one device."""
        if not isinstance(values, Mapping):
            raise PositionError(f"values are a mapping of names to arrays; got {given(values)}")
        first = None
        for name, value in values.items():
            if not is_array(value):
                raise PositionError(f"the values of {name!r} must be an array (*chains, *shape); got {given(value)}")
            first = value if first is None else first
            check_same_home(f"the values of {name!r}", value, first)
        if first is None:
            raise PositionError(f"values are given by name, for {', '.join(self.names)}; got none")
        return self.unconstrain(backend_of(first).xp, values)

    def unconstrain(self, xp: Any, values: Mapping[str, Array]) -> Array:
        """Positions ``(*chains, dim)`` of values by name, each ``(*chains, *shape)``.

        PositionError if a name is missing or unknown, a shape is wrong, or a value does not lie in its space.
        """
        missing = [name for name in self.names if name not in values]
        unknown = [name for name in values if name not in self.names]
        if missing or unknown:
            wrong = "; ".join(
                f"{what} {', '.join(names)}" for what, names in (("missing:", missing), ("unknown:", unknown)) if names
            )
            raise PositionError(f"values are given by name, for {', '.join(self.names)}; {wrong}")
        flat = []
        for name, part in zip(self.names, self.parts, strict=True):
            value = values[name]
            self.check_value(xp, name, value)
            flat.append(part.unconstrain(xp, value))
        chains = {tuple(z.shape[:-1]) for z in flat}
        if len(chains) > 1:
            raise PositionError(f"the values have different chain axes: {sorted(chains)}")
        return xp.concat(flat, axis=-1)

    def check_value(self, xp: Any, name: str, value: Array) -> None:
        """Raise PositionError unless values lie in the space of a parameter."""
        part = self.part(name)
        lead = value.ndim - len(part.shape)
        if lead < 0 or tuple(value.shape[lead:]) != part.shape:
            wanted = ", ".join(("*chains", *map(str, part.shape)))
            raise PositionError(f"values of {name} have shape ({wanted}); got {tuple(value.shape)}")
        if not bool(xp.all(part.contains(xp, value))):
            raise PositionError(f"a value of {name} does not lie in {part!r}")

    def from_normals(self, normals: np.ndarray) -> np.ndarray:
        """Positions, host (*chains, dim), of standard normals: these themselves, and random discrete values."""
        moved = {}
        for name, part in zip(self.names, self.parts, strict=True):
            if isinstance(part, States):
                moved[name] = part.space.random(normals[..., self.coordinates(name)])
        return self.put(array_namespace(normals), normals, moved) if moved else normals

    # ---- tables ------------------------------------------------------------------------------------------------------

    def columns(self, xp: Any, x: Array) -> Array:
        """All values that vary, as columns in the order of `labels`: ``(*chains, columns)``."""
        values, _ = self.constrain(xp, x)
        parts = []
        for part, value in zip(self.parts, values, strict=True):
            flat = xp.reshape(value, (*x.shape[:-1], math.prod(part.shape)))
            varying = _varying(part)
            parts += [flat] if len(varying) == flat.shape[-1] else [flat[..., i : i + 1] for i in varying]
        return xp.concat(parts, axis=-1)

    def varying(self, name: str) -> tuple[int, ...]:
        """The entries of a parameter's value, counted in order, that are columns."""
        return _varying(self.part(name))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of the columns, such as ``mu``, ``theta[0]`` or ``theta[Lima]``."""
        found: list[str] = []
        known = dict(self.coords)
        for name, part in zip(self.names, self.parts, strict=True):
            sizes = zip(self.axes(name), part.shape, strict=True)
            axes = [[*map(str, known.get(axis) or range(n))] for axis, n in sizes]
            every = _places(axes)
            found += [f"{name}[{', '.join(every[i])}]" if axes else name for i in _varying(part)]
        return tuple(found)

    @cached_property
    def angles(self) -> tuple[int, ...]:
        """The columns that are angles."""
        from xpsample.spaces.constrained import Circular

        around = [isinstance(part, Circular) for part in self.parts for _ in _varying(part)]
        return tuple(i for i, angle in enumerate(around) if angle)

    def axes(self, name: str) -> tuple[str, ...]:
        """Return the names of the axes of a parameter's values; ``theta_dim_0`` by default."""
        return dict(self.dims).get(name) or tuple(f"{name}_dim_{i}" for i in range(len(self.part(name).shape)))

    def to_json(self) -> dict[str, Any]:
        """Return a JSON representation, which `named_from_json` reads."""
        return {
            "spaces": {
                name: part.space.to_json() if isinstance(part, States) else part.to_json()
                for name, part in zip(self.names, self.parts, strict=True)
            },
            "dims": {name: list(axes) for name, axes in self.dims},
            "coords": {axis: list(labels) for axis, labels in self.coords},
        }

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise PositionError(f"there is no parameter {given(name)}; there are {', '.join(self.names)}")
        return self.names.index(name)


def named(
    spaces: Mapping[str, Any], dims: Mapping[str, Any] | None = None, coords: Mapping[str, Any] | None = None
) -> Named:
    """Spaces by name, with the names of axes and places as ArviZ has them."""
    if not spaces:
        raise HyperparameterError("a model needs at least one parameter, such as mu=Real()")
    for name, space in spaces.items():
        if isinstance(space, type) and issubclass(space, Space):
            raise HyperparameterError(f"the space of {name} is a class: write {space.__name__}()")
        if not isinstance(space, Constrained | Unmapped):
            raise HyperparameterError(
                f"the space of {name} must be one such as Real(), Positive() or Binary(); got {given(space)}"
            )
    parts = tuple(States(space) if isinstance(space, Unmapped) else space for space in spaces.values())
    axes = tuple((name, _labels(f"dims of {name}", own)) for name, own in _by_name("dims", dims))
    places = tuple((axis, _labels(f"coords of {axis}", own)) for axis, own in _by_name("coords", coords))
    return Named(tuple(spaces), parts, axes, places)


@lru_cache(maxsize=1024)
def parameters(names: tuple[str, ...]) -> Any:
    """The class of a density's argument: a named tuple. A name that is no identifier is reached by its place."""
    make: Any = namedtuple
    made = make("Parameters", names, rename=True)
    made.__reduce__ = lambda self: (_parameters_of, (names, tuple(self)))  # pickle finds no class that is made here
    return made


def _parameters_of(names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return parameters(names)(*values)


def named_from_json(fields: Mapping[str, Any]) -> Named:
    """Read the JSON representation of `Named.to_json`."""
    from xpsample.spaces.json_form import space_from_json  # which imports all spaces

    spaces: dict[str, Any] = {name: space_from_json(part) for name, part in fields["spaces"].items()}
    return named(spaces, fields["dims"], fields["coords"])


def is_real(space: Space) -> bool:
    """Return whether positions of a space may be anywhere in R^dim."""
    if isinstance(space, Named):
        return not any(isinstance(part, States) for part in space.parts)
    return isinstance(space, Real)


def elsewhere(backend: Backend, space: Space, x: Array) -> Array:
    """Other positions of a space that is bound to x, of the same shape."""
    xp = backend.xp
    if isinstance(space, Discrete):
        return space.move(xp, x, space.mirror(xp, x))
    if isinstance(space, Named):
        moved = {}
        for name, part in zip(space.names, space.parts, strict=True):
            own = x[..., space.coordinates(name)]
            moved[name] = (
                elsewhere(backend, part.space.bind(backend, own), own) if isinstance(part, States) else _away(xp, own)
            )
        return space.put(xp, x, moved)
    if isinstance(space, Unmapped):
        return space.transformed(xp, x, 0)
    return _away(xp, x) if isinstance(space, Real) else xp.flip(x)


def _away(xp: Any, x: Array) -> Array:
    """Other real numbers, however large these are."""
    return x + xp.abs(x) + 1


@lru_cache(maxsize=1024)
def _varying(part: Constrained) -> tuple[int, ...]:
    """The entries of a value, counted in order, that are not the same for all values: no zeros of a triangle."""
    if isinstance(part, States):
        return tuple(range(part.dim))
    z = np.linspace(-0.7, 0.9, 2 * part.dim).reshape(2, part.dim)
    values = np.asarray(part.constrain(array_namespace(z), z)[0])
    first, second = values.reshape(2, math.prod(part.shape))
    return tuple(int(i) for i in np.flatnonzero(first != second))


def _by_name(what: str, value: Any) -> list[tuple[str, Any]]:
    if value is not None and not isinstance(value, Mapping):
        raise HyperparameterError(f"{what} is a mapping of names to labels; got {given(value)}")
    return [(str(name), own) for name, own in (value or {}).items()]


def _labels(what: str, value: Any) -> tuple[Any, ...]:
    """A name, or a sequence of names or numbers."""
    found = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Sequence) else None
    if hasattr(value, "tolist") and getattr(value, "ndim", 0) == 1:
        found = tuple(value.tolist())
    if found is None or not all(isinstance(label, str | int | float) for label in found):
        raise HyperparameterError(f"{what} is a sequence of labels, texts or numbers; got {given(value)}")
    return found


def _places(axes: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """All places of an array, by the labels along each of its axes, in the order of its entries."""
    found: list[tuple[str, ...]] = [()]
    for labels in axes:
        found = [(*before, label) for before in found for label in labels]
    return found
