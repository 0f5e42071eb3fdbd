"""Evaluations per effective draw of kernels that need a log density only, and of peers' moves, at one budget.

``python docs/black_boxes.py`` prints the table of the page on black boxes, in some minutes; it needs JAX, emcee and
NumPyro. A first word chooses one of the problems, ``Gaussian`` or ``Lotka``, a second one samplers.
"""

import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import emcee
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer import AIES, MCMC

import xpsample as xps
from xpsample.core.errors import DiagnosisWarning
from xpsample.metrics.ranks import mixing

jax.config.update("jax_enable_x64", True)

ENSEMBLES = 4

HARES_AND_LYNXES = """30 4 47.2 6.1 70.2 9.8 77.4 35.2 36.3 59.4 20.6 41.7 18.1 19 21.4 13 22 8.3 25.4 9.1 27.1 7.4
40.3 8 57 12.3 76.6 19.5 52.3 45.7 19.5 51.1 11.2 29.7 7.6 15.8 14.6 9.7 16.2 10.1 24.7 8.6"""
"""Thousands of pelts of the Hudson's Bay Company, 1900 to 1920: Howard (2009), by way of Stan's case study."""

PELTS = jnp.log(jnp.asarray(HARES_AND_LYNXES.split(), dtype=float).reshape(21, 2))


def lotka_volterra(x: Any) -> Any:
    """The posterior of logarithms of rates, first populations and errors, (*chains, 8)."""
    rates, first, errors = jnp.exp(x[..., :4]), x[..., 4:6], jnp.exp(x[..., 6:])
    a, b, c, d = (rates[..., i] for i in range(4))

    def slope(z: Any) -> Any:
        hares, lynxes = jnp.exp(z[..., 0]), jnp.exp(z[..., 1])
        return jnp.stack([a - b * lynxes, d * hares - c], axis=-1)

    def step(z: Any, _: Any) -> Any:
        h = 0.1
        k1 = slope(z)
        k2 = slope(z + h / 2 * k1)
        k3 = slope(z + h / 2 * k2)
        k4 = slope(z + h * k3)
        return z + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    def year(z: Any, _: Any) -> Any:
        z, _ = jax.lax.scan(step, z, None, length=10)
        return z, z

    _, later = jax.lax.scan(year, first, None, length=20)
    z = jnp.concatenate([first[None], later])
    pelts = PELTS.reshape(21, *(1,) * (x.ndim - 1), 2)
    density = jnp.sum(
        -0.5 * ((pelts - z) / errors) ** 2 - jnp.log(errors), axis=(0, -1)
    )
    spread = jnp.asarray([0.5, 0.05, 0.5, 0.05])
    density += jnp.sum(
        -0.5 * ((rates - jnp.asarray([1.0, 0.05, 1.0, 0.05])) / spread) ** 2
        + x[..., :4],
        axis=-1,
    )
    density += jnp.sum(-0.5 * (first - jnp.log(10.0)) ** 2, axis=-1)
    return density + jnp.sum(-0.5 * (x[..., 6:] + 1.0) ** 2, axis=-1)


TIMES = np.linspace(0, 1, 50)
PRIOR = np.exp(-0.5 * ((TIMES[:, None] - TIMES) / 0.2) ** 2) + 1e-4 * np.eye(50)
PRECISION = jnp.asarray(np.linalg.inv(PRIOR))
COUNTS = jnp.asarray(np.random.default_rng(0).poisson(np.exp(np.sin(6 * TIMES))))


def gaussian_process(x: Any) -> Any:
    """The posterior of the logarithms of 50 Poisson rates, with a smooth prior."""
    return -0.5 * jnp.sum((x @ PRECISION) * x, axis=-1) + jnp.sum(
        COUNTS * x - jnp.exp(x), axis=-1
    )


def cost(draws: np.ndarray, evaluations: float, walkers: int) -> float:
    """Evaluations per effective draw, of the coordinate with the least ESS."""
    flat = draws.reshape(len(draws), -1, draws.shape[-1])
    return evaluations / float(np.min(mixing(flat, walkers=walkers).ess_bulk))


def ours(
    log_density: Any, budget: int, kernel: Any, starts: np.ndarray, walkers: int = 1
) -> tuple[float, Any]:
    """Of a kernel here, from chains, or from ensembles of so many walkers."""
    x0 = starts[: ENSEMBLES * walkers] if walkers > 1 else starts[:40]
    x0 = x0.reshape(ENSEMBLES, walkers, -1) if walkers > 1 else x0
    target = xps.Target(log_density)
    found = xps.sample(
        target, kernel, jnp.asarray(x0), 100, seed=1, burn_in=50, progress=False
    )
    each = found.run_statistics.evaluations["log_density"]
    steps = round(budget / each / x0[..., 0].size)
    trace = xps.sample(
        target, found.kernel, found.draws[-1], steps, seed=2, progress=False
    )
    spent = trace.run_statistics.evaluations["log_density"] * steps * x0[..., 0].size
    return cost(np.asarray(trace.draws), spent, walkers), found.metadata.get(
        "warmup", 0
    )


