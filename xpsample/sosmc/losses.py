"""Losses whose gradient is an expectation over pi_theta (Eq. 2), estimated from weighted particles.

Particles and weights count as constants (App. F.3). All but a user's own H are gradients of one scalar, the sum of
coefficients times potentials U_theta (Lemma 5), so an iteration takes one gradient in the parameters.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.core.hyperparameters import check_range
from xpsample.core.specs import Specs
from xpsample.particles.batches import Batches
from xpsample.targets.parametric import family_of
from xpsample.targets.point import Capability, Point
from xpsample.targets.target import PreparedTarget


class Loss(ABC):
    """What is minimised. Final subclasses are frozen dataclasses.

    Attributes
    ----------
    requires : Capability
        What it needs of the particles' points.
    """

    requires: Capability

    @abstractmethod
    def noise(self, x: Array) -> Specs:
        """The random numbers that one estimate consumes beside the particles (*runs, particles, dim)."""

    @abstractmethod
    def gradient(
        self, target: PreparedTarget, parameters: tree.Tree, point: Point, weights: Array, noise: Mapping[str, Array]
    ) -> tree.Tree:
        """The estimated gradient (Eq. 13), of the structure and the shapes of the parameters.

        Parameters
        ----------
        target : PreparedTarget
            ``target.data`` are the parameters that the family was given with.
        parameters : tree of arrays
            The current ones.
        point : Point
            The particles under them.
        weights : array, shape (*runs, particles)
            They sum to 1 over the last axis.
        noise : mapping of str to array
        """


@dataclass(frozen=True)
class MarginalLikelihood(Loss):
    """``-log p_theta(y)``, where U_theta(x) = -log p_theta(x, y) and pi_theta is the posterior of x: H is grad U."""

    requires = Capability.NONE

    def noise(self, x: Array) -> Specs:
        return {}

    def gradient(
        self, target: PreparedTarget, parameters: tree.Tree, point: Point, weights: Array, noise: Mapping[str, Array]
    ) -> tree.Tree:
        return family_of(target).potential_gradient(parameters, point.x, weights)


@dataclass(frozen=True, eq=False)
class EnergyModel(Loss):
    """The negative log-likelihood of data under pi_theta: mean grad U over the data minus E grad U over pi_theta.

    Parameters
    ----------
    data : Batches
    """

    data: Batches

    requires = Capability.NONE

    def noise(self, x: Array) -> Specs:
        return _prefixed(self.data.noise(x))

    def gradient(
        self, target: PreparedTarget, parameters: tree.Tree, point: Point, weights: Array, noise: Mapping[str, Array]
    ) -> tree.Tree:
        return _against_batch(target, parameters, point.x, -weights, self.data, noise, 1.0)


@dataclass(frozen=True, eq=False)
class RewardForwardKL(Loss):
    """``-E R + beta KL(pi_ref || pi_theta)``, with the gradient of Eq. 24.

    Parameters
    ----------
    reward : callable
        ``(*chains, dim) -> (*chains)``; need not be differentiable.
    beta : float
        Strength of the regularisation, at least 0, in units of the reward.
    reference : Batches, optional
        Draws of pi_ref; needed unless beta is 0.
    """

    reward: Callable[[Array], Array]
    beta: float = 0.0
    reference: Batches | None = None

    requires = Capability.NONE

    def __post_init__(self) -> None:
        check_range("beta", self.beta, 0, closed=True)
        if self.beta and self.reference is None:
            raise HyperparameterError("beta > 0 needs draws of the reference: RewardForwardKL(..., reference=...)")

    def noise(self, x: Array) -> Specs:
        return _prefixed(self.reference.noise(x)) if self.reference is not None and self.beta else {}

    def gradient(
        self, target: PreparedTarget, parameters: tree.Tree, point: Point, weights: Array, noise: Mapping[str, Array]
    ) -> tree.Tree:
        coefficients = covariance_with(target.xp, weights, self.reward(point.x))
        if self.reference is None or not self.beta:
            return family_of(target).potential_gradient(parameters, point.x, coefficients)
        coefficients = coefficients - self.beta * weights
        return _against_batch(target, parameters, point.x, coefficients, self.reference, noise, self.beta)


@dataclass(frozen=True, eq=False)
class RewardReverseKL(Loss):
    """``-E R + beta KL(pi_theta || pi_0)``, with the gradient of Eq. 25; pi_0 is the member that the family starts at.

    Its minimum over all distributions is proportional to ``pi_0 exp(R / beta)`` (Eq. 39).

    Parameters
    ----------
    reward : callable
        ``(*chains, dim) -> (*chains)``; need not be differentiable.
    beta : float or array, shape (*runs, 1)
        Strength of the regularisation, at least 0, in units of the reward.
    """

    reward: Callable[[Array], Array]
    beta: Any

    requires = Capability.LOG_DENSITY

    def __post_init__(self) -> None:
        check_range("beta", self.beta, 0, closed=True)

    def noise(self, x: Array) -> Specs:
        return {}

    def gradient(
        self, target: PreparedTarget, parameters: tree.Tree, point: Point, weights: Array, noise: Mapping[str, Array]
    ) -> tree.Tree:
        above = family_of(target).log_density(point.x, target.data) - point.log_density  # U_theta - U_0
        multiplier = self.reward(point.x) + self.beta * above
        coefficients = covariance_with(target.xp, weights, multiplier)
        return family_of(target).potential_gradient(parameters, point.x, coefficients)


@dataclass(frozen=True, eq=False)
class Expectation(Loss):
    """A loss with ``grad loss = E H(x, theta)``, H the user's own; a plain function given to SOSMC becomes this.

    Parameters
    ----------
    h : callable
        ``h(x, parameters)``, a tree of the parameters' structure. For parameters (*runs, 1, ...) its leaves are
        (*runs, particles, ...); for a single run they have the particles' axis before the parameters' axes.
    """

    h: Callable[[Array, tree.Tree], tree.Tree]

    requires = Capability.NONE

    def noise(self, x: Array) -> Specs:
        return {}

    def gradient(
        self, target: PreparedTarget, parameters: tree.Tree, point: Point, weights: Array, noise: Mapping[str, Array]
    ) -> tree.Tree:
        axis = weights.ndim - 1

        def mean(leaf: Array) -> Array:
            terms = weights[(..., *(None,) * (leaf.ndim - weights.ndim))] * leaf
            return target.xp.sum(terms, axis=axis, keepdims=axis > 0)

        return tree.map(mean, self.h(point.x, parameters))


@dataclass(frozen=True, eq=False)
class Surrogate(Loss):
    """A loss whose gradient is that of a scalar of the user's, in the parameters alone.

    Parameters
    ----------
    function : callable
        ``function(parameters, x, weights)``, a scalar or one for each run; x and weights are constants. It is
        differentiated by the target's gradient choice.
    """

    function: Callable[[tree.Tree, Array, Array], Array]

    requires = Capability.NONE

    def noise(self, x: Array) -> Specs:
        return {}

    def gradient(
        self, target: PreparedTarget, parameters: tree.Tree, point: Point, weights: Array, noise: Mapping[str, Array]
    ) -> tree.Tree:
        return family_of(target).parameter_gradient(self.function)(parameters, point.x, weights)[1]


def covariance_with(xp: Any, weights: Array, values: Array) -> Array:
    """``w (a - sum w a)``: coefficients that turn a sum of potentials into the covariance of a and grad U (Eq. 60)."""
    return weights * (values - xp.sum(weights * values, axis=-1, keepdims=True))


def _prefixed(specs: Specs) -> Specs:
    return {f"batch_{name}": spec for name, spec in specs.items()}


def _against_batch(
    target: PreparedTarget,
    parameters: tree.Tree,
    x: Array,
    coefficients: Array,
    batches: Batches,
    noise: Mapping[str, Array],
    share: float,
) -> tree.Tree:
    """The gradient of the particles' weighted potentials plus `share` times the batch's mean potential, in one pass."""
    xp = target.xp
    own = {name.removeprefix("batch_"): rows for name, rows in noise.items() if name.startswith("batch_")}
    batch = batches.draw(xp, x, own)
    equal = xp.full_like(batch[..., 0], share / batch.shape[-2])
    return family_of(target).potential_gradient(
        parameters, xp.concat([x, batch], axis=-2), xp.concat([coefficients, equal], axis=-1)
    )
