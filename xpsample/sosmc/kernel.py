"""Stochastic optimization via sequential Monte Carlo: one outer iteration as one pure step.

Source: Cuin, Carbone, Tang & Akyildiz, "Efficient stochastic optimisation via sequential Monte Carlo" (2026),
Algorithm 1, App. A and Remark 4.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.checks import (
    check_number,
    check_result,
    errors_of_functions,
    given,
)
from xpsample.core.declared import declared
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import FrozenDataclass, checked, count, function, instance, number
from xpsample.core.registry import to_host
from xpsample.core.specs import Specs
from xpsample.diagnostics.findings import Finding
from xpsample.diagnostics.trainings import judge_training
from xpsample.kernels.compose import of_move, of_moves
from xpsample.kernels.following import of_chains, with_chains
from xpsample.kernels.kernel import Info, Kernel
from xpsample.kernels.traits import Trait
from xpsample.optimize.optimizers import AverageState, Optimizer, check_optimizer, first_parameters
from xpsample.particles.resampling import Multinomial, Resampling, take_ancestors
from xpsample.particles.weights import Weights
from xpsample.sosmc.losses import Expectation, Loss
from xpsample.sosmc.moves import Move, Reversible, Unweighted
from xpsample.sosmc.single_chain import SingleChain
from xpsample.targets.bound import BoundTarget
from xpsample.targets.parametric import family_of
from xpsample.targets.point import Capability, Point
from xpsample.targets.prepared import PreparedTarget


class Adaptation(FrozenDataclass, eq=True):
    """A step size that follows the effective sample size (Remark 4).

    After an iteration with an ESS below ``threshold * particles`` it is divided by `factor`, otherwise multiplied by
    it.

    Parameters
    ----------
    threshold : float
        In [0, 1].
    factor : float
        Above 1.
    least, most : float
        Bounds, in units of the step size.
    """

    threshold: float = number(default=0.95, ge=0, le=1)
    factor: float = number(default=1.01, gt=1)
    least: float = number(default=0.0, ge=0)
    most: float = number(default=float("inf"), gt=0, infinite=True)

    def __check_init__(self) -> None:
        check_number("most", self.most, self.least, infinite=True)

    def update(self, xp: Any, value: Array, ess: Array, particles: int) -> Array:
        """The next value, from arrays that broadcast against each other."""
        value = xp.where(ess < self.threshold * particles, value / self.factor, value * self.factor)
        value = xp.where(value < self.least, self.least, value)
        return xp.where(value > self.most, self.most, value)


class SOSMCState(NamedTuple):
    """Weighted particles of pi_theta at the current parameters theta, and what the next iteration needs.

    ``base`` is the move's state; its point is under ``parameters``. ``optimizer`` is the optimizer's state.
    ``resampled`` (*runs) tells whether the last iteration resampled. ``step_size`` (*runs, 1) of the move and ``rate``
    (*runs), the factor of the optimizer's updates, are None unless they are adapted.
    """

    base: Any
    parameters: tree.Tree
    optimizer: tree.Tree
    weights: Weights
    resampled: Array
    step_size: Array | None = None
    rate: Array | None = None

    def findings(self) -> list[Finding]:
        """Check if the optimization has diverged."""
        leaves = [to_host(leaf) for _, leaf in tree.items(self.parameters)]
        return judge_training(leaves, to_host(self.point.x))

    @property
    def point(self) -> Point:
        """The particles, (*runs, particles, dim)."""
        return self.base.point


def _as_loss(name: str, value: Any) -> Loss:
    if isinstance(value, Loss):
        return value
    if not callable(value) or isinstance(value, type):
        raise HyperparameterError(f"{name} must be a Loss or a function h(x, parameters); got {given(value)}")
    return Expectation(value)


def _as_move(name: str, value: Any) -> Move[Any]:
    move = Reversible(value) if isinstance(value, Kernel) else value
    if not isinstance(move, Move):
        raise HyperparameterError(f"{name} must be a Move or a Kernel; got {given(value)}")
    return move


class SOSMC(Kernel[SOSMCState, Info]):
    """Minimizes a loss whose gradient is an expectation over pi_theta, with weighted particles that follow theta.

    An iteration takes the gradient from the weighted particles and makes a step of the optimizer. It resamples the
    particles if the effective sample size of their weights is at most ``threshold`` times their number, moves them, and
    multiplies their weights by the incremental ones. This is Algorithm 1, begun at its line 13: between iterations the
    particles are weighted for the parameters of the state. With a `Reversible` move, particles are weighted before they
    are resampled and moved.

    The target is a `Parametric`, and the positions are (*runs, particles, dim). Leading axes are independent runs; the
    parameters of a batch of runs have leaves (*runs, 1, ...), which broadcast against the particles.

    Parameters
    ----------
    loss : Loss or callable
        What is minimized; a function ``h(x, parameters)`` is made an `Expectation`.
    move : Move or Kernel
        How particles follow. A kernel is made `Reversible`.
    optimizer : Optimizer
        `SGD`, `Adam`, `Clipped`, `Averaged`, or another with ``init`` and ``update`` for the library's arrays, such as
        an optax optimizer for JAX or one of `from_optim` for torch.
    threshold : float
        tau, in [0, 1]; 0 never resamples, 1 always does.
    resampling : Resampling
    adapt_move : Adaptation, optional
        Adaptation of the move's step size.
    adapt_optimizer : Adaptation, optional
        Adaptation of a factor of the optimizer's updates, 1 at the start.
    moves : int
        How often particles move at each theta (K_inner), at least 1.
    initial : callable, optional
        ``(*runs, particles, dim) -> (*runs, particles)``, pure: the log density q_0 that the positions at the start are
        drawn from. They get the weights exp(-U) / q_0 (lines 4-5), and need not be draws of pi_theta.

    See Also
    --------
    Parametric : The family that it moves.
    TemperedSMC : Particles along a fixed path.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> from xpsample.optimize.optimizers import Adam
    >>> from xpsample.sosmc import LangevinMove, RewardReverseKL
    >>> reward = lambda x: np.where(x[..., 1] < 0, 1.0, 0.0)  # need not be differentiable
    >>> family = xps.Parametric(
    ...     lambda x, theta: theta[..., 0] * reward(x) - 0.5 * np.sum(x**2, axis=-1),
    ...     np.zeros((1, 1)),
    ...     score=lambda x, theta: -x,
    ...     gradient=xps.FiniteDifference(1e-3),
    ... )
    >>> x0 = np.random.default_rng(0).standard_normal((500, 2))  # particles
    >>> kernel = xps.SOSMC(RewardReverseKL(reward, beta=1.0), LangevinMove(0.3), Adam(0.1))
    >>> trace = xps.sample(family, kernel, x0, 100, seed=1)
    >>> bool(abs(float(trace.state.parameters.ravel()[0]) - 1.0) < 0.1)  # 1 / beta
    True
    """

    loss: Any = checked(_as_loss)
    move: Any = checked(_as_move)
    optimizer: Optimizer = checked(check_optimizer)
    threshold: float = number(default=0.5, ge=0, le=1)
    resampling: Resampling = instance(Resampling, "Multinomial()", default=Multinomial())
    adapt_move: Adaptation | None = instance(Adaptation, "Adaptation()", default=None)
    adapt_optimizer: Adaptation | None = instance(Adaptation, "Adaptation()", default=None)
    moves: int = count(default=1)
    initial: Callable[[Array], Array] | None = function("(x)", default=None)

    traits = Trait.NONE  # weighted particles, which no kernel around them would weigh

    def __check_init__(self) -> None:
        if self.initial is not None and isinstance(self.move, Unweighted | SingleChain):
            raise HyperparameterError(
                f"initial weighs the start, and particles of {type(self.move).__name__} are not weighed by where they "
                "are. Omit it, or use LangevinMove or a kernel."
            )
        if isinstance(self.move, SingleChain) and self.threshold:
            raise HyperparameterError("the time average of SingleChain is not resampled. Set threshold=0.")
        if self.adapt_move is not None and self.move.step_size is None:
            raise HyperparameterError(
                f"adapt_move needs a step_size, but {self.move} has none. Set one, or omit adapt_move."
            )

    @declared
    def tuning_inside(self) -> Kernel[Any, Any] | None:
        """The inner kernel of the move."""
        return self.move.tuning_inside

    @declared
    def requires(self) -> Capability:
        return self.move.requires | self.loss.requires

    def init(self, target: BoundTarget, x: Array) -> SOSMCState:
        family_of(target)
        assert isinstance(target, PreparedTarget)
        xp, parameters = target.xp, first_parameters(target.data)
        _check_shapes(x, parameters)
        with errors_of_functions("optimizer.init failed"):
            optimizer = self.optimizer.init(parameters)
        if self.adapt_optimizer is not None and isinstance(optimizer, AverageState):
            raise HyperparameterError(
                "adapt_optimizer scales the updates after Averaged has added them to its average. Omit one of them."
            )
        base = self.move.init(target.member(parameters), x)
        weights = Weights.equal(xp, xp.zeros_like(target.as_floating(x)[..., 0]))
        if self.initial is not None:
            drawn_from = check_result("the function initial", self.initial(x), tuple(x.shape[:-1]))
            weights = weights.times(xp, base.point.log_density - drawn_from)
        zero = xp.zeros_like(weights.ess)
        step_size = None if self.adapt_move is None else zero[..., None] + self.move.step_size
        rate = None if self.adapt_optimizer is None else xp.ones_like(zero)
        return SOSMCState(base, parameters, optimizer, weights, zero > 0, step_size, rate)

    def noise(self, x: Array) -> Specs:
        own = {"resample": self.resampling.noise(tuple(x.shape[:-2]), x.shape[-2])} if self.threshold else {}
        return {**own, **self.loss.noise(x), **of_moves(self.move.noise(x), self.moves)}

    def step(self, target: BoundTarget, state: SOSMCState, noise: dict[str, Array]) -> tuple[SOSMCState, Info]:
        assert isinstance(target, PreparedTarget)
        xp, weights = target.xp, state.weights
        move = self.move if state.step_size is None else self.move.with_step_size(state.step_size)
        particles = weights.logs.shape[-1]

        gradient = self.loss.gradient(target, state.parameters, state.point, xp.exp(weights.logs), noise)
        updates, optimizer = self.optimizer.update(gradient, state.optimizer, state.parameters)
        parameters = tree.map(lambda a, b: a + _scaled(b, state.rate), state.parameters, updates)
        before, after = target.member(state.parameters), target.member(parameters)

        base, increments, weighing = move.weigh(after, state.base)
        if increments is not None:
            weights = weights.times(xp, increments)
        resampled = state.resampled
        if self.threshold:
            resampled = weights.ess <= self.threshold * particles
            index = self.resampling.ancestors(xp, xp.exp(weights.logs), noise["resample"])
            base = with_chains(base, take_ancestors(xp, resampled, index, of_chains(base)))
            weights = weights.reset(xp, resampled)
        base, increments, info = move.step(before, after, base, of_move(noise, self.moves, 0))
        if increments is not None:
            weights = weights.times(xp, increments)
        base, weights, info = self._further(move, after, base, weights, info, noise)

        step_size, rate = state.step_size, state.rate
        if self.adapt_move is not None and step_size is not None:
            step_size = self.adapt_move.update(xp, step_size, weights.ess[..., None], particles)
        if self.adapt_optimizer is not None and rate is not None:
            rate = self.adapt_optimizer.update(xp, rate, weights.ess, particles)
        spent = info.evaluations.plus(self.loss.evaluations).plus(weighing)
        info = info._replace(evaluations=spent)
        return SOSMCState(base, parameters, optimizer, weights, resampled, step_size, rate), info

    def _further(
        self, move: Move, target: BoundTarget, base: Any, weights: Weights, info: Info, noise: dict[str, Array]
    ) -> tuple[Any, Weights, Info]:
        """The moves after the first, which are under the same theta before and after."""
        if self.moves == 1:
            return base, weights, info

        def one(i: Any, carry: tuple[Any, Weights, Info]) -> tuple[Any, Weights, Info]:
            base, weights, done = carry
            base, increments, info = move.step(target, target, base, of_move(noise, self.moves, i + 1))
            if increments is not None:
                weights = weights.times(target.xp, increments)
            return base, weights, done.plus(Info.of(info, self.moves))

        return target.backend.repeat(self.moves - 1, one, (base, weights, Info.of(info, self.moves)))


def _scaled(update: Array, rate: Array | None) -> Array:
    return update if rate is None else rate[(..., *(None,) * (update.ndim - rate.ndim))] * update


def _check_shapes(x: Array, parameters: tree.Tree) -> None:
    if x.ndim < 2:
        raise HyperparameterError(f"SOSMC moves particles, (*runs, particles, dim); got {tuple(x.shape)}")
    runs = tuple(x.shape[:-2])
    for path, leaf in tree.items(parameters):
        if runs and tuple(leaf.shape[: len(runs) + 1]) != (*runs, 1):
            raise HyperparameterError(
                f"particles {tuple(x.shape)} are {runs} runs, whose parameters have leaves {(*runs, 1)} + their own "
                f"shape; {path or 'the parameter'} has {tuple(leaf.shape)}"
            )
