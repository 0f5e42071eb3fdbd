"""Tuned repellence strength: chosen by the theory's predictions from the warm-up of the base kernel."""

from typing import Any, ClassVar, NamedTuple

from array_api_compat import device as device_of

from xpsample.adaptation.rule import STEP_BITS, Rule, StepRecord, per_group, rounded, vector_per_group
from xpsample.core.arrays import Array, is_array
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import number
from xpsample.core.hyperparameters import show
from xpsample.core.registry import to_host
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.strength import Waiting
from xpsample.srmc.schedules import PowerLaw, Schedule, Stable
from xpsample.srmc.theory.clt import direction_variance
from xpsample.targets.tilted import Ratio

# Share of the warm-up after which the pilot begins: until then the base kernel finds its metric and step size.
PILOT_BEGINS = 0.6

KAPPA = 0.5  # Share of the stability bound that the first step of the history may use, as in `Stable`

CANDIDATES = 16  # Strengths that are compared: the largest, and others, each smaller by a root of 2

MEMORY = 20.0  # Steps that the product of the power iteration is averaged over, about

LEAST_APART, MOST_APART = 1e-4, 1.99  # Limits of 1 minus an autocorrelation


class PilotInfo(NamedTuple):
    """Info of one step of the pilot, and the tilt's scores before and after it, (*chains, dim)."""

    acceptance_probability: Array
    moved: Array
    diverged: Array
    evaluations: Evaluations
    before: Array
    after: Array


class Pilot(NamedTuple):
    """Statistics of the chains of each group, after the first part of the warm-up.

    Averages: ``mean`` and ``variance`` of the positions, ``square`` of the scores; ``both`` of their product;
    ``x_change``, ``s_change`` and ``both_change``, of the squares and of the product of their changes in a step,
    all ``(*groups, 1, dim)``.
    ``product`` is of the power iteration for the direction with the largest scores, ``along`` and
    ``along_change`` are ``square`` and ``s_change`` in it, ``(*groups, 1)``. ``theta`` is the history of each chain,
    ``(*chains, dim)``. ``most_s`` and ``most_theta`` are the largest scores and histories of all chains and steps, and
    ``most_s_along`` and ``most_theta_along`` those in the direction. ``alpha`` is the strength, ``(*groups, 1)``.
    """

    mean: Array
    variance: Array
    square: Array
    both: Array
    x_change: Array
    s_change: Array
    both_change: Array
    product: Array
    along: Array
    along_change: Array
    theta: Array
    most_s: Array
    most_theta: Array
    most_s_along: Array
    most_theta_along: Array
    alpha: Array


