"""NumPyro's HMC with vectorised chains and nothing adapted; MALA is HMC with one leapfrog step of sqrt(2 eta)."""

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer import HMC, MCMC

from asv_benchmarks.peers.density_jax import log_density
from asv_benchmarks.peers.problems import LEAPFROGS, Work

LIBRARY, DTYPE = "jax", "float32"
SCORES = [("analytic", "autodiff"), ("autodiff", "autodiff")]
MOST_CHAINS = 1000


def build(work: Work, score_by: str):
    start, rows = jnp.asarray(work.start, DTYPE), jnp.asarray(work.rows, DTYPE)
    mala = work.kernel == "mala"
    kernel = HMC(
        potential_fn=lambda x: -log_density(x, rows),
        step_size=(2 * work.step_size) ** 0.5 if mala else work.step_size,
        num_steps=1 if mala else LEAPFROGS,
        trajectory_length=None,
        adapt_step_size=False,
        adapt_mass_matrix=False,
    )
    chains = len(start)
    sampler = MCMC(
        kernel,
        num_warmup=0,
        num_samples=work.draws,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )

    @jax.jit  # else every run compiles anew
    def chain(key):
        params = start if chains > 1 else start[0]  # one chain is not a batch of one here
        sampler.run(key, init_params=params, extra_fields=("accept_prob",))
        accepted = sampler.get_extra_fields(group_by_chain=True)["accept_prob"]
        return sampler.get_samples(group_by_chain=True), jnp.mean(accepted, axis=1)

    def run(seed: int):
        draws, acceptance = jax.block_until_ready(chain(jax.random.key(seed)))
        return np.swapaxes(np.asarray(draws), 0, 1), np.asarray(acceptance)

    return run
