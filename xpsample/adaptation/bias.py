"""Step sizes of kernels that accept every move, by the bias that they have on a Gaussian."""

import math
from typing import Any, ClassVar, NamedTuple

from xpsample.adaptation.rule import STEP_BITS, Rule, StepRecord, per_group, rounded, vector_per_group
from xpsample.core.arrays import Array
from xpsample.core.fields import flag, number, text

FIRST_ETA = 1e-8  # eta of the first step, which shows how the score changes

BEGINNING = 20  # Steps after which the power iteration is believed

# Factor on the warm-up. In the transient phase moves are longest where curvature is least, which biases it low.
PATIENCE = 2.0

MEMORY = 20.0  # Steps that averages are taken over, about


class MeasuredCurvature(NamedTuple):
    """Running estimate of H, minus the Hessian of the log density in units of the metric.

    ``product`` (*groups, 1, dim) is the running sum of q H w, with q the mean square of a move and w the previous
    product, normalized; ``square`` (*groups, 1) is the running sum of q times the sum of the squares of all entries of
    H; ``weight`` is the running sum of q. Long moves therefore count more: random scores hide what short moves show.
    ``seen`` (0-d) is the number of steps.
    """

    product: Array
    square: Array
    weight: Array
    seen: Array


def no_curvature(xp: Any, x: Array, pooled: bool) -> MeasuredCurvature:
    """The memory before the first step."""
    zero = per_group(xp, x, pooled)
    return MeasuredCurvature(vector_per_group(xp, x, pooled), zero, zero, xp.sum(zero))


def with_step(memory: MeasuredCurvature, seen: StepRecord, metric: str | None) -> MeasuredCurvature:
    """The memory after one more step of each chain.

    A move v, in units of the metric, has nearly the covariance q I, and changes the score by -u = -H v: so q H w is the
    mean of u (v . w), wherever the chains are.

    Parameters
    ----------
    metric : str, optional
        The kernel's field with a preconditioner, or with a mass.
    """
    xp = seen.xp
    v, u = seen.after.x - seen.before.x, seen.before.score - seen.after.score
    if metric == "mass":
        mass = seen.kernel.matrix(metric)
        v, u = mass.root_transpose(v), mass.whiten(u)
    elif metric is not None:
        covariance = seen.kernel.matrix(metric)
        v, u = covariance.whiten(v), covariance.root_transpose(u)
    finite = xp.all(xp.isfinite(u) & xp.isfinite(v), axis=-1)[..., None]
    v, u = xp.where(finite, v, 0.0), xp.where(finite, u, 0.0)

    size = xp.sqrt(xp.sum(memory.product**2, axis=-1, keepdims=True))
    w = xp.where(size > 0, memory.product / xp.where(size > 0, size, 1.0), 1 / math.sqrt(v.shape[-1]))
    keep = 1 - xp.clip(2 / (memory.seen + 2), min=1 / MEMORY)
    return MeasuredCurvature(
        keep * memory.product + seen.mean_vector(u * xp.sum(v * w, axis=-1, keepdims=True)),
        keep * memory.square + seen.mean(xp.sum(u * u, axis=-1)),
        keep * memory.weight + seen.mean(xp.mean(v * v, axis=-1)),
        memory.seen + 1,
    )


def largest(xp: Any, memory: MeasuredCurvature) -> Array:
    """The largest curvature, (*groups, 1): first a bound, the root of the sum of all squares; 0 where none is known."""
    known = memory.weight > 0
    weight = xp.where(known, memory.weight, 1.0)
    bound, size = xp.sqrt(memory.square / weight), xp.sqrt(xp.sum(memory.product**2, axis=-1)) / weight
    return xp.where(known, xp.where(memory.seen < BEGINNING, bound, size), 0.0)