class LowestError(Rule, eq=True):
    """The alpha with the lowest predicted error of the mean, among the values considered safe.

    The chains warm up without repellence. From their last steps come, for each coordinate, the variances of position
    and score, and long-run ones by the lag-one autocorrelations. `direction_variance` gives from them the error of
    the mean over the base kernel's error, whose average over the coordinates is minimized. Three bounds hold:

    - in no coordinate is the predicted error above the base kernel's;
    - at the first step of the history gamma is at most half of `stability_bound`;
    - ``alpha |s . theta|``, by which the tilt changes the log density, is at most `exponent` for the largest score and
      the largest history of all chains of the pilot. This one is for targets that are not Gaussian: there a chain that
      stays in a tail for long makes theta large, of which the theory knows nothing.

    The last two hold in every coordinate, and in the direction in which scores are largest (by power iteration).

    Parameters
    ----------
    exponent : float
        1 is the threshold of the paper (App. D.1.4) and of `Repellence`. With up to 4 the errors of means are lower,
        but chains can break that the base kernel does not break.
    """

    exponent: float = number(default=1.0, gt=0)

    rank = 2
    patience: ClassVar[float] = 2.0

    def init(self, xp: Any, point: Any, pooled: bool) -> Pilot:
        zero, zeros = per_group(xp, point.x, pooled), vector_per_group(xp, point.x, pooled)
        averages, largest = (zeros,) * 8, (zeros, zeros, zero, zero)
        return Pilot(*averages, zero, zero, 0.0 * point.x, *largest, zero)

    def value(self, xp: Any, memory: Pilot, kernel: Any) -> Waiting:
        return Waiting()

    def update(self, memory: Pilot, seen: StepRecord) -> tuple[Pilot, StepRecord]:
        pilot = _with_step(memory, seen)
        return pilot._replace(alpha=self._alpha(seen, pilot)), seen

    def final(self, xp: Any, memory: Pilot) -> Array:
        some = memory.alpha > 0
        return xp.where(some, rounded(xp, xp.log(xp.where(some, memory.alpha, 1.0)), STEP_BITS), 0.0)

    def path(self, xp: Any, memory: Pilot) -> Array:
        return memory.alpha

    def _alpha(self, seen: StepRecord, pilot: Pilot) -> Array:
        xp, history = seen.xp, _history(seen.xp, seen.kernel.schedule)
        tiny = float(xp.finfo(pilot.variance.dtype).smallest_normal)
        variance, square = xp.clip(pilot.variance, min=tiny), xp.clip(pilot.square, min=tiny)
        slow_x, slow_s = _time(xp, 0.5 * pilot.x_change / variance), _time(xp, 0.5 * pilot.s_change / square)

        # Scores have mean 0 and, by Stein's identity, the covariance -1 with their own coordinate, or discrete ones
        # another.
        both = pilot.both if isinstance(seen.kernel._tilt, Ratio) else xp.zeros_like(pilot.both) - 1.0
        some = xp.where(both == 0, tiny, both)
        noise_x, noise_s = variance * slow_x, square * slow_s
        slow_both = xp.abs(both) * _time(xp, 0.5 * pilot.both_change / some)
        noise_both = xp.sign(both) * xp.minimum(slow_both, xp.sqrt(noise_x) * xp.sqrt(noise_s))

        along = xp.clip(pilot.along, min=tiny)
        slow_along = _time(xp, 0.5 * pilot.along_change / along)
        most = xp.minimum(
            xp.min(self._most(xp, history, square, slow_s, pilot.most_s * pilot.most_theta), axis=-1),
            self._most(xp, history, along, slow_along, pilot.most_s_along * pilot.most_theta_along),
        )
        steps = xp.arange(CANDIDATES, dtype=most.dtype, device=device_of(most))
        alpha = most[..., None] * 2.0 ** (-0.5 * steps)
        square, both, *noises = (a[..., None] for a in (square, both, noise_s, noise_both, noise_x))
        settings = alpha[..., None, :], square, both, *noises, history.rho, history.scale
        error = direction_variance(*settings)
        ratio = error / noise_x[..., None]  # (*groups, 1, dim, candidates)
        mean, worst = xp.mean(ratio, axis=-2), xp.max(ratio, axis=-2)
        mean = xp.where(worst <= 1, mean, 1.0)
        moved = xp.min(pilot.x_change, axis=-1)[..., None] > 0  # of chains that stay where they are nothing is known
        best = moved & (mean < 1) & (mean <= xp.min(mean, axis=-1, keepdims=True))
        return xp.max(xp.where(best, alpha, 0.0), axis=-1)

    def _most(self, xp: Any, history: "PowerLawNumbers", square: Array, slow: Array, exponent: Array) -> Array:
        """The largest alpha that is stable, and tilts by little, along directions.

        `square` is the variance of the score in them, which is 1 / variance for a Gaussian, `slow` the sum of its
        autocorrelations, (1 + c) / (1 - c) with c the one at lag one, and `exponent` the largest ``|s| |theta|``.
        """
        first = _gamma(xp, history, 1.0 + 0 * square)
        stable = slow * (2 * KAPPA / first - 1) / square
        tiny = float(xp.finfo(square.dtype).smallest_normal)
        return xp.minimum(stable, 1 / xp.clip(exponent / self.exponent, min=tiny))


class PowerLawNumbers(NamedTuple):
    """The numbers of a power law."""

    rho: float | Array
    scale: float
    offset: float


