"""A repellence strength alpha that grows during a warm-up and is then held (App. D.1.4)."""

from abc import abstractmethod
from typing import Any, NamedTuple

from array_api_compat import device as device_of

from xpsample.core.arrays import Array, Mask
from xpsample.core.checks import check_count
from xpsample.core.fields import FrozenDataclass, count, number, parameter
from xpsample.core.tree import Tree
from xpsample.kernels.strength import Strength


class Growing(Strength):
    """A repellence strength that changes along a chain, passed as `SRMC`'s ``alpha``."""

    def now(self, alpha: Array) -> Array:
        return alpha

    @abstractmethod
    def update(self, xp: Any, n: Array, alpha: Array, score: Array, theta: Array, memory: Tree) -> tuple[Array, Tree]:
        """(alpha_n, memory) after step n = 1, 2, ... (0-d integer), from s(X_n) and theta_n, (*chains, dim)."""


class Guard(NamedTuple):
    """For each chain: which of the last steps were above the threshold, (*chains, window); whether too many of them
    were at the step before, alpha when they last were not, and whether alpha is frozen, each (*chains)."""

    above: Array
    strong: Array
    safe: Array
    frozen: Mask


class Adaptive(Growing, FrozenDataclass):
    """alpha_k = k / (C + k / reference) up to k = warmup, where it is ``fraction * reference``; then frozen.

    While alpha grows, a guardrail watches ``alpha_k |s(X_k) . theta_k|`` over a rolling window of
    max(10, floor(warmup / 20)) steps. If its 95 % quantile exceeds `threshold` at two steps in a row, alpha goes back
    to its value before them and stays there. Every chain has its own alpha, so chains stay independent.

    Parameters
    ----------
    reference : float or array
        alpha_ref, at least 0; broadcasts against the chain axes.
    warmup : int
        K_w, the steps during which alpha grows; `warmup_steps` gives the paper's number.
    fraction : float
        Share of the reference that alpha reaches, in (0, 1).
    threshold : float
        tau; ``math.inf`` for no guardrail.

    Notes
    -----
    The quantile is the smallest value that at least 95 % of the window's values do not exceed. It is above the
    threshold exactly if more than 5 % of the values are, so they are counted and not sorted. A window is judged when it
    is full: if the first one is too strong already, alpha stays near a sixth of the reference.
    """

    reference: float | Array = parameter(ge=0)
    warmup: int = count()
    fraction: float = number(default=0.8, gt=0, lt=1)
    threshold: float = number(default=1.0, gt=0, infinite=True)

    @property
    def window(self) -> int:
        """Steps over which the quantile is taken."""
        return max(10, self.warmup // 20)

    def init(self, xp: Any, zeros: Array) -> tuple[Array, Guard]:
        no = zeros != 0
        above = xp.stack([no] * self.window, axis=-1)
        return zeros + 0.0, Guard(above, no, zeros + 0.0, no | no)

    def update(self, xp: Any, n: Array, alpha: Array, score: Array, theta: Array, memory: Guard) -> tuple[Array, Guard]:
        warming = n <= self.warmup
        k = xp.astype(n, alpha.dtype)
        # alpha at `warmup` is fraction * reference, so C = warmup (1 / fraction - 1) / reference.
        grown = self.reference * (k / (self.warmup * (1 / self.fraction - 1) + k))
        alpha = xp.where(warming & ~memory.frozen, grown, alpha)

        scale = alpha * xp.abs(xp.sum(score * theta, axis=-1))
        slot = xp.arange(self.window, device=device_of(alpha)) == n % self.window
        above = xp.where(slot, ~(scale <= self.threshold)[..., None], memory.above)  # nan is above, too
        strong = (n >= self.window) & (20 * xp.count_nonzero(above, axis=-1) > self.window)
        stop = warming & strong & memory.strong & ~memory.frozen
        safe = xp.where(strong | memory.frozen, memory.safe, alpha)
        return xp.where(stop, safe, alpha), Guard(above, strong, safe, memory.frozen | stop)


def warmup_steps(budget: int, leapfrog_steps: int = 1) -> int:
    """The paper's warm-up: floor(min(3000, 0.1 budget) / leapfrog_steps), at least 1.

    Parameters
    ----------
    budget : int
        N, the cost of the run: for HMC its steps times L.
    leapfrog_steps : int
        L for HMC, 1 for other kernels.
    """
    budget, leapfrog_steps = check_count("budget", budget), check_count("leapfrog_steps", leapfrog_steps)
    return max(1, min(3000, budget // 10) // leapfrog_steps)
