"""Hyperbolic secant-squared Gibbs sampling, for discrete targets with isolated modes.

Source: the HiSS paper, Algorithm 1 and Eqs. 4 to 8.
"""

from __future__ import annotations  # since torch.compile of torch 2.6 reads no generic ones

from typing import Any, NamedTuple

from xpsample.adaptation import StepSize, unset
from xpsample.core.arrays import Array
from xpsample.core.declared import declared
from xpsample.core.errors import HyperparameterError
from xpsample.core.fields import count, flag, instance, parameter
from xpsample.core.hyperparameters import per_coordinate
from xpsample.core.specs import Specs, Uniform
from xpsample.gradients.choices import Evaluations
from xpsample.hiss.smoothed import Conditional, Logistic, Smoothing
from xpsample.kernels.compose import check_base, nested, unnested
from xpsample.kernels.discrete.common import choose_or_stay, space_of
from xpsample.kernels.kernel import ChainState, Info, Kernel, metropolis, with_position
from xpsample.kernels.traits import ADJUSTED, MEMORYLESS, Trait
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability, Point

LARGEST_SCALE = 1000.0  # The largest tuned scale: noise that wide leaves nothing of the values that the variables had


class HiSSState(NamedTuple):
    """The inner kernel's state, under the conditional target of the last sweep."""

    base: Any

    @property
    def point(self) -> Point:
        """The current point under the target that was given."""
        return self.base.point.base


class HiSSInfo(NamedTuple):
    """`Info` of the denoising proposals, averaged over the sweeps, and ``refinement`` (*chains).

    ``refinement`` is the mean acceptance probability of the inner steps, 0 if there are none. ``moved`` tells whether
    the position after the step differs from that before.
    """

    acceptance_probability: Array
    moved: Array
    diverged: Array
    evaluations: Evaluations
    refinement: Array


class _StepSums(NamedTuple):
    """Sums over the sweeps and refinements of a step, each (*chains)."""

    accepted: Array
    refined: Array
    diverged: Array
    evaluations: Evaluations

    def plus(self, info: Info) -> _StepSums:
        return self._replace(
            diverged=self.diverged | info.diverged, evaluations=self.evaluations.plus(info.evaluations)
        )


