"""Evaluations per effective draw of kernels that need a log density only, and of peers' moves, at one budget.

``python docs/black_boxes.py`` prints the table of the measurements of black boxes, in some minutes; it needs JAX,
emcee and NumPyro. Words choose the rows that have them.
"""

import sys
import time
import warnings
from typing import Any

import emcee
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer import AIES, ESS, MCMC

import xpsample as xps
from xpsample.core.errors import DiagnosisWarning
from xpsample.diagnostics.convergence import mixing

jax.config.update("jax_enable_x64", True)

ENSEMBLES, BUDGET = 4, 400_000

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
) -> float:
    """Figures of a kernel of xpsample, from chains, or from ensembles of so many walkers."""
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
    return cost(np.asarray(trace.draws), spent, walkers)


def theirs(
    log_density: Any, budget: int, move: Any, starts: np.ndarray, walkers: int
) -> float:
    """Figures of a move of emcee, from as many ensembles."""
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
    return cost(draws, draws[..., 0].size, walkers)


class Counted(ESS):
    """NumPyro's `ESS`, which also counts the evaluations of walkers that wait for others."""

    made = 0

    def init_inner_state(self, rng_key: Any) -> Any:
        state = super().init_inner_state(rng_key)
        plain = self.batch_log_density

        def log_density(x: Any) -> Any:
            jax.debug.callback(self.count, len(x))
            return plain(x)

        self.batch_log_density = log_density
        return state

    def count(self, walkers: int) -> None:
        self.made += int(walkers)


def numpyros(
    log_density: Any, budget: int, kind: Any, starts: np.ndarray, walkers: int
) -> float:
    """Figures of NumPyro's `AIES` or `ESS`, from as many ensembles, the median of three seeds."""

    kernel = kind(potential_fn=lambda x: -log_density(x))
    options = {"num_chains": walkers, "chain_method": "vectorized", "num_warmup": 50}

    def run(sampler: Any, seed: int, i: int) -> tuple[np.ndarray, int]:
        x0 = jnp.asarray(starts[i * walkers : (i + 1) * walkers])
        key = jax.random.key(ENSEMBLES * seed + i)
        sampler.warmup(key, init_params=x0)
        jax.effects_barrier()
        before = getattr(kernel, "made", 0)
        sampler.run(sampler.post_warmup_state.rng_key, init_params=x0)
        draws = np.asarray(sampler.get_samples(group_by_chain=True))
        jax.effects_barrier()
        spent = getattr(kernel, "made", before + draws[..., 0].size) - before
        return np.moveaxis(draws, 0, 1), spent

    pilot = MCMC(kernel, num_samples=100, progress_bar=False, **options)
    steps = round(budget / ENSEMBLES / run(pilot, 0, 0)[1] * 100)
    sampler, found = MCMC(kernel, num_samples=steps, progress_bar=False, **options), []
    for seed in range(3):
        runs = (run(sampler, seed, i) for i in range(ENSEMBLES))
        chains, spent = zip(*runs, strict=True)
        found.append(cost(np.stack(chains, axis=1), sum(spent), walkers))
    return float(np.median(found))


def starts(log_density: Any, kernel: Any, x0: np.ndarray) -> np.ndarray:
    """Positions of chains after 600 steps of a kernel, nearly draws of the posterior."""
    target = xps.Target(log_density)
    settings = {"seed": 1, "burn_in": 599, "progress": False}
    trace = xps.sample(target, kernel, jnp.asarray(x0), 1, **settings)
    return np.asarray(trace.draws[-1]).reshape(-1, x0.shape[-1])


def main() -> None:
    """Print the table."""
    mode = np.log([0.55, 0.028, 0.8, 0.024, 33.0, 6.0, 0.25, 0.25])
    near = mode + 0.05 * np.random.default_rng(0).normal(size=(ENSEMBLES, 32, 8))
    elliptical = xps.EllipticalSlice(covariance=jnp.asarray(PRIOR))
    problems: dict[str, tuple[Any, Any, np.ndarray, int]] = {
        "Lotka-Volterra, 8 parameters": (
            lotka_volterra,
            xps.Ensemble(xps.DifferentialEvolution()),
            near,
            32,
        ),
        "Gaussian process, 50 rates": (
            gaussian_process,
            elliptical,
            np.zeros((ENSEMBLES * 104, 50)),
            104,
        ),
    }
    dense, prior = {"covariance": xps.DenseMetric()}, "Gaussian process, 50 rates"
    ensembles = {
        "`Ensemble(DifferentialEvolution())`": (
            ours,
            xps.Ensemble(xps.DifferentialEvolution()),
        ),
        "emcee, `DEMove`": (theirs, emcee.moves.DEMove()),
        "NumPyro, `AIES()`, whose default is this move": (numpyros, AIES),
        "`Ensemble(Stretch())`": (ours, xps.Ensemble(xps.Stretch())),
        "emcee, `StretchMove`": (theirs, emcee.moves.StretchMove()),
        "NumPyro, `ESS()`": (numpyros, Counted),
    }
    chains = {
        "`RWM(covariance=DenseMetric())`": xps.RWM(**dense),
        "`RWM()`": xps.RWM(),
        "`Slice(covariance=DenseMetric())`": xps.Slice(**dense),
        "`Slice()`": xps.Slice(),
        "`EllipticalSlice(covariance=prior)`": elliptical,
        "`PCN(covariance=prior)`": xps.PCN(covariance=jnp.asarray(PRIOR)),
    }
    x0 = {
        name: starts(log_density, first, near)
        for name, (log_density, first, near, _) in problems.items()
    }
    print("| sampler |", " | ".join(problems), "|")
    print("| --- | --- | --- |")
    for sampler in [*ensembles, *chains]:
        if not all(word in sampler for word in sys.argv[1:]):
            continue
        cells = []
        for name, (log_density, _, _, walkers) in problems.items():
            began = time.perf_counter()
            if sampler in ensembles:
                run, of = ensembles[sampler]
                found = run(log_density, BUDGET, of, x0[name], walkers)
            elif "prior" in sampler and name != prior:
                cells.append("")
                continue
            else:
                found = ours(log_density, BUDGET, chains[sampler], x0[name])
            cells.append(f"{found:,.0f}")
            print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
        print(f"| {sampler} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore", DiagnosisWarning)
    main()
