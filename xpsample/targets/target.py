"""Targets: the log density that is sampled, with its derivatives chosen and its capabilities checked once.

A `Target` is what a user writes down. `Target.prepare` fits it to an array library and a kernel's needs and gives a
`BoundTarget`, the thing that kernels call. Tilted, tempered and parametric targets are bound targets, too.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, runtime_checkable

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.backend import Backend
from xpsample.core.checks import check_flag, check_function, check_instance, given, is_of_a_function
from xpsample.core.errors import CapabilityError, GradientError
from xpsample.core.hyperparameters import show
from xpsample.core.registry import compiled
from xpsample.gradients.choices import (
    Auto,
    Derivative,
    Evaluations,
    FiniteDifference,
    Functions,
    GradientChoice,
)
from xpsample.spaces.discrete import Discrete
from xpsample.spaces.integers import Integers
from xpsample.spaces.named import Named, is_real
from xpsample.spaces.space import Constrained, Real, Space, as_floating, check_positions
from xpsample.targets.acceptance import Acceptance, ByDensity
from xpsample.targets.bonds import Bonds
from xpsample.targets.bound import BoundTarget, DataAndAcceptance, Rows, on_some_rows
from xpsample.targets.contract import check_array, check_discrete, check_functions, failed
from xpsample.targets.point import Capability, Costs
from xpsample.targets.prepared import PreparedTarget, placed, positions_around
from xpsample.targets.shaped import flattened

FUNCTIONS = {
    "log_density": "(x)",
    "score": "(x)",
    "hvp": "(x, v)",
    "log_density_and_score": "(x)",
    "score_plus_hvp": "(x, v)",
    "differences": "(x)",
    "differences_at": "(x, i)",
    "bonds": "()",
}
"""The functions that a `Target` may be given, and their arguments without the data."""


class AbstractTarget(ABC):
    """Argument `target` of `sample`: anything that can be bound to positions.

    Attributes
    ----------
    space : Space
        Space of the positions.
    """

    if TYPE_CHECKING:  # subclasses have it as a dataclass field or as a property

        @property
        def space(self) -> Space: ...

    def __repr__(self) -> str:
        return show(self)

    @abstractmethod
    def prepare(self, x: Array, requires: Capability) -> BoundTarget:
        """Bind the target to the library of the start positions x and to a kernel's requirements.

        All checks are made here.
        """


@runtime_checkable
class HoldsData(Protocol):
    """Target that holds data, which can be replaced."""

    def with_data(self, data: tree.Tree) -> Any:
        """Return this target with other data. CapabilityError if it has none."""

    def place_data(self, backend: Backend, x: Array) -> tree.Tree:
        """Return the data as the functions receive them: in the library, on the device and in the dtype of x."""


def check_target(name: str, value: Any) -> AbstractTarget:
    """A target, and no bare function."""
    if not isinstance(value, AbstractTarget):
        raise CapabilityError(f"{name} must be a target; got {given(value)}: wrap a log density as Target(log_density)")
    return value


@dataclass(frozen=True, eq=False, repr=False)
class Target(AbstractTarget):
    """A distribution given by a log density, a score, or both.

    Parameters
    ----------
    log_density : callable or None
        ``log_density(x)``, or ``log_density(x, data)`` when `data` is given: ``(*chains, dim) -> (*chains)``,
        unnormalized, batched over all leading axes. None for a target that has only a score.
    score : callable, optional
        Its gradient in x, ``(*chains, dim) -> (*chains, dim)``. Yours wins over every other choice.
    hvp : callable, optional
        ``hvp(x, v)`` or ``hvp(x, v, data)``: its Hessian times v.
    log_density_and_score : callable, optional
        Both at once, where they share work.
    score_plus_hvp : callable, optional
        ``score_plus_hvp(x, v)`` or ``score_plus_hvp(x, v, data)``: the score plus the Hessian times v, where their sum
        costs less than both. `SRMC` moves along such sums.
    differences : callable, optional
        ``differences(x)`` or ``differences(x, data)``, on a discrete space: the log density at each position that
        differs from x in one variable, minus that at x, ``(*chains, dim) -> (*chains, variables, choices - 1)``, in the
        order of `Discrete.move`. Evaluated at all those positions when not given.
    differences_at : callable, optional
        ``differences_at(x, i)`` or ``differences_at(x, i, data)``: the differences of variable i,
        ``(*chains, choices - 1)``, for `Sweep`. They need the neighbors of i only, where `log_density` needs all
        variables. i is an integer or a 0-d array of one: use it in arithmetic and to index arrays.
    bonds : callable, optional
        ``bonds()`` or ``bonds(data)``: the `Bonds` of a ferromagnet, in the positions' library, for `SwendsenWang`.
    gradient : GradientChoice
        How derivatives that were not given are obtained: `Auto`, `NativeGradient`, `Via` or `FiniteDifference`.
    data : tree of arrays, optional
        Arrays that the functions need. NumPy arrays are put, once, into the positions' library, on their device and
        (floating ones) into their dtype; arrays of another library or device are refused.
    space : Space
        Space of the positions. On ``Real(channels, height, width)``, or any `Real` of two axes or more, the functions
        accept positions and return scores of that shape, ``(*chains, channels, height, width)``; kernels move
        coordinates ``(*chains, dim)``.
    acceptance : Acceptance
        How kernels that accept or reject get the ratio of densities. With `LineIntegral` or `Taylor` a score is enough
        for them (`RWM`, `MALA`, `HMC`, ...), and the log density is not used.
    constrained : bool
        Whether the log density is -inf outside a set on purpose. Proposals outside are then rejected like any other,
        and are no divergences.

    See Also
    --------
    Model : Named parameters with constraints.
    Parametric : A density with parameters that can move.
    posterior : Of a network and data.
    batched : Lifts a function of one position.

    Notes
    -----
    On a discrete space the functions are called with floating positions, whatever the dtype of the start positions; the
    score is the gradient of `log_density` as a function of real numbers. A log density may drop constants. It may
    return -inf; such a proposal is rejected and counted as a divergence, unless the target is `constrained`.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.HMC(), x0, 1000, seed=1)
    >>> trace.draws.shape
    (1000, 4, 2)
    """

    log_density: Callable[..., Any] | Any  # None where there is none; checkers let it be called
    score: Callable[..., Array] | None = None
    hvp: Callable[..., Array] | None = None
    log_density_and_score: Callable[..., tuple[Array, Array]] | None = None
    score_plus_hvp: Callable[..., Array] | None = None
    differences: Callable[..., Array] | None = None
    differences_at: Callable[..., Array] | None = None
    bonds: Callable[..., Bonds] | None = None
    gradient: GradientChoice = Auto()
    data: tree.Tree = None
    space: Space = Real()
    acceptance: Acceptance = ByDensity()
    constrained: bool = False
    of_coordinates: Functions = field(init=False, repr=False)
    """The arguments as functions of coordinates ``(*chains, dim)``."""

    def __post_init__(self) -> None:
        for name, signature in FUNCTIONS.items():
            check_function(name, getattr(self, name), signature, optional=True)
        check_instance("gradient", self.gradient, GradientChoice, "FiniteDifference()")
        check_instance("space", self.space, Space, "Binary()")
        if isinstance(self.space, Constrained) and not isinstance(self.space, Real):
            raise CapabilityError(
                f"the positions of a Target are unconstrained, but its space is {self.space!r}. Use a Model, "
                "Model(log_density, name=space)."
            )
        check_instance("acceptance", self.acceptance, Acceptance, "LineIntegral()")
        check_flag("constrained", self.constrained)
        if self.log_density is None and self.score is None:
            raise CapabilityError(
                "a target without a log density and without a score cannot be sampled. Pass Target(log_density), or "
                "Target(None, score=...)."
            )
        given = Functions(self.log_density, self.score, self.hvp, self.log_density_and_score, self.score_plus_hvp)
        object.__setattr__(self, "of_coordinates", flattened(given, self.space))

    def prepare(self, x: Array, requires: Capability) -> PreparedTarget:
        """Choose derivatives, check capabilities and evaluate at the start positions.

        Each call binds anew, so functions and data are current, whatever changed since another run.

        Raises
        ------
        PositionError, CapabilityError, BackendError, GradientError
        """
        backend = check_positions(x)
        self.space.check(backend.xp, x)
        bound = self._bind(backend, x, requires)
        own = {"hvp": self.hvp, "score_plus_hvp": self.score_plus_hvp} if Capability.HVP in requires else {}
        checked = on_some_rows(bound)
        given = {name: getattr(checked, name) for name, function in own.items() if function is not None}
        try:
            check_functions(checked, x, given)
            check_discrete(checked, x)
        except Exception as error:  # of the user's functions
            self._explain(error, checked, x)
        return bound

    def with_data(self, data: tree.Tree) -> "Target":
        """Return the same target with other data."""
        if self.data is None:
            raise CapabilityError("data= was passed, and the target was made without data: Target(..., data=...)")
        return replace(self, data=self.data.replaced(data) if isinstance(self.data, Rows) else data)

    def place_data(self, backend: Backend, x: Array) -> tree.Tree:
        """Return the data in the library, on the device and in the dtype of x."""
        parameters = self.acceptance.parameters
        if self.data is None and parameters is None:
            return None
        x = as_floating(backend.xp, x)
        own = placed("data", self.data, backend, x)
        if parameters is None:
            return own
        return DataAndAcceptance(own, placed("the acceptance's parameters", parameters, backend, x))

    def _explain(self, error: Exception, bound: PreparedTarget, x: Array) -> NoReturn:
        """Raise an xpsample error for a failure at the start positions, above all in the log density."""
        at = bound.as_floating(x)
        log_density = self.of_coordinates.log_density
        if log_density is not None:
            try:
                density = log_density(at, *bound._args)
                check_array("the log density", density, at, tuple(x.shape[:-1]))
                if not bound.xp.any(density > -math.inf):  # what `batched` rejects everywhere is a mistake
                    getattr(log_density, "raising", log_density)(at, *bound._args)
            except Exception as its:
                if not is_of_a_function(its):
                    raise
                raise failed("log density", its, x, self.space) from its
        if not is_of_a_function(error):
            raise error
        raise failed("derivatives", error, x, self.space) from error

    def without_own_derivatives(self, gradient: GradientChoice) -> "Target":
        """This target with the user's derivatives dropped and another choice in their place."""
        none: dict[str, Any] = dict.fromkeys(("score", "hvp", "log_density_and_score", "score_plus_hvp"))
        return replace(self, **none, gradient=gradient)

    def _bind(self, backend: Backend, x: Array, requires: Capability) -> PreparedTarget:
        requires = self._complete(requires)
        integers, x = x, as_floating(backend.xp, x)
        space = self.space.bind(backend, integers)
        functions, costs = self._chosen(backend, space, x, requires)
        data = self.place_data(backend, x)

        def ready(function: Callable[..., Any] | None) -> Any:
            return None if function is None else compiled(backend, function)

        return PreparedTarget(
            backend=backend,
            xp=backend.xp,
            requires=requires,
            costs=costs,
            functions=Functions(*map(ready, functions)),
            space=space,
            differences=ready(self.differences),
            differences_of_one=ready(self.differences_at),
            bonds_of=self.bonds,
            acceptance=self.acceptance,
            constrained=self.constrained,
            dtype=None if x is integers else x.dtype,
            data=data,
            part=self._part(backend, x, ready),
        )

    def _part(self, backend: Backend, x: Array, ready: Callable[..., Any]) -> Callable[..., Derivative] | None:
        """Log density and score of some coordinates alone, where a score costs more the more there are of them."""
        choice, own = self.gradient, (self.score, self.log_density_and_score)
        if not isinstance(choice, FiniteDifference) or own != (None, None) or not self.acceptance.exact:
            return None

        def part(places: tuple[tuple[int, int], ...]) -> Derivative:
            found = choice.score_of_part(backend, self.of_coordinates, x, places)
            return found._replace(call=ready(found.call))

        return cache(part)

    def _complete(self, requires: Capability) -> Capability:
        """`requires` with all that it is made from, where this target can have it."""
        requires = self._with_acceptance(requires)
        if Capability.LOG_DENSITY in requires and self.log_density is None:
            raise CapabilityError(
                "the kernel needs a log density and the target has only a score: pass Target(log_density, ...) or "
                "acceptance=LineIntegral(), or use an unadjusted kernel (ULA)."
            )
        check_moves(self.space, requires)
        if Capability.BONDS in requires and self.bonds is None:
            raise CapabilityError(
                "SwendsenWang needs a target that states its bonds: ising_lattice, ising_couplings, potts, or "
                "Target(..., bonds=...). Use Sweep() for any other."
            )
        if Capability.DIFFERENCES not in requires:
            return requires
        real = isinstance(self.space, Named) and self.space.mirrors < self.space.dim
        return requires | Capability.LOG_DENSITY | (Capability.SCORE if real else Capability.NONE)

    def _chosen(self, backend: Backend, space: Space, x: Array, requires: Capability) -> tuple[Functions, Costs]:
        """The functions of a bound target, and what each call costs."""
        given = self.of_coordinates
        both = score = Derivative(None, Evaluations(score=1))
        if requires & (Capability.SCORE | Capability.HVP) or not self.acceptance.exact:
            both = self._both(backend, given, x)
            score = Derivative(given.score or _second(both.call), both.cost)
        hvp, plus = Derivative(None, Evaluations(hvp=1)), None
        if Capability.HVP in requires:
            hvp, plus = self._curvature(backend, given, score, x)
        at = both.cost if Capability.SCORE in requires else Evaluations()
        if Capability.LOG_DENSITY in requires and at.log_density == 0:  # a score by differences gives the density, too
            at = at.plus(Evaluations(log_density=1))
        if Capability.DIFFERENCES in requires:
            moves = positions_around(space, x.shape[-1])
            at = at.plus(Evaluations(log_density=moves) if self.differences is None else Evaluations(score=1))
        ratio = Evaluations()  # what the acceptance of each proposal needs besides its point
        if Capability.DENSITY_RATIO in requires:
            ratio = self.acceptance.cost(score.cost, hvp.cost)
        costs = Costs(at.plus(ratio), at, Evaluations(), Evaluations(log_density=1), score.cost, hvp.cost)
        return Functions(given.log_density, score.call, hvp.call, both.call, plus), costs

    def _with_acceptance(self, requires: Capability) -> Capability:
        """`requires` with what the ratio of densities is made from."""
        if Capability.DENSITY_RATIO not in requires:
            return requires
        if self.acceptance.exact:
            return requires | Capability.LOG_DENSITY
        name = type(self.acceptance).__name__
        if Capability.LOG_DENSITY in requires:
            raise CapabilityError(
                f"the kernel needs log densities, and {name} gives their ratios only: use ByDensity()"
            )
        if self.constrained:
            raise CapabilityError(
                f"{name} computes ratios from scores, which do not show a hard constraint. Pass the log density and "
                "use ByDensity(), or a Model with bounded parameters."
            )
        if not is_real(self.space):
            raise CapabilityError(f"{name} moves along segments of real numbers; the space is {self.space!r}")
        more = Capability.SCORE if self.acceptance.needs_score else Capability.NONE
        return requires | more | (Capability.HVP if self.acceptance.needs_hvp else Capability.NONE)

    def _both(self, backend: Backend, functions: Functions, x: Array) -> Derivative:
        """Log density and score at once."""
        if functions.log_density_and_score is not None:
            return Derivative(functions.log_density_and_score, Evaluations(score=1))
        if functions.score is not None:
            return Derivative(partial(_together, functions.log_density, functions.score), Evaluations(score=1))
        try:
            return self.gradient.score(backend, functions, x)
        except GradientError as error:
            raise CapabilityError(f"the kernel needs a score: {error}") from error

    def _curvature(
        self, backend: Backend, functions: Functions, score: Derivative, x: Array
    ) -> tuple[Derivative, Callable[..., Array] | None]:
        """Hessian-vector product, and its sum with the score if that is more than an addition."""
        if functions.hvp is not None:
            return Derivative(functions.hvp, Evaluations(hvp=1)), functions.score_plus_hvp
        try:
            found = self.gradient.hvp(backend, functions, score, x)
        except GradientError as error:
            raise CapabilityError(f"the kernel needs Hessian-vector products: {error}, or pass hvp=...") from error

        def plus(x: Array, v: Array, *data: Any) -> Array:
            own, product = found.call(x, v, *data)
            return (score.call(x, *data) if own is None else own) + product

        return Derivative(_second(found.call), found.cost), functions.score_plus_hvp or plus


