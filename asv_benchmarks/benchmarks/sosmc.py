"""Iterations of SOSMC-ULA with 10,000 particles, by library, and beside the same algorithm written for JAX by hand."""

from typing import Any

import numpy as np
from array_api_compat import array_namespace

import xpsample as xps
from xpsample.core.registry import backend_of
from xpsample.optimize.optimizers import Adam
from xpsample.sosmc import Adaptation, LangevinMove, RewardForwardKL, SOSMCHistory

from .common import DEVICES, device_or_skip, in_turns, put, ratio

PARTICLES, ITERATIONS = 10_000, 200
MEANS, VARIANCE, FLOOR = np.array([[3.0, 0.0], [-3.0, 0.0]]), 0.5, 1e-9


def reward(x: Any) -> Any:
    """A smooth reward of positions, (..., 2) to (...)."""
    xp = array_namespace(x)
    first, second = x[..., 0], x[..., 1]
    squared = (first - 4.0) ** 2 + (second - 3.8) ** 2
    return xp.exp(-squared / 20.0) / (0.7 * (1.0 + xp.exp(-2.0 * first)))


def family() -> xps.Parametric:
    """``log(sum_i softmax(theta)_i exp(-|x - mu_i|^2 / (2 variance)) + floor)``, its terms one by one."""

    def terms(x: Any, theta: Any) -> tuple[list[Any], Any]:
        xp = array_namespace(x)
        share = theta - xp.max(theta, axis=-1, keepdims=True)
        share = share - xp.log(xp.sum(xp.exp(share), axis=-1, keepdims=True))
        first, second = x[..., 0], x[..., 1]
        logs = [
            share[..., i] - 0.5 / VARIANCE * ((first - a) ** 2 + (second - b) ** 2)
            for i, (a, b) in enumerate(MEANS.tolist())
        ]
        floor = xp.full_like(first, np.log(FLOOR))
        top = xp.maximum(xp.maximum(*logs), floor)
        return logs, top + xp.log(sum(xp.exp(term - top) for term in (*logs, floor)))

    def score(x: Any, theta: Any) -> Any:
        logs, total = terms(x, theta)
        xp = array_namespace(x)
        shares = [xp.exp(term - total) for term in logs]
        pulls = [sum(s * (m[k] - x[..., k]) for s, m in zip(shares, MEANS.tolist(), strict=True)) for k in (0, 1)]
        return xp.stack(pulls, axis=-1) / VARIANCE

    return xps.Parametric(lambda x, theta: terms(x, theta)[1], np.zeros((1, 1, 2)), score=score)


KERNEL = xps.SOSMC(
    RewardForwardKL(reward), LangevinMove(0.1), Adam(0.1), 0.9, adapt_move=Adaptation(0.95, 1.01, 0.001, 0.99)
)
RECORDERS = (SOSMCHistory({"reward": reward}),)


def particles(name: str) -> Any:
    """Draws of the start, (1, PARTICLES, 2), in float32."""
    generator = np.random.default_rng(0)
    means = MEANS[generator.integers(2, size=(1, PARTICLES))]
    return put(name, means + VARIANCE**0.5 * generator.standard_normal((1, PARTICLES, 2)))


class Iterations:
    """Seconds for `ITERATIONS` outer iterations with their history, compilation left out."""

    params = (DEVICES,)
    param_names = ("device",)
    warmup_time = 0
    timeout = 300

    def setup(self, device: str) -> None:
        self.x0, self.target = particles(device), family()
        self.time_iterations(device)

    def time_iterations(self, device: str) -> None:
        trace = xps.sample(self.target, KERNEL, self.x0, ITERATIONS, seed=1, recorders=RECORDERS, progress=False)
        backend_of(self.x0).synchronize(trace.state.point.x)


def by_hand() -> Any:
    """``run(key, x, theta)`` of the same algorithm: jit(scan), a score by formula, resampling under a cond."""
    import jax
    import jax.numpy as jnp

    means, variance, n = jnp.asarray(MEANS, jnp.float32), VARIANCE, PARTICLES

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
        rewards = reward(x)
        gradient = jax.grad(potential)(theta, x, weights * (rewards - jnp.sum(weights * rewards)))
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
        row = (jnp.sum(weights * reward(y)), -jnp.sum(weights * new_density), ess, gamma, theta)
        return (y, new_density, new_score, logs, ess, theta, m1, m2, t, gamma), row

    @jax.jit
    def run(key, x, theta):
        zero = jnp.zeros_like(theta)
        logs = jnp.full(n, -np.log(n), jnp.float32)
        carry = (x, *both(x, theta), logs, jnp.float32(n), theta, zero, zero, jnp.float32(0), jnp.float32(0.1))
        return jax.lax.scan(iterate, carry, jax.random.split(key, ITERATIONS))

    return run


class ByHand:
    """Our CPU time over that of the loop by hand, in turns, compilation left out."""

    unit = "times by hand"
    timeout = 600

    def setup(self) -> None:
        device_or_skip("jax")

    def track_ratio(self) -> float:
        ours, theirs = spent()
        return ratio(ours, theirs)


def spent(rounds: int = 7) -> np.ndarray:
    """CPU seconds of `ITERATIONS` iterations on JAX, ours and by hand, in turns, shape (2, rounds)."""
    import jax

    x0, target, run = particles("jax"), family(), by_hand()
    theta = jax.numpy.zeros(2)

    def ours() -> None:
        xps.sample(target, KERNEL, x0, ITERATIONS, seed=1, recorders=RECORDERS, progress=False)

    def theirs() -> None:
        jax.block_until_ready(run(jax.random.key(1), x0[0, ...], theta))

    return in_turns([ours, theirs], rounds)
