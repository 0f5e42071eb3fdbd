"""Prints a table of docs/measurements/2026-11-starts.md: warm-ups of NUTS from Pathfinder and by NumPyro.

python docs/starts_numpyro.py [word of a model]     (some minutes)
"""

import sys
import warnings
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.infer import MCMC, NUTS, init_to_median, init_to_uniform
from starts_saved import CHAINS, SEEDS, models, row, volterra

import xpsample as xps
from xpsample.core.registry import to_host
from xpsample.diagnostics.convergence import mixing

WARM_UP, DRAWS = 50, 300

PRIORS: dict[str, dict[str, Any]] = {
    "logistic regression (10)": {"x": dist.Normal(0, 1).expand([10]).to_event(1)},
    "eight schools (10), named spaces": {
        "mu": dist.Normal(0, 5),
        "tau": dist.HalfCauchy(5),
        "z": dist.Normal(0, 1).expand([8]).to_event(1),
    },
    "regression on raw years (3), named spaces": {
        "intercept": dist.Normal(0, 200),
        "slope": dist.Normal(0, 1),
        "sigma": dist.Exponential(0.1),
    },
    "Lotka-Volterra (8), named spaces": {
        "rates": dist.TruncatedNormal(
            jnp.array([1.0, 0.05, 1.0, 0.05]), jnp.array([0.5, 0.05, 0.5, 0.05]), low=0
        ).to_event(1),
        "first": dist.LogNormal(jnp.log(10.0), 1).expand([2]).to_event(1),
        "sd": dist.LogNormal(-1, 1).expand([2]).to_event(1),
    },
}
"""For the models that have some."""


def in_numpyro(target: Any, priors: dict[str, Any]) -> Callable[[], None]:
    """The same posterior as a model of NumPyro, so that its start positions see the priors."""
    data = () if getattr(target, "data", None) is None else (target.data,)

    def log_density(values: dict[str, Any]) -> Any:
        if isinstance(target, xps.Model):
            return target.log_density(SimpleNamespace(**values))
        return target.log_density(values["x"], *data)

    def model() -> None:
        values = {name: numpyro.sample(name, prior) for name, prior in priors.items()}
        known = sum(
            jnp.sum(prior.log_prob(values[name])) for name, prior in priors.items()
        )
        numpyro.factor("the rest", log_density(values) - known)

    return model


def least(draws: np.ndarray) -> float:
    """The bulk ESS of the worst coordinate."""
    return float(np.min(np.nan_to_num(mixing(draws).ess_bulk)))


def ours(target: Any, start: Any, seed: int) -> tuple[float, float]:
    """Scores of a chain in the paths and in the warm-up, and the ESS."""
    method = xps.Pathfinder()
    paths = method.fit(target, start(chains=method.paths, seed=seed), seed=seed)
    x0 = start(chains=CHAINS, seed=seed, method=method)
    run = xps.sample(target, xps.NUTS(), x0, DRAWS, seed=seed, warmup=WARM_UP)
    scores = float(np.sum(to_host(run.warmup["scores"]))) + paths.evaluations.score
    return scores / CHAINS, least(to_host(run.draws))


def theirs(sampler: MCMC, seed: int) -> tuple[float, float]:
    """Scores of a chain in the warm-up of NumPyro's NUTS, and the ESS."""
    key, count = jax.random.key(seed), ("num_steps",)
    sampler.warmup(key, collect_warmup=True, extra_fields=count)
    scores = float(jnp.sum(sampler.get_extra_fields()["num_steps"])) / CHAINS
    sampler.run(sampler.post_warmup_state.rng_key)
    found = sampler.get_samples(group_by_chain=True)
    flat = [np.asarray(a).reshape(CHAINS, DRAWS, -1) for a in found.values()]
    return scores, least(np.swapaxes(np.concatenate(flat, axis=-1), 0, 1))


def main() -> None:
    """A row for each model: medians of the seeds."""
    row(
        "model",
        "`Pathfinder()`",
        "ESS",
        "`init_to_median`",
        "ESS",
        "`init_to_uniform`",
        "ESS",
    )
    row(*["---"] * 7)
    for name, (target, start) in (models() | volterra()).items():
        if "scale 100" in name or not all(word in name for word in sys.argv[1:]):
            continue  # NumPyro's starts are its own
        shape = np.shape(start(chains=1, seed=0))[1:]
        improper = {"x": dist.ImproperUniform(constraints.real_vector, (), shape)}
        model = in_numpyro(target, PRIORS.get(name, improper))
        options = {"num_chains": CHAINS, "chain_method": "vectorized"}
        options |= {"num_warmup": WARM_UP, "num_samples": DRAWS, "progress_bar": False}
        sides = [partial(ours, target, start)]
        for strategy in (init_to_median, init_to_uniform):
            kernel = NUTS(model, init_strategy=strategy)
            sides.append(partial(theirs, MCMC(kernel, **options)))
        medians = [np.median([run(seed) for seed in SEEDS], axis=0) for run in sides]
        row(name, *(f"{number:,.0f}" for pair in medians for number in pair))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
