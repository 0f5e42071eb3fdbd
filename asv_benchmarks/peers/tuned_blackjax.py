"""BlackJAX as its documentation has it: NUTS after window adaptation of each chain; ChEES, with its diagonal metric."""

import blackjax
import jax
import jax.numpy as jnp
import optax

from asv_benchmarks.peers.tuned_cases import DTYPE, Case, Halves, Run, in_turn

SAMPLERS = ("NUTS", "ChEES")
WARM_UP = 1000
LEARNING_RATE, FIRST_STEP = 0.05, 0.1
"""Of ChEES' Adam, and the step size that it starts from."""


def build(case: Case, sampler: str) -> Run:
    return in_turn(halves(case, sampler))


def halves(case: Case, sampler: str) -> Halves:
    return {"NUTS": _nuts, "ChEES": _chees}[sampler](case, case.density)


def _nuts(case: Case, log_density) -> Halves:
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

        return jax.lax.scan(body, states, jax.random.split(key, case.draws))

    def first(seed: int):
        start = jnp.asarray(case.start(seed), DTYPE)
        return warm_up(jax.random.split(jax.random.key(seed), case.chains), start)

    return _halves(first, draw)


def _chees(case: Case, log_density) -> Halves:
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

        return jax.lax.scan(body, states, jax.random.split(key, case.draws))

    def first(seed: int):
        return warm_up(jax.random.key(seed), jnp.asarray(case.start(seed), DTYPE))

    return _halves(first, draw)


def _halves(warm_up, draw) -> Halves:
    def begin(seed: int):
        states, parameters, steps = jax.block_until_ready(warm_up(seed))
        return (jax.random.fold_in(jax.random.key(seed), 1), states, parameters), steps

    def go_on(carry):
        key, states, parameters = carry
        key, now = jax.random.split(key)
        states, (draws, steps) = jax.block_until_ready(draw(now, states, parameters))
        return (key, states, parameters), draws, jnp.sum(steps)

    return Halves(begin, go_on)
