"""The no-U-turn sampler (Hoffman & Gelman 2014), multinomial and with the generalized criterion (Betancourt 2017)."""

from __future__ import annotations  # since torch.compile of torch 2.6 reads no generic ones

from collections.abc import Callable
from functools import partial
from itertools import accumulate
from operator import mul
from typing import Any, ClassVar, NamedTuple

import array_api_extra as xpx

from xpsample.adaptation import DiagonalMetric, StepSize
from xpsample.adaptation.doublings import DEEPEST, Doublings
from xpsample.core.arrays import Array, Mask
from xpsample.core.checks import check_count
from xpsample.core.covariance import LowRankCovariance, matrix
from xpsample.core.fields import checked, parameter
from xpsample.core.hyperparameters import ToBeTuned
from xpsample.core.special import minimum_with_zero
from xpsample.core.specs import Specs, Uniform
from xpsample.gradients.choices import Evaluations
from xpsample.kernels.hmc import MAX_ENERGY_ERROR, beyond_a_bound
from xpsample.kernels.kernel import ChainState, MemorylessKernel, normal_like, select, select_point
from xpsample.kernels.traits import ADJUSTED
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability, Point


class NUTSInfo(NamedTuple):
    """`Info`, plus the number of doublings of each chain, the last, rejected one included, (*chains).

    ``energy`` is the energy of the trajectory, potential plus kinetic, (*chains). ``beyond`` flags the trajectories
    that ended beyond a hard bound, as `beyond_a_bound`. The acceptance probability is the mean of min(1, exp(H_0 - H))
    over the leaves but for one beyond such a bound, and 0 if there are no others.
    """

    acceptance_probability: Array
    moved: Array
    diverged: Array
    evaluations: Evaluations
    depth: Array
    energy: Array
    beyond: Mask


class _End(NamedTuple):
    """An end of a trajectory: position, momentum and score there, each (*chains, dim)."""

    x: Array
    p: Array
    score: Array


class _Counts(NamedTuple):
    """Statistics of a step so far, (*chains): leaves, sum of their acceptance probabilities, divergences, doublings,
    moves, and whether the last leaf was beyond a hard bound.
    """

    leaves: Array
    accepted: Array
    diverged: Array
    depth: Array
    moved: Array
    beyond: Mask


class _Checkpoints(NamedTuple):
    """Momentum, and sum of the momenta up to it, at the first leaves of unfinished subtrees, (slot, *chains, dim).

    Leaf n = 0, 2, ... has as slot the number of ones among the binary digits of n / 2: subtrees that end before it.
    """

    p: Any
    momentum_sum: Any


class _Tree(NamedTuple):
    """All leaves so far: both ends, the sum of the momenta, log of the sum of the weights exp(H_0 - H), the draw."""

    left: _End
    right: _End
    momentum_sum: Array
    log_weight: Array
    draw: Point


class _Half(NamedTuple):
    """New half of a doubling: its outer end, the fields of `_Tree`, a uniform for the choice, which chains grow."""

    end: _End
    momentum_sum: Array
    log_weight: Array
    draw: Point
    uniform: Array
    growing: Array


def _deepest(name: str, max_depth: int | Doublings | None) -> int:
    return max_depth if isinstance(max_depth, int) else (max_depth or Doublings()).most


