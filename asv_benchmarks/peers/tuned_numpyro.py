"""NumPyro's NUTS with its own warm-up, chains vectorised."""

import time

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer import MCMC, NUTS

from asv_benchmarks.peers.tuned_cases import DTYPE, Case, Outcome, Run

SAMPLERS = ("NUTS",)
WARM_UP = 1000


def build(case: Case, sampler: str) -> Run:
    log_density = case.density
    mcmc = MCMC(
        NUTS(potential_fn=lambda x: -log_density(x)),
        num_warmup=WARM_UP,
        num_samples=case.draws,
        num_chains=case.chains,
        chain_method="vectorized",
        progress_bar=False,
    )

    # Jitted, else every run compiles anew.
    @jax.jit
    def warm_up(key, start):
        mcmc.warmup(key, init_params=start, extra_fields=("num_steps",), collect_warmup=True)
        return mcmc.post_warmup_state, jnp.sum(mcmc.get_extra_fields()["num_steps"])

    @jax.jit
    def draw(state):
        mcmc.post_warmup_state = state
        mcmc.run(state.rng_key, extra_fields=("num_steps",))
        return mcmc.get_samples(group_by_chain=True), jnp.sum(mcmc.get_extra_fields()["num_steps"])

    def run(seed: int) -> Outcome:
        start = jnp.asarray(case.start(seed), DTYPE)
        began = time.process_time()
        state, adapting = jax.block_until_ready(warm_up(jax.random.key(seed), start))
        middle = time.process_time()
        draws, steps = jax.block_until_ready(draw(state))
        end = time.process_time()
        draws = np.swapaxes(np.asarray(draws), 0, 1)
        return Outcome(draws, middle - began, end - middle, float(adapting), float(steps))

    return run