def check_schedule(schedule: Schedule) -> None:
    """Raise HyperparameterError unless alpha can be tuned with this schedule."""
    law = _power_law(schedule)
    one = isinstance(law, PowerLaw) and to_host(law.rho).size == 1
    if one and (to_host(law.rho).reshape(()) < 1 or law.scale > 0.5):
        return
    raise HyperparameterError(
        "SRMC tunes alpha only for a PowerLaw with one rho, and a scale above 1/2 if rho is 1; got "
        f"{show(law)}: set alpha"
    )


def _power_law(schedule: Schedule) -> Any:
    return schedule.schedule if isinstance(schedule, Stable) else schedule


def _history(xp: Any, schedule: Schedule) -> PowerLawNumbers:
    law = _power_law(schedule)
    return PowerLawNumbers(xp.reshape(law.rho, ()) if is_array(law.rho) else law.rho, law.scale, law.offset)


def _gamma(xp: Any, history: PowerLawNumbers, n: Array) -> Array:
    return xp.clip(history.scale * (n + history.offset) ** -history.rho, max=1.0)


def _time(xp: Any, change: Array) -> Array:
    """(1 + c) / (1 - c), from 1 - c."""
    change = xp.clip(change, min=LEAST_APART, max=MOST_APART)
    return (2 - change) / change


def _with_step(memory: Pilot, seen: StepRecord) -> Pilot:
    """The averages after one more step of each chain."""
    xp = seen.xp
    x, score = seen.after.x, _finite(xp, seen.info.after)
    moved, changed = x - seen.before.x, score - _finite(xp, seen.info.before)
    begin = xp.floor(PILOT_BEGINS * seen.steps)
    weight = xp.where(seen.n > begin, 1 / xp.clip(seen.n - begin, min=1.0), 1.0)

    def averaged(old: Array, new: Array) -> Array:
        return old + weight * (new - old)

    size = xp.sqrt(xp.sum(memory.product**2, axis=-1, keepdims=True))
    even = float(x.shape[-1]) ** -0.5
    w = xp.where(size > 0, memory.product / xp.where(size > 0, size, 1.0), even)
    here, change = xp.sum(score * w, axis=-1), xp.sum(changed * w, axis=-1)
    product = seen.mean_vector(score * here[..., None])

    gamma = _gamma(xp, _history(xp, seen.kernel.schedule), xp.clip(seen.n - begin, min=1.0))
    begun = seen.n > begin
    theta = xp.where(begun, memory.theta + gamma * (score - memory.theta), 0.0)

    def most(old: Array, values: Array, chains: int) -> Array:
        size = xp.where(begun, xp.abs(values), 0.0)
        return xp.maximum(old, xp.max(size, axis=chains, keepdims=True) if seen.pooled else size)

    theirs = seen.mean_vector(x)
    gap, within = theirs - memory.mean, seen.mean_vector((x - theirs) ** 2)
    return Pilot(
        mean=memory.mean + weight * gap,
        variance=(1 - weight) * (memory.variance + weight * gap * gap) + weight * within,
        square=averaged(memory.square, seen.mean_vector(score * score)),
        both=averaged(memory.both, seen.mean_vector((x - memory.mean) * score)),
        x_change=averaged(memory.x_change, seen.mean_vector(moved * moved)),
        s_change=averaged(memory.s_change, seen.mean_vector(changed * changed)),
        both_change=averaged(memory.both_change, seen.mean_vector(moved * changed)),
        product=memory.product + xp.clip(weight, min=1 / MEMORY) * (product - memory.product),
        along=averaged(memory.along, seen.mean(here * here)),
        along_change=averaged(memory.along_change, seen.mean(change * change)),
        theta=theta,
        most_s=most(memory.most_s, score, -2),
        most_theta=most(memory.most_theta, theta, -2),
        most_s_along=most(memory.most_s_along, here, -1),
        most_theta_along=most(memory.most_theta_along, xp.sum(theta * w, axis=-1), -1),
        alpha=memory.alpha,
    )


def _finite(xp: Any, a: Array) -> Array:
    return xp.where(xp.isfinite(a), a, 0.0)