class NUTS(MemorylessKernel[NUTSInfo]):
    """NUTS: Hamiltonian dynamics whose trajectory doubles, forwards or backwards, until it turns back on itself.

    A leaf of the trajectory is drawn by its weight exp(-H): within a doubling by the weights alone, between doublings
    with a bias to the new half. All chains make their leapfrog steps together, so a step takes as long as the step of
    the chain with the longest trajectory.

    Parameters
    ----------
    step_size : float or array, optional
        Leapfrog step, in units of x sqrt(M); broadcasts against the chain axes. Tuned to an acceptance of 0.8 when not
        given.
    mass : float, or array of shape (dim,) or (dim, dim), optional
        M, a multiple of the identity, diagonal or dense, best near the inverse covariance of the target. When not given
        a diagonal one is tuned, with the step size; it is the identity where a step size is given.
    max_depth : int, optional
        Maximum number of doublings; a step costs up to 2^max_depth - 1 log densities and scores. By default 10, and 5
        in the first third of a warm-up.

    See Also
    --------
    HMC : With a length that is tuned once.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.NUTS(), x0, 1000, seed=1)
    >>> trace.diagnose()  # nothing is wrong with the run
    ()
    """

    step_size: Any = parameter(default=None, gt=0, tune=StepSize(0.8, harmonic=True))
    mass: Array | LowRankCovariance | ToBeTuned | None = matrix(
        default=None, tune=DiagonalMetric(inverse=True), only_with="step_size"
    )
    max_depth: int | Doublings | None = checked(
        partial(check_count, most=DEEPEST), default=None, derive=_deepest, tune=Doublings(), unless="step_size"
    )

    # Asking for ratios, too, refuses targets whose acceptance gives nothing else.
    requires: ClassVar[Capability] = (
        Capability.LOG_DENSITY | Capability.DENSITY_RATIO | Capability.SCORE | Capability.REAL
    )
    traits = ADJUSTED

    @property
    def deepest(self) -> int:
        """Maximum number of doublings."""
        return _deepest("max_depth", self.max_depth)

    def noise(self, x: Array) -> Specs:
        # A uniform for each doubling: it gives the direction, then chooses each leaf, and then between the halves.
        return {"momentum": normal_like(x), "doubling": Uniform((*x.shape[:-1], self.deepest))}

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, NUTSInfo]:
        xp, repeat = target.xp, target.backend.repeat
        current = state.point
        # Noise may not be sharded as the chains are; sums with these are.
        p = self.matrix("mass").root(xp.zeros_like(current.x) + noise["momentum"])
        kinetic = self._kinetic(xp, p)
        energy = kinetic - current.log_density
        zeros = xp.zeros_like(energy)
        eps, nothing = zeros + self.step_size, zeros - xp.inf

        def double(depth: Any, carry: tuple[Any, ...]) -> tuple[Any, ...]:
            tree, active, counts, checkpoints = carry
            forward, uniform = split(xp, zeros + noise["doubling"][..., depth], zeros + 0.5)
            end = select(xp, forward, tree.right, tree.left)
            half = _Half(end, xp.zeros_like(p), nothing, tree.draw, uniform, active)
            half, counts, checkpoints = repeat(
                2**depth,
                self._leaf(target, kinetic, energy, xp.where(forward, eps, -eps)[..., None]),
                (half, counts, checkpoints),
                until=lambda carry: ~xp.any(carry[0].growing),
            )
            complete = half.growing
            take = complete & (half.uniform < xp.exp(minimum_with_zero(xp, half.log_weight - tree.log_weight)))
            tree = _Tree(
                select(xp, complete & ~forward, half.end, tree.left),
                select(xp, complete & forward, half.end, tree.right),
                tree.momentum_sum + half.momentum_sum,
                xp.logaddexp(tree.log_weight, half.log_weight),
                select_point(xp, take, half.draw, tree.draw),
            )
            turned = self._turned(xp, tree.left.p, tree.right.p, tree.momentum_sum)
            counts = counts._replace(depth=counts.depth + xp.astype(active, xp.int32), moved=counts.moved | take)
            return tree, complete & ~turned & (counts.depth < self.derived("max_depth")), counts, checkpoints

        point = _End(current.x, p, current.score)
        nobody, none = zeros != 0, xp.zeros_like(zeros, dtype=xp.int32)
        start = (
            _Tree(point, point, p, zeros, current),
            ~nobody,
            _Counts(none, zeros, nobody, none, nobody, nobody),
            _Checkpoints(xp.stack([p] * self.deepest), xp.stack([p] * self.deepest)),
        )
        tree, _, counts, _ = repeat(self.deepest, double, start, until=lambda carry: ~xp.any(carry[1]))

        inside = counts.leaves - xp.astype(counts.beyond, counts.leaves.dtype)  # none beyond is followed by another one
        acceptance = counts.accepted / xp.astype(xp.clip(inside, min=1), zeros.dtype)
        spent = target.costs.evaluate.times(counts.leaves)
        info = NUTSInfo(acceptance, counts.moved, counts.diverged, spent, counts.depth, energy, counts.beyond)
        return ChainState(tree.draw), info

    def _leaf(self, target: BoundTarget, kinetic: Array, energy: Array, eps: Array) -> Callable[[Any, Any], Any]:
        """Make the n-th leaf of the new half: a leapfrog step of all chains, and updates of the growing chains."""
        xp = target.xp

        def leaf(n: Any, carry: tuple[_Half, _Counts, _Checkpoints]) -> tuple[_Half, _Counts, _Checkpoints]:
            half, counts, checkpoints = carry
            p = half.end.p + 0.5 * eps * half.end.score
            new = target.evaluate(half.end.x + eps * self.matrix("mass").solve(p))
            p = p + 0.5 * eps * new.score
            now = self._kinetic(xp, p)
            gain = energy + new.log_density - now
            fine = xp.isfinite(gain) & (gain >= -MAX_ENERGY_ERROR)
            here = half.growing & fine

            # The multinomial draw takes the leaf with its share of the weight so far.
            log_weight = xp.where(here, xp.logaddexp(half.log_weight, gain), half.log_weight)
            take, uniform = split(xp, half.uniform, xp.where(here, xp.exp(gain - log_weight), 0.0))
            draw = select_point(xp, take, new, half.draw)
            end = select(xp, here, _End(new.x, p, new.score), half.end)
            momentum_sum = half.momentum_sum + end.p

            # No balanced subtree that ends here, one for each trailing one of n, may have turned.
            bits = [(n >> k) & 1 for k in range(self.deepest)]
            slot, trailing = sum(bits[1:]), sum(accumulate(bits, mul))
            written = slot + bits[0] * (self.deepest - 1 - slot)  # an odd leaf is no left end: the slot nobody reads
            checkpoints = _Checkpoints(
                xpx.at(checkpoints.p)[written, ...].set(end.p),
                xpx.at(checkpoints.momentum_sum)[written, ...].set(momentum_sum),
            )

            def check(k: Any, turned: Array) -> Array:
                left, before = checkpoints.p[slot - k, ...], checkpoints.momentum_sum[slot - k, ...]
                return turned | self._turned(xp, left, end.p, momentum_sum - before + left)

            turned = target.backend.repeat(trailing, check, ~here)
            diverged = half.growing & ~fine
            if target.constrained:
                diverged = diverged & (new.log_density != -xp.inf) & (energy != xp.inf)
            counts = counts._replace(
                leaves=counts.leaves + xp.astype(half.growing, xp.int32),
                accepted=counts.accepted + xp.where(here, xp.exp(minimum_with_zero(xp, gain)), 0.0),
                diverged=counts.diverged | diverged,
                beyond=counts.beyond | (half.growing & beyond_a_bound(new.log_density, now - kinetic)),
            )
            return _Half(end, momentum_sum, log_weight, draw, uniform, ~turned), counts, checkpoints

        return leaf

    def _kinetic(self, xp: Any, p: Array) -> Array:
        return 0.5 * xp.sum(p * self.matrix("mass").solve(p), axis=-1)

    def _turned(self, xp: Any, left: Array, right: Array, momentum_sum: Array) -> Mask:
        """Return whether an end moves towards the other: p^T M^{-1} rho <= 0, rho the momentum sum, ends halved."""
        towards = self.matrix("mass").solve(momentum_sum - 0.5 * (left + right))
        return (xp.sum(left * towards, axis=-1) <= 0) | (xp.sum(right * towards, axis=-1) <= 0)


def split(xp: Any, uniform: Array, probability: Array) -> tuple[Mask, Array]:
    """Return whether a uniform is below a probability, and an independent uniform made of the same number."""
    below = uniform < probability
    rest = xp.where(below, uniform, uniform - probability) / xp.where(below, probability, 1.0 - probability)
    below_one = 1.0 - 0.5 * float(xp.finfo(uniform.dtype).eps)
    return below, xp.where(rest < below_one, rest, below_one)
