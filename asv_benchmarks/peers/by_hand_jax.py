"""MALA and HMC written for JAX by hand: one jit(scan) over batched chains, no vmap.

Noise is drawn ahead of the scan where a step takes few numbers, and by a key for each step where it takes many; each is
the faster one there.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from asv_benchmarks.peers import density_jax
from asv_benchmarks.peers.problems import LEAPFROGS, Work

LIBRARY, DTYPE = "jax", "float32"
SCORES = [("analytic", "analytic"), ("autodiff", "autodiff")]
MOST_CHAINS = 1000
AHEAD = 512
"""Numbers a step up to which noise is drawn ahead."""


def build(work: Work, score_by: str):
    start, rows = jnp.asarray(work.start, DTYPE), jnp.asarray(work.rows, DTYPE)
    both, score = (density_jax.both, density_jax.score) if score_by == "analytic" else (_both, _score)
    both, score = partial(both, rows=rows), partial(score, rows=rows)
    advance = _mala if work.kernel == "mala" else _hmc
    chains = len(start)

    def draw(key):
        key_normal, key_uniform = jax.random.split(key)
        return jax.random.normal(key_normal, start.shape), jax.random.uniform(key_uniform, (chains,))

    ahead = start.size + chains <= AHEAD

    @jax.jit
    def chain(key):
        def body(carry, step):
            x, log_density, gradient, acceptance, moved, diverged = carry
            noise, uniform = step if ahead else draw(step)
            y, y_log_density, y_gradient, log_ratio = advance(
                both, score, x, log_density, gradient, noise, work.step_size
            )
            accept = jnp.log(uniform) < log_ratio
            x = jnp.where(accept[:, None], y, x)
            log_density = jnp.where(accept, y_log_density, log_density)
            gradient = jnp.where(accept[:, None], y_gradient, gradient)
            acceptance = acceptance + jnp.exp(jnp.minimum(log_ratio, 0))
            return (x, log_density, gradient, acceptance, moved + accept, diverged + ~(log_ratio > -1000)), x

        if ahead:
            key_normal, key_uniform = jax.random.split(key)
            steps = (
                jax.random.normal(key_normal, (work.draws, *start.shape)),
                jax.random.uniform(key_uniform, (work.draws, chains)),
            )
        else:
            steps = jax.random.split(key, work.draws)
        none = jnp.zeros(chains)
        (*_, acceptance, moved, diverged), draws = jax.lax.scan(body, (start, *both(start), none, none, none), steps)
        return draws, acceptance / work.draws, moved, diverged

    def run(seed: int):
        draws, acceptance, *_ = jax.block_until_ready(chain(jax.random.key(seed)))
        return draws, np.asarray(acceptance)

    return run


def _both(x, rows):
    value, gradient = jax.value_and_grad(_summed, has_aux=True)(x, rows)
    return value[1], gradient


def _summed(x, rows):
    log_density = density_jax.log_density(x, rows)
    return jnp.sum(log_density), log_density


def _score(x, rows):
    return jax.grad(lambda y: jnp.sum(density_jax.log_density(y, rows)))(x)


def _mala(both, score, x, log_density, gradient, xi, eta):
    half = (0.5 * eta) ** 0.5
    y = x + eta * gradient + (2 * eta) ** 0.5 * xi
    y_log_density, y_gradient = both(y)
    back = xi + half * (gradient + y_gradient)
    log_ratio = y_log_density - log_density + 0.5 * jnp.sum(xi * xi - back * back, axis=-1)
    return y, y_log_density, y_gradient, log_ratio


def _hmc(both, score, x, log_density, gradient, momentum, eta):
    p = momentum + 0.5 * eta * gradient
    y = x + eta * p

    def leap(_, carry):
        y, p = carry
        p = p + eta * score(y)
        return y + eta * p, p

    y, p = jax.lax.fori_loop(0, LEAPFROGS - 1, leap, (y, p))
    y_log_density, y_gradient = both(y)
    p = p + 0.5 * eta * y_gradient
    log_ratio = y_log_density - log_density + 0.5 * jnp.sum(momentum * momentum - p * p, axis=-1)
    return y, y_log_density, y_gradient, log_ratio
