"""BlackJAX's MALA and HMC: one jit(scan) over a step that is mapped over the chains, as its documentation has it."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

from asv_benchmarks.peers.density_jax import log_density
from asv_benchmarks.peers.problems import LEAPFROGS, Work

LIBRARY, DTYPE = "jax", "float32"
SCORES = [("analytic", "autodiff"), ("autodiff", "autodiff")]
MOST_CHAINS = 1000


def build(work: Work, score_by: str):
    start, rows = jnp.asarray(work.start, DTYPE), jnp.asarray(work.rows, DTYPE)
    chains, dim = start.shape

    def density(x):
        return log_density(x, rows)

    if work.kernel == "mala":
        sampler = blackjax.mala(density, work.step_size)
    else:
        sampler = blackjax.hmc(density, work.step_size, jnp.ones(dim), LEAPFROGS)

    @jax.jit
    def chain(key):
        def body(carry, key):
            states, acceptance, moved = carry
            states, info = jax.vmap(sampler.step)(jax.random.split(key, chains), states)
            return (states, acceptance + info.acceptance_rate, moved + info.is_accepted), states.position

        none = jnp.zeros(chains)
        begin = (jax.vmap(sampler.init)(start), none, none)
        (_, acceptance, moved), draws = jax.lax.scan(body, begin, jax.random.split(key, work.draws))
        return draws, acceptance / work.draws, moved

    def run(seed: int):
        draws, acceptance, _ = jax.block_until_ready(chain(jax.random.key(seed)))
        return draws, np.asarray(acceptance)

    return run