def check_moves(space: Space, requires: Capability) -> None:
    """Raise CapabilityError where a kernel that requires this does not move on the space."""
    discrete = requires & (Capability.DISCRETE | Capability.DIFFERENCES)
    named = isinstance(space, Named)
    if Capability.ORDERED in requires and isinstance(space, Integers):
        return
    if requires & (Capability.REAL | Capability.ORDERED) and not is_real(space):
        if named:
            raise CapabilityError(
                "the kernel moves real positions and the model has discrete parameters: use Blocks, with a kernel for "
                'each of them, such as Blocks({"z": Gibbs(), "x": HMC()})'
            )
        raise CapabilityError(
            f"the kernel moves real positions and the target's space is {space!r}. Use GWG, DMALA or Gibbs on discrete "
            "spaces, TwoOpt or Swap on permutations."
        )
    if Capability.DISCRETE in requires and named:
        raise CapabilityError(
            "the kernel moves on a discrete space, and a model's parameters are moved by name: use Blocks, such "
            'as Blocks({"z": Gibbs()})'
        )
    if discrete and not isinstance(space, Discrete | Named):
        raise CapabilityError(
            f"the kernel moves on a discrete space and the target's space is {type(space).__name__}(). Pass "
            "space=Binary(), Spins(), Categorical(values) or OneHot(choices)."
        )


def _together(log_density: Any, score: Callable[..., Array], *args: Any) -> tuple[Any, Array]:
    return (None if log_density is None else log_density(*args)), score(*args)


def _second(both: Callable[..., Any]) -> Callable[..., Array]:
    return lambda *args: both(*args)[1]
