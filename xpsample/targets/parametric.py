"""Targets whose parameters move: U(x, parameters) with the parameters a tree of arrays."""

from collections.abc import Callable
from dataclasses import dataclass, field

from array_api_compat import array_namespace

from xpsample.backend import Array, Backend
from xpsample.gradients.choices import Auto, GradientChoice
from xpsample.straight import opaque
from xpsample.targets.space import Real, Space
from xpsample.targets.target import AbstractTarget, BoundTarget, Capability, Costs, DerivedTarget, Point, Target
from xpsample.tree import Tree


@dataclass(frozen=True, eq=False)
class Parametric(AbstractTarget):
    """A family of distributions ``log_density(x, parameters)`` at given parameters.

    A kernel's step may be handed ``bound.with_data(parameters)`` with other parameters at every step; its points are
    then re-evaluated where they are (`refresh`).

    Parameters
    ----------
    log_density : callable
        ``(x, parameters) -> (*chains)``, batched over the leading axes of x ``(*chains, dim)``.
    parameters : tree of arrays
        Where the family starts. NumPy arrays are put into the positions' library.
    score : callable, optional
        ``(x, parameters) -> (*chains, dim)``, the gradient in x.
    gradient : GradientChoice
        How derivatives that were not given are obtained, in x and in the parameters.
    space : Space
        Where the positions live.
    log_density_and_score : callable, optional
        ``(x, parameters)`` to both, where they share work.
    """

    log_density: Callable[..., Array]
    parameters: Tree
    score: Callable[..., Array] | None = None
    gradient: GradientChoice = Auto()
    space: Space = Real()
    log_density_and_score: Callable[..., tuple[Array, Array]] | None = None
    _target: Target = field(init=False, repr=False)
    _bound: dict = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        target = Target(
            self.log_density,
            score=self.score,
            log_density_and_score=self.log_density_and_score,
            gradient=self.gradient,
            data=self.parameters,
            space=self.space,
        )
        object.__setattr__(self, "_target", target)

    def prepare(self, x: Array, requires: Capability) -> "ParametricTarget":
        bound = self._target.prepare(x, requires)
        return self._bound.setdefault(bound, ParametricTarget(bound, self.gradient, self.log_density, bound.backend))


@dataclass(frozen=True, eq=False)
class ParametricTarget(DerivedTarget):
    """A bound member of a parametric family."""

    target: BoundTarget
    gradient: GradientChoice
    log_density: Callable[..., Array]
    library: Backend
    compiled: dict = field(default_factory=dict, repr=False)
    _derivatives: dict = field(default_factory=dict, repr=False)

    @property
    def requires(self) -> Capability:  # type: ignore[override]
        return self.target.requires

    @property
    def costs(self) -> Costs:  # type: ignore[override]
        costs = self.target.costs
        return costs._replace(refresh=costs.at)

    def at(self, x: Array) -> Point:
        return self.target.at(x)

    def visit(self, x: Array) -> Point:
        return self.at(x)

    def refresh(self, point: Point) -> Point:
        return self.target.at(point.x)

    def estimate(
        self, proposal: Point, current: Point, log_proposal_ratio: Array | float | None = None
    ) -> Array | None:
        return self.target.estimate(proposal, current)

    def score(self, x: Array) -> Array:
        return self.target.score(x)

    def hvp(self, x: Array, v: Array) -> Array:
        return self.target.hvp(x, v)

    def score_plus_hvp(self, x: Array, v: Array) -> Array:
        return self.target.score_plus_hvp(x, v)

    def member(self, parameters: Tree) -> BoundTarget:
        """The member of the family at parameters, as a target that does not move: its `refresh` costs nothing."""
        return self.target.with_data(parameters)

    def parameter_gradient(self, loss: Callable[..., Array]) -> Callable[..., tuple[Array, Tree]]:
        """``(parameters, *args) -> (loss, gradient)`` of a scalar loss of the parameters, by the target's choice.

        The derivative of a loss is made once and kept as long as the target: pass the same function at every step.
        """
        if loss not in self._derivatives:
            self._derivatives[loss] = opaque(self.gradient.value_and_gradient(self.library, loss))
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
        return -array_namespace(x).sum(coefficients * self.log_density(x, parameters))
