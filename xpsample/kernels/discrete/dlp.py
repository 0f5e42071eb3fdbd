"""Discrete Langevin proposals: all variables moved at once, each by a categorical choice that the score informs."""

from typing import Any, ClassVar, NamedTuple

from xpsample.adaptation import StepSize
from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import parameter
from xpsample.core.hyperparameters import per_coordinate
from xpsample.core.registry import to_host
from xpsample.core.specs import Specs
from xpsample.diagnostics.findings import Finding
from xpsample.diagnostics.temperatures import judge_rejections
from xpsample.kernels.discrete.common import choose_or_stay, log_probability_or_stay, space_of, uniform_per_variable
from xpsample.kernels.kernel import (
    ChainState,
    Info,
    Kernel,
    MemorylessKernel,
    freeze,
    metropolis,
    none_frozen,
    uniform_per_chain,
)
from xpsample.kernels.traits import REVERSIBLE, UNADJUSTED
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability, Point

# The largest tuned step size: where it is reached, the way from one value to the next counts for nothing.
LARGEST_STEP_SIZE = 1e6


def langevin_moves(target: BoundTarget, point: Point, step_size: Any, balance: Any) -> Array:
    """Log weights of all other values of every variable, ``(*chains, variables, choices - 1)``; staying has 0.

    For a value v of variable i, ``balance * s_i (v - x_i) - (v - x_i)^2 / (2 step_size)``; summed over the coordinates
    of a block on a one-hot space. Step size and balance broadcast against the chain axes.
    """
    x = target.as_floating(point.x)[..., None]
    drift = per_coordinate(per_coordinate(balance)) * point.score[..., None]
    curvature = 0.5 / per_coordinate(per_coordinate(step_size))
    return space_of(target).changes(target.xp, x[..., 0], lambda v: (v - x) * (drift - curvature * (v - x)))


def langevin_step(
    target: BoundTarget, point: Point, noise: dict[str, Array], step_size: Any, balance: Any
) -> tuple[Point, Info]:
    """One Metropolis-adjusted discrete Langevin step, for `langevin_noise`."""
    xp, space = target.xp, space_of(target)
    current = point
    moves = langevin_moves(target, current, step_size, balance)
    choice = choose_or_stay(xp, moves, noise["proposal"][..., : moves.shape[-2]])
    proposal = target.evaluate(space.move(xp, current.x, choice))
    log_ratio = proposal.log_density - current.log_density
    log_ratio = log_ratio + _log_proposal_ratio(target, proposal, moves, choice, step_size, balance)
    kept, info = metropolis(target, log_ratio, noise["accept"], proposal, current)
    return kept, info._replace(moved=info.moved & xp.any(choice > 0, axis=-1))


def _log_proposal_ratio(
    target: BoundTarget, proposal: Point, moves: Array, choice: Array, step_size: Any, balance: Any
) -> Array:
    """log q(x | x') - log q(x' | x), ``(*chains)``, of a `choice` among `moves` that led to the proposal."""
    xp, space = target.xp, space_of(target)
    moves_back = langevin_moves(target, proposal, step_size, balance)
    back = log_probability_or_stay(xp, moves_back, space.back(xp, choice))
    return xp.sum(back - log_probability_or_stay(xp, moves, choice), axis=-1)


def langevin_noise(x: Array) -> Specs:
    """Noise that `langevin_step` consumes."""
    return {"proposal": uniform_per_variable(x), "accept": uniform_per_chain(x)}