def theirs(
    log_density: Any, budget: int, move: Any, starts: np.ndarray, walkers: int
) -> tuple[float, Any]:
    """Of a move of emcee, from as many ensembles."""
    vectorized, steps, chains = (
        jax.jit(log_density),
        budget // (ENSEMBLES * walkers),
        [],
    )
    for i in range(ENSEMBLES):
        sampler = emcee.EnsembleSampler(
            walkers,
            starts.shape[-1],
            lambda x: np.asarray(vectorized(x)),
            moves=move,
            vectorize=True,
        )
        sampler.random_state = np.random.RandomState(i).get_state()
        sampler.run_mcmc(starts[i * walkers : (i + 1) * walkers], steps + 50)
        chains.append(sampler.get_chain(discard=50))
    draws = np.stack(chains, axis=1)
    return cost(draws, draws[..., 0].size, walkers), 0


def numpyros(
    log_density: Any, budget: int, starts: np.ndarray, walkers: int
) -> tuple[float, Any]:
    """Of NumPyro's `AIES`, from as many ensembles, the median of three seeds."""
    settings = {"num_chains": walkers, "chain_method": "vectorized"}
    found = []
    for seed in range(3):
        chains = []
        for i in range(ENSEMBLES):
            sampler = MCMC(
                AIES(potential_fn=lambda x: -log_density(x)),
                num_warmup=50,
                num_samples=budget // (ENSEMBLES * walkers),
                progress_bar=False,
                **settings,
            )
            x0 = jnp.asarray(starts[i * walkers : (i + 1) * walkers])
            sampler.run(jax.random.key(ENSEMBLES * seed + i), init_params=x0)
            draws = np.asarray(sampler.get_samples(group_by_chain=True))
            chains.append(np.moveaxis(draws, 0, 1))
        every = np.stack(chains, axis=1)
        found.append(cost(every, every[..., 0].size, walkers))
    return float(np.median(found)), 0


def starts(log_density: Any, kernel: Any, x0: np.ndarray) -> np.ndarray:
    """Where chains are after 600 steps of a kernel, nearly draws of the posterior."""
    target = xps.Target(log_density)
    settings = {"seed": 1, "burn_in": 599, "progress": False}
    trace = xps.sample(target, kernel, jnp.asarray(x0), 1, **settings)
    return np.asarray(trace.draws[-1]).reshape(-1, x0.shape[-1])


def main() -> None:
    """Print the table."""
    mode = np.log([0.55, 0.028, 0.8, 0.024, 33.0, 6.0, 0.25, 0.25])
    near = mode + 0.05 * np.random.default_rng(0).normal(size=(ENSEMBLES, 32, 8))
    elliptical = xps.EllipticalSlice(covariance=jnp.asarray(PRIOR))
    pcn = xps.PCN(covariance=jnp.asarray(PRIOR))
    problems: dict[str, tuple[Any, int, Any, np.ndarray, int, dict[str, Any]]] = {
        "Gaussian process, 50": (
            gaussian_process,
            400_000,
            elliptical,
            np.zeros((ENSEMBLES * 104, 50)),
            104,
            {"EllipticalSlice": elliptical, "PCN": pcn},
        ),
        "Lotka-Volterra, 8": (
            lotka_volterra,
            400_000,
            xps.Ensemble(xps.DifferentialEvolution()),
            near,
            32,
            {},
        ),
    }
    chosen = [name for name in problems if sys.argv[1:] == [] or sys.argv[1] in name]
    print("| problem | sampler | evaluations per effective draw | warm-up steps |")
    print("| --- | --- | --- | --- |")
    for name in chosen:
        log_density, budget, first, near, walkers, more = problems[name]
        x0 = starts(log_density, first, near)
        cases: dict[str, Callable[[], tuple[float, Any]]] = {
            key: partial(ours, log_density, budget, kernel, x0)
            for key, kernel in more.items()
        }
        for kind in (xps.RWM, xps.Slice):
            dense = kind(covariance=xps.DenseMetric())
            for key, kernel in (("", kind()), (", dense metric", dense)):
                cases[f"{kind.__name__}{key}"] = partial(
                    ours, log_density, budget, kernel, x0
                )
        for move in (xps.Stretch(), xps.DifferentialEvolution()):
            kernel = xps.Ensemble(move)
            cases[f"Ensemble, {type(move).__name__}"] = partial(
                ours, log_density, budget, kernel, x0, walkers
            )
        for their in (emcee.moves.StretchMove(), emcee.moves.DEMove()):
            cases[f"emcee, {type(their).__name__}"] = partial(
                theirs, log_density, budget, their, x0, walkers
            )
        cases["NumPyro, AIES"] = partial(numpyros, log_density, budget, x0, walkers)
        for key, case in cases.items():
            if sys.argv[2:] and sys.argv[2] not in key:
                continue
            began = time.perf_counter()
            found, warmup = case()
            print(
                f"| {name} | {key} | {found:,.0f} | {warmup} |",
                f" {time.perf_counter() - began:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    warnings.simplefilter("ignore", DiagnosisWarning)
    main()
