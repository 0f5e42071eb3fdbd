"""Derivatives in the parameters of a family of targets."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.backend import Backend
from xpsample.core.tree import Tree
from xpsample.gradients.choices import GradientChoice


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
