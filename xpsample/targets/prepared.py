"""A target given by functions, fitted to an array library: what kernels call where nothing is derived from it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from xpsample.core import tree
from xpsample.core.arrays import Array, in_order, is_array
from xpsample.core.backend import Backend
from xpsample.core.errors import HyperparameterError, warn_caller
from xpsample.core.registry import backend_of, check_same_home
from xpsample.core.tree import Tree, dtype_name
from xpsample.gradients.choices import Derivative, Evaluations, Functions, GradientChoice
from xpsample.spaces.discrete import Discrete
from xpsample.spaces.named import Named
from xpsample.spaces.space import Space
from xpsample.targets.acceptance import Acceptance, ByDensity
from xpsample.targets.bonds import Bonds
from xpsample.targets.bound import BoundTarget, DataAndAcceptance
from xpsample.targets.contract import check_form
from xpsample.targets.point import Capability, Costs, Point, wanted


@dataclass(frozen=True, eq=False)
class Family:
    """The parameters' side of a bound `Parametric`: derivatives in the parameters.

    Parameters
    ----------
    log_density : callable
        ``(x, parameters) -> (*chains)``.
    gradient : GradientChoice
        How derivatives in the parameters are obtained.
    backend : Backend
    """

    log_density: Callable[..., Array]
    gradient: GradientChoice
    backend: Backend
    _derivatives: dict[Any, Any] = field(default_factory=dict, repr=False)

    def parameter_gradient(self, loss: Callable[..., Array]) -> Callable[..., tuple[Array, Tree]]:
        """``(parameters, *args) -> (loss, gradient)`` of a loss of the parameters, by the target's choice.

        The loss is a scalar, or ``(*runs)`` of independent runs, whose parameters have leaves ``(*runs, 1, ...)``.
        The derivative of a loss is made once and kept as long as the family: pass the same function at every step.
        """
        if loss not in self._derivatives:
            self._derivatives[loss] = self.gradient.value_and_gradient(self.backend, loss)
        return self._derivatives[loss]

    def potential_gradient(self, parameters: Tree, x: Array, coefficients: Array) -> Tree:
        """Gradient in the parameters of the sum over chains of ``coefficients * U(x)``, U = -log density.

        Parameters
        ----------
        parameters : tree of arrays
        x : array, shape (*chains, dim)
        coefficients : array, shape (*chains)
            Constants.
        """
        return self.parameter_gradient(_WeightedPotential(self.log_density))(parameters, x, coefficients)[1]


@dataclass(frozen=True)
class _WeightedPotential:
    """A loss that equals another one of the same family."""

    log_density: Callable[..., Array]

    def __call__(self, parameters: Tree, x: Array, coefficients: Array) -> Array:
        return -array_namespace(x).sum(coefficients * self.log_density(x, parameters), axis=-1)


def placed(what: str, values: tree.Tree, backend: Backend, x: Array) -> tree.Tree:
    """A tree whose NumPy arrays are in the library of x, on its device and, floating ones, in its dtype.

    Messages call it `what`. BackendError for arrays of another library or device; HyperparameterError unless it is a
    plain array of numbers.
    """
    floating = np.dtype(dtype_name(x)) if backend.xp.isdtype(x.dtype, "real floating") else None

    def place(path: str, leaf: Any) -> Any:
        name = f"{what} {path!r}" if path else what
        leaf = np.asarray(leaf) if isinstance(leaf, np.bool_ | np.number) else leaf
        if isinstance(leaf, np.ndarray):
            backend_of(leaf)  # refuses what is no plain array
            if type(leaf) not in (np.ndarray, np.memmap) or leaf.dtype.kind not in "biufc":
                raise HyperparameterError(
                    f"{name} must be a plain array of numbers; got a {type(leaf).__name__} of {leaf.dtype}"
                )
            if leaf.dtype.kind == "f" and floating is not None:
                leaf = leaf.astype(floating, copy=False)
            made = backend.from_host(in_order(leaf), x)
            if leaf.dtype.kind in "iu" and dtype_name(made) != leaf.dtype.name:
                _check_narrowed(name, leaf, dtype_name(made))
            return made
        if is_array(leaf):
            check_same_home(name, leaf, x)
        elif callable(leaf):
            raise HyperparameterError(
                f"{name} is a function, such as a module's activation: keep apart what is no array, as "
                "from_module.parameters and equinox.partition do"
            )
        elif hasattr(leaf, "to_numpy") or hasattr(leaf, "__array__"):
            advice = ".to_numpy()" if hasattr(leaf, "to_numpy") else "numpy.asarray(...)"
            raise HyperparameterError(f"{name} must be an array; got a {type(leaf).__name__}. Pass its {advice}.")
        return leaf

    return tree.fill(values, {path: place(path, leaf) for path, leaf in tree.items(values)})


def _check_narrowed(name: str, leaf: np.ndarray, narrower: str) -> None:
    """Refuse integers that a smaller dtype cannot hold, and warn if sums of their products may overflow it."""
    if not leaf.size:
        return
    limits, low, high = np.iinfo(narrower), int(leaf.min()), int(leaf.max())
    if low < limits.min or high > limits.max:
        raise HyperparameterError(
            f"{name} has the integer {low if low < limits.min else high}, which {narrower} cannot hold. Pass "
            "data.astype(float), or enable 64-bit types (JAX_ENABLE_X64=1)."
        )
    if np.sum(np.square(leaf, dtype=np.float64)) > limits.max:
        warn_caller(
            f"{name} became {narrower} (from {leaf.dtype}), and integer arithmetic on it may overflow without an "
            f"error. Pass floats (data.astype(float)); pass {narrower} if these are indices."
        )


@dataclass(frozen=True, eq=False)
class PreparedTarget(BoundTarget):
    """A target given by functions; made by `Target.prepare`.

    One with a `Family` changes its data, the parameters, from step to step: `refresh` evaluates again.
    """

    backend: Backend
    xp: Any
    requires: Capability
    costs: Costs
    functions: Functions
    space: Space
    differences: Callable[..., Array] | None = None
    differences_of_one: Callable[..., Array] | None = None
    bonds_of: Callable[..., Bonds] | None = None
    acceptance: Acceptance = ByDensity()
    constrained: bool = False
    dtype: Any = None  # the functions', where the positions are integers
    data: tree.Tree = None
    family: Family | None = None
    part: Callable[..., Derivative] | None = field(default=None, repr=False)  # of `Target`
    _args: tuple[Any, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        own = self.data.own if isinstance(self.data, DataAndAcceptance) else self.data
        object.__setattr__(self, "_args", () if own is None else (own,))

    def as_floating(self, x: Array) -> Array:
        return x if self.dtype is None else self.xp.astype(x, self.dtype)

    def evaluate(self, x: Array) -> Point:
        wants_density, wants_score, wants_ratio, wants_differences = wanted(self.requires)
        args, at = self._args, self.as_floating(x)
        density: Any = None
        score = differences = None
        if wants_score and wants_density:
            density, score = self.functions.log_density_and_score(at, *args)
            check_form("the score", score, at, at.shape)
        elif wants_score:
            score = self.score(x)
        elif wants_density:
            density = self.functions.log_density(at, *args)
        if wants_density:
            check_form("the log density", density, at, at.shape[:-1])
        if wants_ratio and density is None:
            density = self.xp.zeros_like(at[..., 0])
        if wants_differences:
            own = self.differences
            differences = self._around(at, density, args) if own is None else own(at, *args)
        return Point(x, density, score, None, differences)

    def _around(self, x: Array, log_density: Array, args: tuple[Any, ...]) -> Array:
        xp, space = self.xp, self.space
        if isinstance(space, Named):
            if not space.mirrors:
                return xp.zeros_like(x[..., :0])[..., None]
            around = self.functions.log_density(space.mirrored(xp, x), *args) - log_density
            return xp.permute_dims(around, (*range(1, around.ndim), 0))[..., None]
        assert isinstance(space, Discrete)
        return space.around(xp, x, lambda y: self.functions.log_density(y, *args) - log_density)

    def evaluate_lazily(self, x: Array) -> Point:
        return self.evaluate(x)

    def refresh(self, point: Point) -> Point:
        return point if self.family is None else self.evaluate(point.x)

    def log_density(self, x: Array) -> Array:
        at = self.as_floating(x)
        return check_form("the log density", self.functions.log_density(at, *self._args), at, at.shape[:-1])

    def _differences_at(self, x: Array, i: Any) -> Array:
        if self.differences_of_one is None:
            return super()._differences_at(x, i)
        assert isinstance(self.space, Discrete)
        at = self.as_floating(x)
        shape = (*at.shape[:-1], self.space.choices - 1)
        return check_form("differences_at", self.differences_of_one(at, i, *self._args), at, shape)

    def _bonds(self) -> Bonds:
        return super()._bonds() if self.bonds_of is None else self.bonds_of(*self._args)

    def _sweep_cost(self, x: Array) -> Evaluations:
        return super()._sweep_cost(x) if self.differences_of_one is None else Evaluations(score=1)

    def score(self, x: Array) -> Array:
        at = self.as_floating(x)
        return check_form("the score", self.functions.score(at, *self._args), at, at.shape)

    def hvp(self, x: Array, v: Array) -> Array:
        at = self.as_floating(x)
        if v.shape != at.shape:  # one vector for several axes of chains, such as the rungs of a ladder
            v = self.xp.broadcast_to(v, at.shape)
        return check_form("the hvp", self.functions.hvp(at, v, *self._args), at, at.shape)

    def score_plus_hvp(self, x: Array, v: Array) -> Array:
        if self.functions.score_plus_hvp is None:
            return self.score(x) + self.hvp(x, v)
        return self.functions.score_plus_hvp(self.as_floating(x), v, *self._args)

    def acceptance_correction(self, proposal: Point, current: Point) -> Array | None:
        parameters = self.data.acceptance if isinstance(self.data, DataAndAcceptance) else None
        return self.acceptance.acceptance_correction(self, proposal, current, parameters)

    def with_data(self, data: tree.Tree) -> "PreparedTarget":
        return replace(self, data=data)

    def member(self, parameters: tree.Tree) -> "PreparedTarget":
        """The member of a family at parameters, as a target that stays the same: its `refresh` costs nothing."""
        costs = self.costs._replace(refresh=Evaluations())
        return replace(self, data=parameters, family=None, costs=costs)


def positions_around(space: Space, dim: int) -> int:
    """Number of positions of the differences."""
    if isinstance(space, Named):
        return space.mirrors
    assert isinstance(space, Discrete)
    return space.variables(dim) * (space.choices - 1)
