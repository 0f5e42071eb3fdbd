"""Check of the number of moves: how strongly particles at one temperature remember the temperatures before.

Source: the asymptotic variance of sequential Monte Carlo, a sum over its steps (Del Moral, Doucet & Jasra 2006); the
correlation of particles before and after their moves, as in Buchholz, Chopin & Jacob (2021).
"""

from typing import Any, NamedTuple

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.registry import to_host
from xpsample.core.special import logsumexp
from xpsample.diagnostics.findings import Finding
from xpsample.particles.weights import Weights

# Largest relative variance of an estimate of Z: an error of 0.45, and a logarithm that is 0.1 or more too low.
LARGEST_VARIANCE = 0.2

BY_MOVES = 2.0  # Ratio of a variance to the variance with perfect moves above which the moves are to blame

LARGEST_EXPONENT = 40.0  # Largest exponent of a number that is finite in float32


class Remembered(NamedTuple):
    """An inverse temperature that lags behind the particles', as far as their moves forget; (*runs) each.

    ``beta`` and ``log_normalizer`` follow the particles' values: over the moves of a temperature, the particles keep
    the share of the distance that their log density ratios are correlated by. A step weighs the particles as if all
    temperatures since ``beta`` were one step. The chi-squared divergences of these steps, divided by the number of
    particles, sum to ``variance``, a relative variance of the estimate of Z. ``least`` is the variance with moves that
    forget everything.
    """

    beta: Array
    log_normalizer: Array
    variance: Array
    least: Array

    @classmethod
    def nothing(cls, zero: Array) -> "Remembered":
        """Return the record for exact draws at inverse temperature 0, from zeros (*runs)."""
        return cls(zero, zero, zero, zero)

    def weighed(self, xp: Any, before: Weights, after: Weights, by: Array, beta: Array, ratio: Array) -> "Remembered":
        """After a step by `by` to `beta`, (*runs, 1), which weighed particles of log density ratios (*runs, particles).

        The divergence of f_beta from f_b is the divergence of ``E_beta[(f_1 / f_0)^(beta - b)] Z_b / Z_beta`` from 1.
        """
        since, gained = beta[..., 0] - self.beta, after.log_normalizer - self.log_normalizer
        variance = self.variance + _divergence(xp, after, ratio, since, gained, by[..., 0])
        gained = after.log_normalizer - before.log_normalizer
        least = self.least + _divergence(xp, after, ratio, by[..., 0], gained, by[..., 0])
        return self._replace(variance=variance, least=least)

    def moved(self, xp: Any, weights: Weights, by: Array, beta: Array, before: Array, after: Array) -> "Remembered":
        """After the moves at `beta`, which took the particles from log density ratios to others, (*runs, particles)."""
        moving = (by[..., 0] > 0.0) & xp.isfinite(weights.log_normalizer)
        kept = xp.where(moving, _kept(xp, weights.logs, before, after), 1.0)
        now = xp.where(moving, weights.log_normalizer, self.log_normalizer)
        return self._replace(
            beta=kept * self.beta + (1.0 - kept) * beta[..., 0],
            log_normalizer=kept * self.log_normalizer + (1.0 - kept) * now,
        )


def _divergence(xp: Any, weights: Weights, ratio: Array, since: Array, gained: Array, by: Array) -> Array:
    """The chi-squared divergence over the number of particles, (*runs); 0 where the temperature stays as it is."""
    some = (weights.logs > -np.inf) & xp.isfinite(ratio)
    logs = xp.where(some, weights.logs + since[..., None] * xp.where(some, ratio, 0.0), -np.inf)
    log = logsumexp(logs) - gained
    log = xp.where(xp.isfinite(log) & (by > 0.0), log, 0.0)
    log = xp.where(log < LARGEST_EXPONENT, log, LARGEST_EXPONENT)
    return xp.expm1(xp.where(log > 0.0, log, 0.0)) / weights.logs.shape[-1]


def _kept(xp: Any, logs: Array, before: Array, after: Array) -> Array:
    """The correlation of weighted particles before and after their moves, in [0, 1], (*runs).

    Correlates their log density ratios, or the exponentials of these in their standard deviations, if that is larger:
    moves may leave the particles that will have the weight unchanged.
    """
    some = (logs > -np.inf) & xp.isfinite(before) & xp.isfinite(after)
    shares = xp.where(some, xp.exp(logs), 0.0)
    before, after = xp.where(some, before, 0.0), xp.where(some, after, 0.0)
    mean = xp.sum(shares * before, axis=-1, keepdims=True) / xp.sum(shares, axis=-1, keepdims=True)
    before, after = before - mean, after - mean
    sd = xp.sqrt(xp.sum(shares * before * before, axis=-1, keepdims=True))
    sd = xp.where(sd > 0.0, sd, xp.ones_like(sd))
    plain = _correlation(xp, shares, before, after)
    tilted = _correlation(xp, shares, _exp(xp, before / sd), _exp(xp, after / sd))
    largest = xp.where(plain > tilted, plain, tilted)
    return xp.where(largest > 0.0, xp.where(largest < 1.0, largest, 1.0), 0.0)


def _exp(xp: Any, a: Array) -> Array:
    return xp.exp(xp.where(a < 0.5 * LARGEST_EXPONENT, a, 0.5 * LARGEST_EXPONENT))


def _correlation(xp: Any, shares: Array, a: Array, b: Array) -> Array:
    """Weighted correlation of values (*runs, particles), (*runs); 1 if one of them does not vary."""
    total = xp.sum(shares, axis=-1, keepdims=True)
    a, b = (c - xp.sum(shares * c, axis=-1, keepdims=True) / total for c in (a, b))
    scale = xp.sqrt(xp.sum(shares * a * a, axis=-1)) * xp.sqrt(xp.sum(shares * b * b, axis=-1))
    some = scale > 0.0
    return xp.where(some, xp.sum(shares * a * b, axis=-1) / xp.where(some, scale, 1.0), 1.0)


def judge_moves(remembered: Remembered) -> list[Finding]:
    """Check if the particles at the target made enough moves for their estimate of Z, in the worst run."""
    variance, least = (to_host(a).astype(np.float64).reshape(-1) for a in (remembered.variance, remembered.least))
    bad = (variance > LARGEST_VARIANCE) & (variance > BY_MOVES * least)
    if not np.any(bad):
        return []
    worst = int(np.argmax(np.where(bad, variance, 0.0)))
    error, best = np.sqrt(variance[worst]), np.sqrt(least[worst])
    where = "" if len(bad) == 1 else f" in {np.sum(bad)} of {len(bad)} runs"
    size = f"{error:.2g}" if error < 10 else "10 or more"
    what = (
        f"too few moves at each temperature{where}: particles stay near where they were, so log Z has an error of "
        f"{size} ({best:.2g} with ideal moves), and may be too low, alike in all runs"
    )
    advice = "double moves= until log Z stops rising, or use longer steps or more particles"
    return [Finding("moves", what, float(error), advice)]
