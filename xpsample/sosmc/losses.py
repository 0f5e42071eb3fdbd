"""Losses whose gradient is an expectation over pi_theta (Eq. 2), estimated from weighted particles.

Particles and weights are constants (App. F.3). Except for a user's own H, each estimate is the gradient of one scalar,
a sum of coefficients times potentials U_theta (Lemma 5), so an iteration takes one gradient in the parameters.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from xpsample.core import tree
from xpsample.core.arrays import Array, is_array
from xpsample.core.checks import check_result, given
from xpsample.core.errors import FunctionError, HyperparameterError
from xpsample.core.fields import FrozenDataclass, function, instance, number, parameter
from xpsample.core.specs import Specs
from xpsample.gradients.choices import Evaluations
from xpsample.particles.batches import Batches, batch_specs, draw_batch
from xpsample.targets.parametric import family_of
from xpsample.targets.point import Capability, Point
from xpsample.targets.prepared import PreparedTarget


class Loss(FrozenDataclass):
    """Base class of losses to minimize. Final subclasses are frozen dataclasses.

    Attributes
    ----------
    requires : Capability
        Capabilities needed for the particles' points.
    evaluations : Evaluations
        Evaluations of the target per estimate, for each particle.
    """

    evaluations: ClassVar[Evaluations] = Evaluations()

    if TYPE_CHECKING:  # losses have it as a class attribute, or `declared`
        requires: ClassVar[Capability]
    else:

        @property
        @abstractmethod
        def requires(self) -> Capability:
            """A class attribute of losses that always need the same."""

    @abstractmethod
    def noise(self, x: Array) -> Specs:
        """The random numbers that one estimate consumes, for particles x, (*runs, particles, dim)."""

    @abstractmethod
    def gradient(
        self, target: PreparedTarget, parameters: tree.Tree, point: Point, weights: Array, noise: Mapping[str, Array]
    ) -> tree.Tree:
        """The estimated gradient (Eq. 13), with the structure and the shapes of the parameters.

        Parameters
        ----------
        target : PreparedTarget
            ``target.data`` are the parameters that the family was made with.
        parameters : tree of arrays
            The current ones.
        point : Point
            The particles under the current parameters.
        weights : array, shape (*runs, particles)
            Their sum over the last axis is 1.
        noise : mapping of str to array
        """


class MarginalLikelihood(Loss, eq=True):
    """``-log p_theta(y)``, with U_theta(x) = -log p_theta(x, y) and pi_theta the posterior of x: H is grad U."""

    requires = Capability.NONE

    def noise(self, x: Array) -> Specs:
        return {}

    def gradient(
        self, target: PreparedTarget, parameters: tree.Tree, point: Point, weights: Array, noise: Mapping[str, Array]
    ) -> tree.Tree:
        return family_of(target).potential_gradient(parameters, point.x, weights)


class EnergyModel(Loss):
    """The negative log-likelihood of data under pi_theta. Its gradient is the mean of grad U over data minus E grad U.

    Parameters
    ----------
    data : Batches
    """

    data: Batches = instance(Batches, "RowBatches(rows)")

    requires = Capability.NONE

    def noise(self, x: Array) -> Specs:
        return batch_specs(self.data, x)

    def gradient(
        self, target: PreparedTarget, parameters: tree.Tree, point: Point, weights: Array, noise: Mapping[str, Array]
    ) -> tree.Tree:
        return _against_batch(target, parameters, point.x, -weights, self.data, noise, 1.0)


class RewardForwardKL(Loss):
    """``-E R + beta KL(pi_ref || pi_theta)``, with the gradient of Eq. 24.

    Parameters
    ----------
    reward : callable
        ``(*chains, dim) -> (*chains)``; need not be differentiable.
    beta : float
        Strength of the regularization, at least 0, in units of the reward.
    reference : Batches, optional
        Draws of pi_ref; needed unless beta is 0.
    """

    reward: Callable[[Array], Array] = function("(x)")
    beta: float = number(default=0.0, ge=0)
    reference: Batches | None = instance(Batches, "RowBatches(rows)", default=None)

    requires = Capability.NONE

    def __check_init__(self) -> None:
        if self.beta and self.reference is None:
            raise HyperparameterError("beta > 0 needs draws of the reference: RewardForwardKL(..., reference=...)")

    def noise(self, x: Array) -> Specs:
        return batch_specs(self.reference, x) if self.reference is not None and self.beta else {}

    def gradient(
        self, target: PreparedTarget, parameters: tree.Tree, point: Point, weights: Array, noise: Mapping[str, Array]
    ) -> tree.Tree:
        coefficients = covariance_with(target.xp, weights, _rewards(self.reward, point.x))
        if self.reference is None or not self.beta:
            return family_of(target).potential_gradient(parameters, point.x, coefficients)
        coefficients = coefficients - self.beta * weights
        return _against_batch(target, parameters, point.x, coefficients, self.reference, noise, self.beta)


class RewardReverseKL(Loss):
    """``-E R + beta KL(pi_theta || pi_0)``, with the gradient of Eq. 25.

    The minimum over all distributions is proportional to ``pi_0 exp(R / beta)`` (Eq. 39).

    Parameters
    ----------
    reward : callable
        ``(*chains, dim) -> (*chains)``; need not be differentiable.
    beta : float or array, shape (*runs, 1)
        Strength of the regularization, at least 0, in units of the reward.
    reference : tree of arrays, optional
        Parameters of pi_0, in the library and dtype of the particles; by default the family's initial parameters.
    """

    reward: Callable[[Array], Array] = function("(x)")
    beta: float | Array = parameter(ge=0)
    reference: tree.Tree | None = None

    requires = Capability.LOG_DENSITY
    evaluations: ClassVar[Evaluations] = Evaluations(log_density=1)  # of pi_0

    def noise(self, x: Array) -> Specs:
        return {}

    def gradient(
        self, target: PreparedTarget, parameters: tree.Tree, point: Point, weights: Array, noise: Mapping[str, Array]
    ) -> tree.Tree:
        first = target.data if self.reference is None else _reference(self.reference, target.data, point.x.ndim - 2)
        above = family_of(target).log_density(point.x, first) - point.log_density  # U_theta - U_0
        multiplier = _rewards(self.reward, point.x) + self.beta * above
        coefficients = covariance_with(target.xp, weights, multiplier)
        return family_of(target).potential_gradient(parameters, point.x, coefficients)


class Expectation(Loss):
    """A loss with ``grad loss = E H(x, theta)``, for a user's H. SOSMC makes this of a plain function.

    Parameters
    ----------
    h : callable
        ``h(x, parameters)``, a tree with the structure of the parameters. For parameters (*runs, 1, ...) its leaves
        are (*runs, particles, ...); for a single run they are (particles, ...).
    """

    h: Callable[[Array, tree.Tree], tree.Tree] = function("(x, parameters)")

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

        terms, chains = self.h(point.x, parameters), tuple(point.x.shape[:-1])
        missing = {path for path, _ in tree.items(parameters)} ^ {path for path, _ in tree.items(terms)}
        for path, leaf in tree.items(terms):
            if path in missing or not is_array(leaf) or tuple(leaf.shape[: len(chains)]) != chains:
                raise FunctionError(
                    f"the function h must return a tree like the parameters, with leaves {chains} + their shape; got "
                    f"{given(leaf)}"
                )
        if missing:
            raise FunctionError(f"the function h must return a tree like the parameters; it lacks {sorted(missing)}")
        return tree.map(mean, terms)


class Surrogate(Loss):
    """A loss with the gradient of a user's scalar in the parameters alone.

    Parameters
    ----------
    function : callable
        ``function(parameters, x, weights)``, a scalar or one for each run; x and weights are constants. The target's
        gradient choice differentiates it.
    """

    function: Callable[[tree.Tree, Array, Array], Array] = function("(parameters, x, weights)")

    requires = Capability.NONE

    def noise(self, x: Array) -> Specs:
        return {}

    def gradient(
        self, target: PreparedTarget, parameters: tree.Tree, point: Point, weights: Array, noise: Mapping[str, Array]
    ) -> tree.Tree:
        return family_of(target).parameter_gradient(self.function)(parameters, point.x, weights)[1]


def _reference(parameters: tree.Tree, first: tree.Tree, runs: int) -> tree.Tree:
    """Parameters of a reference, shaped as the family's initial parameters, or as one run of them."""
    wanted = {path: tuple(leaf.shape) for path, leaf in tree.items(first)}
    shapes = {path: tuple(leaf.shape) for path, leaf in tree.items(parameters)}
    of_one = {path: shape[runs + 1 :] if runs else shape for path, shape in wanted.items()}
    if shapes not in (wanted, of_one):
        raise HyperparameterError(f"reference must have the shapes of the parameters, {wanted}; got {shapes}")
    return parameters


def _rewards(reward: Callable[[Array], Array], x: Array) -> Array:
    """The rewards of particles, (*runs, particles)."""
    return check_result("the function reward", reward(x), tuple(x.shape[:-1]))


def covariance_with(xp: Any, weights: Array, values: Array) -> Array:
    """``w (a - sum w a)``: coefficients that turn a sum of potentials into the covariance of a and grad U (Eq. 60)."""
    return weights * (values - xp.sum(weights * values, axis=-1, keepdims=True))


def _against_batch(
    target: PreparedTarget,
    parameters: tree.Tree,
    x: Array,
    coefficients: Array,
    batches: Batches,
    noise: Mapping[str, Array],
    share: float,
) -> tree.Tree:
    """Gradient of the sum of coefficients times potentials, plus `share` times the mean potential of the batch."""
    xp = target.xp
    batch = draw_batch(batches, xp, x, noise)
    equal = xp.full_like(batch[..., 0], share / batch.shape[-2])
    return family_of(target).potential_gradient(
        parameters, xp.concat([x, batch], axis=-2), xp.concat([coefficients, equal], axis=-1)
    )
