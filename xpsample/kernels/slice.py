"""Slice sampling along random directions, with stepping out and shrinkage (Neal 2003)."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from xpsample.adaptation import DiagonalMetric, StepSize
from xpsample.core.arrays import Array, Mask
from xpsample.core.covariance import matrix
from xpsample.core.fields import parameter
from xpsample.core.hyperparameters import per_coordinate
from xpsample.core.specs import Specs
from xpsample.kernels.kernel import ChainState, Info, MemorylessKernel, normal_like, uniform_per_chain
from xpsample.kernels.shrinking import shrink, tries_per_chain
from xpsample.kernels.traits import ADJUSTED
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability, Point

MOST_STEPS_OUT = 32  # Maximum number of expansions of a bracket, in both directions together


class _End(NamedTuple):
    """An end of the bracket, (*chains): its position, whether it still expands, steps left, positions evaluated."""

    t: Array
    going: Mask
    left: Array
    evaluated: Array


class Slice(MemorylessKernel[Info]):
    """Slice sampling: uniformly from where the density along a random direction is above a random level.

    Parameters
    ----------
    width : float or array, optional
        Width of the first bracket, in units of x; broadcasts against the chain axes. The bracket expands by this width
        each time, and shrinks, so the width need not be accurate. Tuned if unset.
    covariance : float, or array of shape (dim,) or (dim, dim), optional
        A A^T; directions are ``A xi / |xi|``. When not given a diagonal one is tuned, with the width; it is the
        identity where a width is given.

    See Also
    --------
    RWM : One log density a step.
    EllipticalSlice : For a Gaussian prior.

    Notes
    -----
    Figures 3 and 5 of the paper. The bracket steps out at most 32 times, divided at random between both ends. A step
    that finds no position in 64 tries stays. Both are exact.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1))
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.Slice(), x0, 1000, seed=1)
    >>> bool(abs(trace.draws.mean()) < 0.1)
    True
    """

    width: Any = parameter(default=None, gt=0, tune=StepSize(0.6, first=3.0))
    covariance: Array | None = matrix(default=None, tune=DiagonalMetric(scores=False), only_with="width")

    # Asking for ratios, too, refuses targets whose acceptance gives nothing else.
    requires: ClassVar[Capability] = Capability.LOG_DENSITY | Capability.DENSITY_RATIO | Capability.REAL
    traits = ADJUSTED

    def noise(self, x: Array) -> Specs:
        uniform = uniform_per_chain(x)
        own = {"level": uniform, "place": uniform, "division": uniform, "try": uniform}
        return {"direction": normal_like(x), **own, "shrink": tries_per_chain(x)}

    def step(self, target: BoundTarget, state: ChainState, noise: dict[str, Array]) -> tuple[ChainState, Info]:
        xp = target.xp
        current = state.point
        xi = noise["direction"]
        direction = self.matrix("covariance").root(xi / xp.sqrt(xp.sum(xi * xi, axis=-1, keepdims=True)))
        direction = per_coordinate(self.width) * direction  # t is in widths

        def line(t: Array) -> tuple[Point, Array]:
            point = target.evaluate(current.x + t[..., None] * direction)
            return point, point.log_density - current.log_density

        zeros = xp.zeros_like(current.log_density)
        level = zeros + xp.log(noise["level"])
        low, high, evaluated = self._step_out(target, line, level, noise)
        first = low + noise["try"] * (high - low)
        found = shrink(target, current, line, level, (first, low, high), noise["shrink"])

        spent = target.costs.evaluate.times(found.tried + evaluated)
        moved = ~found.searching
        share = xp.where(moved, 1 / xp.astype(found.tried, zeros.dtype), zeros)
        return ChainState(found.point), Info(share, moved, found.diverged, spent)

    def _step_out(
        self, target: BoundTarget, line: Callable[[Array], tuple[Point, Array]], level: Array, noise: dict[str, Array]
    ) -> tuple[Array, Array, Array]:
        """Both ends of the bracket, and the positions that were evaluated: Figure 3 of the paper."""
        xp, zeros = target.xp, target.xp.zeros_like(level)
        none = xp.zeros_like(zeros, dtype=xp.int32)
        leftwards = xp.astype(xp.floor(MOST_STEPS_OUT * noise["division"]), xp.int32)

        def to_the_end(t: Array, left: Array, step: float) -> _End:
            def further(n: Array, end: _End) -> _End:
                _, gain = line(end.t)
                trying = end.going & (end.left > 0)
                on = trying & (gain > level)
                one = xp.astype(trying, xp.int32)
                return _End(xp.where(on, end.t + step, end.t), on, end.left - one, end.evaluated + one)

            start = _End(t, zeros == 0, none + left, none)
            return target.backend.repeat(
                MOST_STEPS_OUT, further, start, until=lambda end: ~xp.any(end.going & (end.left > 0))
            )

        low = to_the_end(zeros - noise["place"], leftwards, -1.0)
        high = to_the_end(zeros - noise["place"] + 1.0, MOST_STEPS_OUT - 1 - leftwards, 1.0)
        return low.t, high.t, low.evaluated + high.evaluated
