"""NumPyro's NUTS with its own warm-up, chains vectorised."""

import jax
import jax.numpy as jnp
from numpyro.infer import MCMC, NUTS

from asv_benchmarks.peers.tuned_cases import DTYPE, Case, Halves, Run, in_turn

SAMPLERS = ("NUTS",)
WARM_UP = 1000


def build(case: Case, sampler: str) -> Run:
    return in_turn(halves(case, sampler))


def halves(case: Case, sampler: str) -> Halves:
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
        draws = jnp.swapaxes(mcmc.get_samples(group_by_chain=True), 0, 1)
        return mcmc.last_state, draws, jnp.sum(mcmc.get_extra_fields()["num_steps"])

    def begin(seed: int):
        return jax.block_until_ready(warm_up(jax.random.key(seed), jnp.asarray(case.start(seed), DTYPE)))

    return Halves(begin, lambda state: jax.block_until_ready(draw(state)))