class HiSS(Kernel[HiSSState, HiSSInfo]):
    """HiSS (Algorithm 1): `sweeps` times, add noise, denoise, accept, and refine by an inner kernel.

    A sweep draws theta_a = x + scale * xi with xi logistic (Eq. 6). Then it proposes a value for every variable, each
    with probability proportional to the density of the noise from that value to theta_a (Eq. 7). It accepts all values
    or none with probability ``min(1, pi(x') / pi(x))``, to which Eq. 8 simplifies. Last, the inner kernel makes
    `refinements` steps on the distribution of x given theta_a (Eq. 5).

    Parameters
    ----------
    base : Kernel
        The inner kernel, on a discrete space: HiSS leaves the target invariant where that does. `ParallelTempering`
        and `SRMC` go around `HiSS` and are refused inside.
    scale : float, array or StepSize
        eta, in units of x; broadcasts against the chain axes. The default is from the paper's first experiments, on
        values 1 and 2 apart: use more if values are further apart. ``StepSize(0.234)`` tunes it to an acceptance of the
        denoising proposals, but narrow noise holds the inner steps back, and wide noise has been better.
    sweeps : int
        G, at least 1; the default is from the paper's first experiment.
    refinements : int
        L, at least 0; default likewise.
    smoothing : Smoothing
        The distribution of the noise: `Logistic`, or `Gaussian` (HiSS-GK).
    adjusted : bool
        Whether denoising proposals are accepted by Metropolis-Hastings. Without, the target is not invariant.

    See Also
    --------
    ParallelTempering : Another way between modes.
    DMALA : An inner kernel.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> b = np.array([1.0, -1.0, 0.5])
    >>> target = xps.Target(lambda x: x @ b, score=lambda x: b + 0 * x, space=xps.Binary())
    >>> x0 = np.zeros((8, 3))
    >>> trace = xps.sample(target, xps.HiSS(xps.DMALA()), x0, 500, seed=1)
    >>> trace.draws.shape
    (500, 8, 3)
    """

    base: Kernel
    scale: Any = parameter(default=4.0, gt=0, tune=StepSize(0.234, most=LARGEST_SCALE))
    sweeps: int = count(default=5)
    refinements: int = count(default=2, ge=0)
    smoothing: Smoothing = instance(Smoothing, "Logistic()", default=Logistic())
    adjusted: bool = flag(default=True)

    def __check_init__(self) -> None:
        check_base(
            "HiSS",
            self.base,
            {
                Trait.SAMPLES: "use a kernel that samples its target",
                Trait.UNTILTED: "denoising is accepted by the density of the target; SRMC(HiSS(...), ...) is right",
                Trait.MOVABLE: "the target of the inner steps changes; ParallelTempering(HiSS(...), betas) is exact",
                Trait.EXACT: "denoising is accepted by the density. Use the kernel on the whole data",
            },
        )
        if not self.adjusted and "scale" in unset(self):
            raise HyperparameterError("HiSS(adjusted=False) accepts every proposal, which tunes no scale: give one")

    @declared
    def requires(self) -> Capability:
        inner = self.base.requires if self.refinements else Capability.NONE
        return inner | Capability.LOG_DENSITY | Capability.DISCRETE

    @declared
    def traits(self) -> Trait:
        own = ADJUSTED if self.adjusted else MEMORYLESS
        return own & self.base.traits if self.refinements else own

    def init(self, target: BoundTarget, x: Array) -> HiSSState:
        start = self._conditional(target, target.as_floating(x))
        return HiSSState(self.base.init(start, x) if self.refinements else ChainState(start.evaluate(x)))

    def noise(self, x: Array) -> Specs:
        sweeps, shape = self.sweeps, tuple(x.shape)
        own: dict[str, Any] = {
            "noise": self.smoothing.spec((sweeps, *shape)),
            "denoise": Uniform((sweeps, *shape)),  # one for each variable is used
            "accept": Uniform((sweeps, *shape[:-1])),
        }
        return {**own, **nested(self.base.noise(x), sweeps, self.refinements)} if self.refinements else own

    def step(self, target: BoundTarget, state: HiSSState, noise: dict[str, Array]) -> tuple[HiSSState, HiSSInfo]:
        xp, x = target.xp, state.point.x

        def sweep(g: Any, carry: tuple[Any, _StepSums]) -> tuple[Any, _StepSums]:
            base, sums = carry
            current = target.refresh(base.point.base)
            xi = self.smoothing.draw(xp, noise["noise"][g, ...])
            joint = self._conditional(target, target.as_floating(current.x) + per_coordinate(self.scale) * xi)
            point, info = self._denoise(joint, current, noise["denoise"][g, ...], noise["accept"][g, ...])
            sums = sums.plus(info)._replace(accepted=sums.accepted + info.acceptance_probability)

            def refine(i: Any, carry: tuple[Any, _StepSums]) -> tuple[Any, _StepSums]:
                base, sums = carry
                base, info = self.base.advance(joint, base, unnested(noise, g, i))
                return base, sums.plus(info)._replace(refined=sums.refined + info.acceptance_probability)

            return target.backend.repeat(self.refinements, refine, (with_position(base, joint.from_base(point)), sums))

        zero = xp.zeros_like(state.point.log_density)
        start = (state.base, _StepSums(zero, zero, zero > 0.0, Evaluations()))
        base, sums = target.backend.repeat(self.sweeps, sweep, start)
        moved = xp.any(base.point.x != x, axis=-1)
        accepted, refined = sums.accepted / self.sweeps, sums.refined / max(1, self.sweeps * self.refinements)
        return HiSSState(base), HiSSInfo(accepted, moved, sums.diverged, sums.evaluations, refined)

    def _conditional(self, target: BoundTarget, noisy: Array) -> Conditional:
        return Conditional(target, noisy, self.scale, self.smoothing, self.requires)

    def _denoise(self, joint: Conditional, current: Point, uniform: Array, accept: Array) -> tuple[Point, Info]:
        """The point after a denoising proposal from a point of the target, accepted or rejected."""
        xp, target = joint.xp, joint.target
        moves = joint.moves(current.x)
        choice = choose_or_stay(xp, moves, uniform[..., : moves.shape[-2]])
        proposal = target.evaluate(space_of(target).move(xp, current.x, choice))
        log_ratio = self._log_ratio(joint, proposal, current)
        return metropolis(
            target, log_ratio, accept, proposal, current, target.costs.refresh.plus(target.costs.evaluate)
        )

    def _log_ratio(self, joint: Conditional, proposal: Point, current: Point) -> Array:
        # Given theta_a the target is pi(x) f(theta_a | x). The proposal's probability is f(theta_a | x') over its sum
        # over all x', and the way back has the same sum: f and the sums cancel.
        ratio = proposal.log_density - current.log_density
        return ratio if self.adjusted else joint.xp.where(joint.xp.isfinite(ratio), 0.0, ratio)