class DMALA(MemorylessKernel[Info]):
    """The Metropolis-adjusted discrete Langevin sampler (Zhang, Liu & Liu 2022; HiSS Eq. 11; SRMC Eq. 29).

    All variables are drawn at once, independently, from ``softmax_v(balance s_i (v - x_i) - (v - x_i)^2 / (2
    step_size))`` over all their values v, the present one included, and the whole move is accepted by
    Metropolis-Hastings. A step that proposes to stay has acceptance probability 1 and has not moved.

    Parameters
    ----------
    step_size : float or array, optional
        alpha, in units of x squared: twice the eta of SRMC's Eq. 29. A step of 4 alpha on {-1, 1} is one of alpha on
        {0, 1}. Broadcasts against the chain axes. Tuned to an acceptance of 0.574 when not given, the best in high
        dimension [1]_.
    balance : float or array
        beta, 1/2 for the published proposal; towards 1 suits very large steps. Broadcasts against the chain axes.

    See Also
    --------
    DULA : Without an accept step.
    GWG : Moves one variable at a time.
    ACS : Step sizes in cycles.

    References
    ----------
    .. [1] Sun, Dai & Schuurmans (2022), "Optimal scaling for locally balanced proposals in discrete spaces".

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> b = np.array([1.0, -1.0, 0.5])
    >>> target = xps.Target(lambda x: x @ b, score=lambda x: b + 0 * x, space=xps.Binary())
    >>> x0 = np.zeros((8, 3))
    >>> trace = xps.sample(target, xps.DMALA(), x0, 2000, seed=1)
    >>> bool(np.all(abs(trace.draws.mean(axis=(0, 1)) - 1 / (1 + np.exp(-b))) < 0.05))
    True
    """

    optimal_acceptance: ClassVar[float] = 0.574
    step_size: Any = parameter(default=None, gt=0, tune=StepSize(optimal_acceptance, most=LARGEST_STEP_SIZE))
    balance: Any = parameter(default=0.5, ge=0)

    requires: ClassVar[Capability] = Capability.LOG_DENSITY | Capability.SCORE | Capability.DISCRETE
    traits = REVERSIBLE

    def noise(self, x: Array) -> Specs:
        return langevin_noise(x)

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, Info]:
        point, info = langevin_step(target, state.point, noise, self.step_size, self.balance)
        return ChainState(point), info


class DULAState(NamedTuple):
    """Positions, chains that have left the finite numbers, and the share that `DMALA` would reject, (*chains).

    ``rejected`` is a mean over about the last `LAST` steps, of probabilities from the score alone.
    """

    point: Point
    frozen: Array
    rejected: Array

    def findings(self) -> list[Finding]:
        """Check whether long steps keep the chains far from the target."""
        return judge_rejections(to_host(self.rejected)[~to_host(self.frozen)])


LAST = 100  # Steps of the mean in `DULAState`


class DULA(Kernel[DULAState, Info]):
    """The unadjusted discrete Langevin sampler: every proposal of `DMALA` is taken (Zhang, Liu & Liu 2022).

    Needs a score only. It does not leave the target invariant, and how far off it is depends on the step size, which
    has to be given. A run in which `DMALA` would reject over a tenth of the steps has a finding: that share is about
    the distance of the draws from the target in total variation.

    Parameters
    ----------
    step_size : float or array
        alpha, as for `DMALA`.

    See Also
    --------
    DMALA : With an accept step.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> b = np.array([1.0, -1.0, 0.5])
    >>> target = xps.Target(lambda x: x @ b, score=lambda x: b + 0 * x, space=xps.Binary())
    >>> x0 = np.zeros((8, 3))
    >>> trace = xps.sample(target, xps.DULA(0.3), x0, 2000, seed=1)
    >>> trace.draws.shape
    (2000, 8, 3)
    """

    step_size: Any = parameter(default=None, gt=0)

    requires: ClassVar[Capability] = Capability.SCORE | Capability.DISCRETE
    traits = UNADJUSTED

    def __check_init__(self) -> None:
        if self.step_size is None:
            raise HyperparameterError(
                "DULA needs a step_size: it accepts every move, so no warm-up can tune it. Start with DMALA's: "
                "sample(target, DMALA(StepSize(0.95)), ...).kernel.step_size"
            )

    def init(self, target: BoundTarget, x: Array) -> DULAState:
        point = target.evaluate(x)
        return DULAState(point, none_frozen(target.xp, x), target.xp.zeros_like(point.score[..., 0]))

    def noise(self, x: Array) -> Specs:
        return {"proposal": uniform_per_variable(x)}

    def step(self, target: BoundTarget, state: DULAState, noise: dict[str, Array]) -> tuple[DULAState, Info]:
        xp = target.xp
        current = state.point
        moves = langevin_moves(target, current, self.step_size, 0.5)
        choice = choose_or_stay(xp, moves, noise["proposal"][..., : moves.shape[-2]])
        new = target.evaluate(space_of(target).move(xp, current.x, choice))
        # The trapezoidal rule replaces the difference of the log densities. It is exact for quadratic ones.
        way = target.as_floating(new.x) - target.as_floating(current.x)
        log_ratio = 0.5 * xp.sum((current.score + new.score) * way, axis=-1)
        log_ratio = log_ratio + _log_proposal_ratio(target, new, moves, choice, self.step_size, 0.5)
        rejected = 1.0 - xp.exp(xp.where(log_ratio < 0.0, log_ratio, 0.0))
        rejected = state.rejected + (rejected - state.rejected) / LAST
        point, frozen, info = freeze(xp, new, current, state.frozen, target.costs.evaluate)
        moved = info.moved & xp.any(choice > 0, axis=-1)
        return DULAState(point, frozen, rejected), info._replace(moved=moved)
