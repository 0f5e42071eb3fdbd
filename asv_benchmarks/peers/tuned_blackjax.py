"""BlackJAX as its documentation has it: NUTS after window adaptation of each chain; ChEES, with its diagonal metric."""

import time

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import optax

from asv_benchmarks.peers.tuned_cases import DTYPE, Case, Outcome, Run

SAMPLERS = ("NUTS", "ChEES")
WARM_UP = 1000
LEARNING_RATE, FIRST_STEP = 0.05, 0.1
"""Of ChEES' Adam, and the step size that it starts from."""


def build(case: Case, sampler: str) -> Run:
    return {"NUTS": _nuts, "ChEES": _chees}[sampler](case, case.density)


def _nuts(case: Case, log_density) -> Run:
    adaptation = blackjax.window_adaptation(
        blackjax.nuts, log_density, adaptation_info_fn=lambda state, info, adapted: info.num_integration_steps
    )
    kernel = blackjax.nuts.build_kernel()

    @jax.jit
    def warm_up(keys, start):
        (states, parameters), steps = jax.vmap(lambda key, x: adaptation.run(key, x, WARM_UP))(keys, start)
        own = {name: parameters[name] for name in ("step_size", "inverse_mass_matrix")}
        return states, own, jnp.sum(steps)

    @jax.jit
    def draw(key, states, parameters):
        def body(states, key):
            keys = jax.random.split(key, case.chains)
            states, info = jax.vmap(lambda key, state, own: kernel(key, state, log_density, **own))(
                keys, states, parameters
            )
            return states, (states.position, jnp.sum(info.num_integration_steps))

        return jax.lax.scan(body, states, jax.random.split(key, case.draws))[1]

    def run(seed: int) -> Outcome:
        first, second = jax.random.split(jax.random.key(seed))
        start = jnp.asarray(case.start(seed), DTYPE)
        return _timed(
            lambda: warm_up(jax.random.split(first, case.chains), start), lambda found: draw(second, *found[:2])
        )

    return run


def _chees(case: Case, log_density) -> Run:
    adaptation = blackjax.chees_adaptation(
        log_density,
        case.chains,
        mass_matrix_estimation="diagonal",
        adaptation_info_fn=lambda state, info, adapted: info.num_integration_steps,
    )
    functions = {}  # of the parameters, those that are no arrays

    @jax.jit
    def warm_up(key, start):
        (states, parameters), steps = adaptation.run(
            key, start, FIRST_STEP, optax.adam(LEARNING_RATE), WARM_UP, max_sampling_steps=case.draws
        )
        functions.update({name: value for name, value in parameters.items() if callable(value)})
        arrays = {name: value for name, value in parameters.items() if not callable(value)}
        return states, arrays, jnp.sum(steps._wrapped_info)

    @jax.jit
    def draw(key, states, parameters):
        step = blackjax.dynamic_hmc(log_density, **functions, **parameters).step

        def body(states, key):
            states, info = jax.vmap(step)(jax.random.split(key, case.chains), states)
            return states, (states.position, jnp.sum(info.num_integration_steps))

        return jax.lax.scan(body, states, jax.random.split(key, case.draws))[1]

    def run(seed: int) -> Outcome:
        first, second = jax.random.split(jax.random.key(seed))
        start = jnp.asarray(case.start(seed), DTYPE)
        return _timed(lambda: warm_up(first, start), lambda found: draw(second, *found[:2]))

    return run


def _timed(warm_up, draw) -> Outcome:
    began = time.process_time()
    found = jax.block_until_ready(warm_up())
    middle = time.process_time()
    draws, steps = jax.block_until_ready(draw(found))
    end = time.process_time()
    return Outcome(np.asarray(draws), middle - began, end - middle, float(found[2]), float(jnp.sum(steps)))
