"""Iterations of SOSMC-ULA with 10,000 particles, by backend, and beside the same algorithm written for JAX by hand."""

import statistics
import time
from typing import Any

import numpy as np

import xpsample as xps
from xpsample.core.registry import backend_of
from xpsample.experiments.sosmc.problems import FLOOR, PROBLEMS, family, start_positions
from xpsample.optimize.optimizers import Adam
from xpsample.sosmc import Adaptation, LangevinMove, RewardForwardKL, SOSMCHistory

from .common import PLACES, place_or_skip

PARTICLES, ITERATIONS, ROUNDS = 10_000, 200, 7
PROBLEM = PROBLEMS[0]
KERNEL = xps.SOSMC(
    RewardForwardKL(PROBLEM.reward), LangevinMove(0.1), Adam(0.1), 0.9, adapt_move=Adaptation(0.95, 1.01, 0.001, 0.99)
)
RECORDERS = (SOSMCHistory({"reward": PROBLEM.reward}),)


def particles(name: str) -> Any:
    """Draws of the start, (1, PARTICLES, 2), in float32."""
    backend, device = place_or_skip(name)
    return backend.xp.asarray(start_positions(PROBLEM, 1, PARTICLES, 0).astype("float32"), device=device)


class Iterations:
    """Seconds for `ITERATIONS` outer iterations with their history, compilation left out."""

    params = (PLACES,)
    param_names = ("backend",)
    warmup_time = 0
    timeout = 300

    def setup(self, backend: str) -> None:
        self.x0, self.target = particles(backend), family(PROBLEM, FLOOR, 1)
        self.time_iterations(backend)

    def time_iterations(self, backend: str) -> None:
        trace = xps.sample(self.target, KERNEL, self.x0, ITERATIONS, seed=1, recorders=RECORDERS, progress=False)
        backend_of(self.x0).synchronize(trace.state.point.x)


def by_hand() -> Any:
    """``run(key, x, theta)`` of the same algorithm: jit(scan), a score by formula, resampling under a cond."""
    import jax
    import jax.numpy as jnp

    means, variance, n = jnp.asarray(PROBLEM.means, jnp.float32), PROBLEM.variance, PARTICLES

    def log_density(x, theta):
        share = jax.nn.log_softmax(theta)
        terms = [
            share[i] - 0.5 / variance * ((x[:, 0] - m[0]) ** 2 + (x[:, 1] - m[1]) ** 2) for i, m in enumerate(means)
        ]
        terms.append(jnp.full(n, np.log(FLOOR), jnp.float32))
        top = terms[0]
        for term in terms[1:]:
            top = jnp.maximum(top, term)
        return terms, top + jnp.log(sum(jnp.exp(t - top) for t in terms))

    def both(x, theta):
        terms, total = log_density(x, theta)
        shares = [jnp.exp(t - total) for t in terms[:-1]]
        pull = [sum(s * (m[k] - x[:, k]) for s, m in zip(shares, means, strict=True)) for k in (0, 1)]
        return total, jnp.stack(pull, axis=-1) / variance

    def potential(theta, x, coefficients):
        return -jnp.sum(coefficients * log_density(x, theta)[1])

    def iterate(carry, key):
        x, density, score, logs, ess, theta, m1, m2, t, gamma = carry
        key_move, key_pick = jax.random.split(key)
        weights = jnp.exp(logs)
        reward = PROBLEM.reward(x)
        gradient = jax.grad(potential)(theta, x, weights * (reward - jnp.sum(weights * reward)))
        t = t + 1
        m1, m2 = 0.9 * m1 + 0.1 * gradient, 0.999 * m2 + 0.001 * gradient**2
        theta = theta - 0.1 * (m1 / (1 - 0.9**t)) / (jnp.sqrt(m2 / (1 - 0.999**t)) + 1e-8)

        def resample():
            ends = jnp.cumsum(weights)
            index = jnp.searchsorted(ends / ends[-1], jax.random.uniform(key_pick, (n,)), side="right")
            return x[index], density[index], score[index], jnp.full(n, -np.log(n), jnp.float32)

        x, density, score, logs = jax.lax.cond(ess <= 0.9 * n, resample, lambda: (x, density, score, logs))
        xi = jax.random.normal(key_move, x.shape)
        y = x + gamma * score + jnp.sqrt(2 * gamma) * xi
        new_density, new_score = both(y, theta)
        back = xi + jnp.sqrt(0.5 * gamma) * (score + new_score)
        logs = logs + new_density - density + 0.5 * jnp.sum(xi**2 - back**2, axis=-1)
        logs = logs - jax.nn.logsumexp(logs)
        weights = jnp.exp(logs)
        ess = 1 / jnp.sum(weights**2)
        gamma = jnp.clip(jnp.where(ess < 0.95 * n, gamma / 1.01, gamma * 1.01), 0.001, 0.99)
        row = (jnp.sum(weights * PROBLEM.reward(y)), -jnp.sum(weights * new_density), ess, gamma, theta)
        return (y, new_density, new_score, logs, ess, theta, m1, m2, t, gamma), row

    @jax.jit
    def run(key, x, theta):
        zero = jnp.zeros_like(theta)
        logs = jnp.full(n, -np.log(n), jnp.float32)
        carry = (x, *both(x, theta), logs, jnp.float32(n), theta, zero, zero, jnp.float32(0), jnp.float32(0.1))
        return jax.lax.scan(iterate, carry, jax.random.split(key, ITERATIONS))

    return run


class ByHand:
    """Our seconds over those of the loop by hand: medians of `ROUNDS` interleaved runs, compilation left out."""

    timeout = 600

    def track_ratio(self) -> float:
        ours, theirs = self.medians()
        return ours / theirs

    track_ratio.unit = "seconds over seconds by hand"  # type: ignore[attr-defined]

    def medians(self) -> tuple[float, float]:
        """Seconds of `ITERATIONS` iterations, ours and by hand."""
        import jax

        x0, target, run = particles("jax"), family(PROBLEM, FLOOR, 1), by_hand()
        theta = jax.numpy.zeros(2)

        def ours() -> None:
            xps.sample(target, KERNEL, x0, ITERATIONS, seed=1, recorders=RECORDERS, progress=False)

        def theirs() -> None:
            jax.block_until_ready(run(jax.random.key(1), x0[0, ...], theta))

        seconds: dict[Any, list[float]] = {ours: [], theirs: []}
        for _ in range(ROUNDS + 1):
            for one in seconds:
                began = time.perf_counter()
                one()
                seconds[one].append(time.perf_counter() - began)
        return tuple(statistics.median(found[1:]) for found in seconds.values())  # type: ignore[return-value]