class BoundedBias(Rule, eq=True):
    """The largest step size that keeps every variance of a Gaussian target within about a share b of the truth.

    With lambda the largest eigenvalue of the precision, in units of the preconditioner, *langevin* steps have the
    variance v / (1 - eta / (2 v)) in place of v >= 1 / lambda, so ``eta = 2 b / ((1 + b) lambda)`` keeps its relative
    error at b, and at less than b in all other directions. BAOAB steps (*underdamped*) have the exact variance of x,
    and (1 - h^2 / (4 v)) times the exact variance of p: ``h = 2 sqrt(b / lambda)``. For other targets the bias differs;
    the bias of averages goes to 0 with b.

    lambda is the largest eigenvalue of the average curvature along the chains, from a running power iteration on the
    change of the score from step to step, pooled over the chains. Its errors make it larger, and steps smaller, for few
    chains in high dimension. Half of the variance of random scores, of a `Minibatch`, is counted in: with *langevin*
    steps the bias with them is below 2 b.

    Parameters
    ----------
    bias : float
        b, in (0, 1).
    metric : str, optional
        The kernel's field that has its preconditioner, or its mass.
    underdamped : bool, optional
        Whether the kernel makes BAOAB steps.
    smoothing : str, optional
        The kernel's field with the smoothing of a Moreau envelope, which adds a curvature of 1 over it.

    See Also
    --------
    StepSize : For kernels that accept or reject.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.ULA(xps.BoundedBias(0.1)), x0, 5000, seed=1)
    >>> bool(trace.kernel.step_size > 0)
    True
    """

    bias: float = number(default=0.05, gt=0, lt=1)
    metric: str | None = text(default=None)
    underdamped: bool | None = flag(default=None)
    smoothing: str | None = text(default=None)

    rank = 1
    patience: ClassVar[float] = PATIENCE

    def init(self, xp: Any, point: Any, pooled: bool) -> "BiasMemory":
        first = math.sqrt(FIRST_ETA) if self.underdamped else FIRST_ETA
        return BiasMemory(no_curvature(xp, point.x, pooled), per_group(xp, point.x, pooled) + math.log(first))

    def value(self, xp: Any, memory: "BiasMemory", kernel: Any) -> Array:
        return rounded(xp, memory.log_step, STEP_BITS)

    def update(self, memory: "BiasMemory", seen: StepRecord) -> tuple["BiasMemory", StepRecord]:
        xp = seen.xp
        curvature = with_step(memory.curvature, seen, self.metric)
        most = largest(xp, curvature)
        if self.smoothing is not None:
            most = most + 1 / getattr(seen.kernel, self.smoothing)
        log_most = xp.log(xp.where(most > 0, most, 1.0))
        if self.underdamped:
            log_step = math.log(2) + 0.5 * (math.log(self.bias) - log_most)
        else:
            log_step = math.log(2 * self.bias / (1 + self.bias)) - log_most
        return BiasMemory(curvature, xp.where(most > 0, log_step, memory.log_step)), seen

    def final(self, xp: Any, memory: "BiasMemory") -> Array:
        return rounded(xp, memory.log_step, STEP_BITS)

    def path(self, xp: Any, memory: "BiasMemory") -> Array:
        return xp.exp(memory.log_step)


class BiasMemory(NamedTuple):
    """The memory of `BoundedBias`: what is known of the curvature, and the logarithm of the step size (*groups, 1)."""

    curvature: MeasuredCurvature
    log_step: Array


class MoreauSmoothing(Rule, eq=True):
    """The smoothing of a Moreau envelope: 1 / lambda, with lambda the largest curvature of the smooth part.

    That is what Durmus, Moulines & Pereyra (2018) take: a smaller one would halve the step size before it takes half of
    the smoothing's bias away.
    """

    rank = 0
    patience: ClassVar[float] = 1.0

    def init(self, xp: Any, point: Any, pooled: bool) -> MeasuredCurvature:
        return no_curvature(xp, point.x, pooled)

    def value(self, xp: Any, memory: MeasuredCurvature, kernel: Any) -> Array:
        most = largest(xp, memory)
        return rounded(xp, -xp.log(xp.where(most > 0, most, 1.0)), STEP_BITS)

    def update(self, memory: MeasuredCurvature, seen: StepRecord) -> tuple[MeasuredCurvature, StepRecord]:
        return with_step(memory, seen, None), seen

    def final(self, xp: Any, memory: MeasuredCurvature) -> Array:
        return self.value(xp, memory, None)

    def path(self, xp: Any, memory: MeasuredCurvature) -> Array:
        return self.value(xp, memory, None)
