"""Independent proposals estimated from the chains: their mean, and a covariance wider than the target's."""

import math
from typing import Any, ClassVar

from xpsample.adaptation.metric import DenseMetric, DiagonalMetric, Windows
from xpsample.adaptation.rule import METRIC_BITS, FollowingRule, StepRecord, rounded
from xpsample.core.arrays import Array
from xpsample.core.covariance import DenseCovariance, DiagonalCovariance, dense_covariance
from xpsample.core.fields import flag

PATIENCE = 4.0  # Factor on the warm-up, as for other rules without scores


class ProposalMean(FollowingRule, eq=True):
    """Mean of the positions, in the same windows as metrics, rounded to shares of the standard deviations."""

    rank = 0
    patience: ClassVar[float] = PATIENCE

    def init(self, xp: Any, point: Any, pooled: bool) -> Windows:
        return _VARIANCE.init(xp, point, pooled)

    def follow(self, xp: Any, memory: Windows, point: Any, pooled: bool) -> Windows:
        return self.init(xp, point, pooled)

    def value(self, xp: Any, memory: Windows, kernel: Any) -> Array:
        unit = xp.exp(xp.round(memory.estimate)) / METRIC_BITS
        return xp.round(memory.front.mean / unit) * unit

    def update(self, memory: Windows, seen: StepRecord) -> tuple[Windows, StepRecord]:
        return _VARIANCE.update(memory, seen)

    def final(self, xp: Any, memory: Windows) -> Array:
        return self.value(xp, memory, None)

    def path(self, xp: Any, memory: Windows) -> Array:
        return self.value(xp, memory, None)


_VARIANCE = DiagonalMetric(scores=False)


class ProposalCovariance(FollowingRule, eq=True):
    """The covariance of the positions, times 1 + 1 / sqrt(dim).

    If the proposal's tails are thinner than the target's, chains get stuck in the target's tails, so the proposal is
    wider. On a Gaussian of any dimension this factor makes the variance of the log ratio 1 / 2.

    Parameters
    ----------
    dense : bool
        Whether correlations count; that takes a few times as many draws as there are coordinates.

    See Also
    --------
    RWM : The kernel that takes it.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.RWM(covariance=xps.ProposalCovariance(dense=True)), x0, 4000, seed=1)
    >>> trace.kernel.covariance.shape
    (2, 2)
    """

    dense: bool = flag(default=False)

    rank = 0
    patience: ClassVar[float] = PATIENCE

    @property
    def _metric(self) -> DiagonalMetric | DenseMetric:
        return DenseMetric(scores=False) if self.dense else _VARIANCE

    def init(self, xp: Any, point: Any, pooled: bool) -> Windows:
        return self._metric.init(xp, point, pooled)

    def follow(self, xp: Any, memory: Windows, point: Any, pooled: bool) -> Windows:
        return self.init(xp, point, pooled)

    def value(self, xp: Any, memory: Windows, kernel: Any) -> DiagonalCovariance | DenseCovariance:
        wider = math.sqrt(1 + 1 / math.sqrt(memory.front.mean.shape[-1]))
        if self.dense:
            return dense_covariance(wider * memory.estimate)
        sd = rounded(xp, memory.estimate + math.log(wider), METRIC_BITS)
        return DiagonalCovariance(sd * sd, sd)

    def update(self, memory: Windows, seen: StepRecord) -> tuple[Windows, StepRecord]:
        return self._metric.update(memory, seen)

    def final(self, xp: Any, memory: Windows) -> Array:
        value = self.value(xp, memory, None)
        return value.matrix if isinstance(value, DenseCovariance) else value.variance

    def path(self, xp: Any, memory: Windows) -> Array:
        return self.final(xp, memory)
