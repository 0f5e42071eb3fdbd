"""Many fits of one model on JAX: CPU seconds of each way to make them, in turns in one process.

    python -m asv_benchmarks.peers.refits [--fits 200]

Each fit is a logistic regression with 100 rows and 5 coefficients, 4 chains and 500 draws, on a data set of its own.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

import xpsample as xps
from xpsample.kernels.kernel import Kernel

ROWS, DIM, CHAINS, DRAWS, WARM_UP = 100, 5, 4, 500, 500


def log_density(x, data):
    z = x @ data["X"].T
    return jnp.sum(data["y"] * z - jnp.logaddexp(0.0, z), -1) - 0.5 * jnp.sum(x**2, -1)


def data_set(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(ROWS, DIM)).astype(np.float32)
    probability = 1 / (1 + np.exp(-rows @ rng.normal(size=DIM)))
    return {"X": rows, "y": (rng.uniform(size=ROWS) < probability).astype(np.float32)}


def by_sampler(kernel: Kernel) -> Callable[[int], jax.Array]:
    target = xps.Target(log_density, data=data_set(0))
    sampler = xps.Sampler(target, kernel, jnp.zeros((CHAINS, DIM)), DRAWS, progress=False)
    return lambda seed: sampler(seed, data=data_set(seed)).draws


def by_sample(kernel: Kernel) -> Callable[[int], jax.Array]:
    def fit(seed: int) -> jax.Array:
        target = xps.Target(log_density, data=data_set(seed))
        return xps.sample(target, kernel, jnp.zeros((CHAINS, DIM)), DRAWS, seed=seed, progress=False).draws

    return fit


def by_blackjax(algorithm, settings) -> Callable[[int], jax.Array]:
    """Window adaptation of each chain, then draws, in one `jax.jit` of key and data."""
    kernel = algorithm.build_kernel()

    @jax.jit
    def fit(key, data):
        def density(x):
            return log_density(x, data)

        adaptation = blackjax.window_adaptation(algorithm, density, **settings)
        tuning, drawing = jax.random.split(key)
        start = jnp.zeros((CHAINS, DIM))
        (states, tuned), _ = jax.vmap(lambda key, x: adaptation.run(key, x, WARM_UP))(
            jax.random.split(tuning, CHAINS), start
        )
        tuned = {name: value for name, value in tuned.items() if name not in settings}

        def body(states, key):
            step = jax.vmap(lambda key, state, own: kernel(key, state, density, **own, **settings))
            states, _ = step(jax.random.split(key, CHAINS), states, tuned)
            return states, states.position

        return jax.lax.scan(body, states, jax.random.split(drawing, DRAWS))[1]

    return lambda seed: fit(jax.random.key(seed), data_set(seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=200)
    fits = parser.parse_args().fits
    warnings.simplefilter("ignore")
    ways = {
        "Sampler, HMC()": by_sampler(xps.HMC()),
        "Sampler, NUTS()": by_sampler(xps.NUTS()),
        "BlackJAX, HMC of 10 steps": by_blackjax(blackjax.hmc, {"num_integration_steps": 10}),
        "BlackJAX, NUTS": by_blackjax(blackjax.nuts, {}),
        "sample, HMC()": by_sample(xps.HMC()),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for seed in range(1, fits + 1):
        for name, fit in ways.items():
            if name.startswith("sample") and seed > max(3, fits // 10):
                continue
            began = time.process_time()
            jax.block_until_ready(fit(seed))
            seconds[name].append(time.process_time() - began)
    print("| way | first fit, s | later fits, ms: median | largest |\n| --- | --- | --- | --- |")
    for name, taken in seconds.items():
        later = taken[1:]
        print(f"| {name} | {taken[0]:.2f} | {1e3 * statistics.median(later):.1f} | {1e3 * max(later):.1f} |")


if __name__ == "__main__":
    main()
