"""The gallery: every page runs, its model is the same on every library, and NumPyro's NUTS finds the same posterior."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.docs.test_docs import DOCS, blocks, run_page
from xpsample.core.registry import to_host
from xpsample.diagnostics.convergence import mcse_mean
from xpsample.targets import Capability

pytest.importorskip("matplotlib").use("Agg")
jax = pytest.importorskip("jax")
numpyro = pytest.importorskip("numpyro")

import jax.numpy as jnp  # noqa: E402
import numpyro.distributions as dist  # noqa: E402
from numpyro.distributions import constraints  # noqa: E402
from numpyro.infer import MCMC, NUTS  # noqa: E402

PAGES = sorted(page for page in (DOCS / "gallery").glob("*.md") if page.stem != "index")


def by_name(test: Callable[..., Any]) -> Callable[..., Any]:
    """A test for each page."""
    return pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)(test)


def first_block(page: Path) -> dict[str, Any]:
    """What the block with the data and the model defines."""
    namespace: dict[str, Any] = {"__name__": page.stem}
    exec(compile(blocks(page, "python")[0][1], str(page), "exec"), namespace)
    return namespace


@by_name
def test_a_model_has_at_most_40_lines(page: Path) -> None:
    code = blocks(page, "python")[0][1]
    assert "model = xps.Model(" in code
    assert len([line for line in code.splitlines() if line.strip()]) <= 40


@pytest.mark.sampled(3)
@by_name
def test_density_and_score_on_every_library(page: Path, library) -> None:
    """At starts of the model; NumPy and array-api-strict borrow the scores, and the densities are their own."""
    model = first_block(page)["model"]

    def evaluated(like) -> list[np.ndarray]:
        x = model.start(like=like, chains=5, seed=3)
        density = model.prepare(x, Capability.LOG_DENSITY).evaluate(x).log_density
        return [to_host(x), to_host(density), to_host(model.prepare(x, Capability.SCORE).evaluate(x).score)]

    ours, numpys = evaluated(library.array(np.zeros(0))), evaluated(np.zeros(0))
    for own, other in zip(ours, numpys, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-8, atol=1e-8)
    assert len(np.unique(ours[1])) == 5
    assert np.all(np.any(ours[2] != 0, axis=0))


# ---- beside NumPyro's NUTS ------------------------------------------------------------------------------------------


def eight_schools(page: Mapping[str, Any]) -> None:
    mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfCauchy(5))
    z = numpyro.sample("z", dist.Normal(jnp.zeros(8), 1))
    numpyro.sample("y", dist.Normal(mu + tau * z, page["errors"]), obs=page["gains"])


def seeds(page: Mapping[str, Any]) -> None:
    beta, sigma = numpyro.sample("beta", dist.Normal(jnp.zeros(4), 2)), numpyro.sample("sigma", dist.HalfNormal(1))
    z = numpyro.sample("z", dist.Normal(jnp.zeros(21), 1))
    logits = jnp.asarray(page["design"]) @ beta + sigma * z
    numpyro.sample("r", dist.Binomial(page["sown"], logits=logits), obs=page["germinated"])


def garch(page: Mapping[str, Any]) -> None:
    level, shares = numpyro.sample("level", dist.LogNormal(0, 1)), numpyro.sample("shares", dist.Dirichlet(jnp.ones(3)))

    def day(variance, y):
        return shares[2] * level + shares[0] * y**2 + shares[1] * variance, variance

    _, variances = jax.lax.scan(day, level, jnp.asarray(page["returns"]))
    numpyro.sample("y", dist.Normal(0, jnp.sqrt(variances)), obs=page["returns"])


def correlations(page: Mapping[str, Any]) -> None:
    mean, sd = numpyro.sample("mean", dist.Normal(jnp.zeros(4), 1)), numpyro.sample("sd", dist.HalfNormal(jnp.ones(4)))
    chol = numpyro.sample("chol", dist.LKJCholesky(4, 2.0))
    numpyro.sample("y", dist.MultivariateNormal(mean, scale_tril=sd[:, None] * chol), obs=page["scaled"])


def coal(page: Mapping[str, Any]) -> None:
    mean, amplitude = numpyro.sample("mean", dist.Normal(0, 1)), numpyro.sample("amplitude", dist.HalfNormal(1))
    length = numpyro.sample("length", dist.LogNormal(jnp.log(2.0), 0.7))
    z = numpyro.sample("z", dist.Normal(jnp.zeros(37), 1))
    distance, jitter = map(jnp.asarray, page["times"])
    factor = jnp.linalg.cholesky(jnp.exp(-0.5 * (distance / length) ** 2) + jitter)
    numpyro.sample("y", dist.Poisson(jnp.exp(mean + amplitude * factor @ z)), obs=page["counts"])


def earthquakes(page: Mapping[str, Any]) -> None:
    rate = numpyro.sample("rate", dist.ImproperUniform(constraints.positive_ordered_vector, (), (3,)))
    numpyro.factor("prior", dist.Normal(20, 10).log_prob(rate).sum())
    transition = numpyro.sample("transition", dist.Dirichlet(1 + 4 * jnp.eye(3)).to_event(1))

    def year(log_forward, count):
        reached = jax.nn.logsumexp(log_forward[:, None] + jnp.log(transition), axis=0)
        return reached + dist.Poisson(rate).log_prob(count), None

    last, _ = jax.lax.scan(year, jnp.full(3, -jnp.log(3.0)), jnp.asarray(page["counts"]))
    numpyro.factor("likelihood", jax.nn.logsumexp(last))


def zero_inflated(page: Mapping[str, Any]) -> None:
    share, beta = numpyro.sample("share", dist.Uniform(0, 1)), numpyro.sample("beta", dist.Normal(jnp.zeros(2), 1))
    rate = jnp.exp(beta[0] + beta[1] * page["depth"])
    numpyro.sample("y", dist.ZeroInflatedPoisson(gate=1 - share, rate=rate), obs=page["frogs"])


def mixture(page: Mapping[str, Any]) -> None:
    mean = numpyro.sample("mean", dist.ImproperUniform(constraints.ordered_vector, (), (2,)))
    numpyro.factor("prior", dist.Normal(0, 3).log_prob(mean).sum())
    share = numpyro.sample("share", dist.Dirichlet(jnp.full(2, 2.0)))
    of_kinds = dist.MixtureSameFamily(dist.Categorical(share), dist.Normal(mean, 1.0))
    numpyro.sample("y", of_kinds, obs=page["heights"])


THEIRS = (eight_schools, seeds, garch, correlations, coal, earthquakes, zero_inflated, mixture)


def rows(draws: Mapping[str, np.ndarray]) -> np.ndarray:
    """Draws by name, (draw, chain, *shape) each, as (draw, chain, row)."""
    return np.concatenate([a.reshape(*a.shape[:2], -1) for a in draws.values()], axis=-1).astype(float)


def estimates(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each row, (2, row), and their Monte Carlo standard errors."""
    mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
    return np.stack([mean, sd]), np.stack([mcse_mean(draws), mcse_mean((draws - mean) ** 2) / (2 * sd)])


@by_name
def test_the_page_runs(page: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page, tmp_path)
    assert (tmp_path / f"{page.stem}.png").exists()


@pytest.mark.release
@by_name
def test_the_page_finds_what_numpyro_finds(page: Path, tmp_path: Path, monkeypatch) -> None:
    # Within five standard errors of a difference: one of about 400 estimates fails with probability 2e-4.
    monkeypatch.chdir(tmp_path)
    namespace = run_page(page, tmp_path)
    mcmc = MCMC(
        NUTS(next(f for f in THEIRS if f.__name__ == page.stem.replace("-", "_"))),
        num_warmup=500,
        num_samples=1000,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    jax.config.update("jax_disable_most_optimizations", True)  # their program takes longer to compile than to run
    try:
        mcmc.run(jax.random.key(0), namespace)
    finally:
        jax.config.update("jax_disable_most_optimizations", False)
    found = {name: np.moveaxis(np.asarray(a), 0, 1) for name, a in mcmc.get_samples(group_by_chain=True).items()}
    for run in [namespace[name] for name in ("trace", "beside") if name in namespace]:
        theirs, ours = rows(found), rows({name: to_host(run[name]) for name in found})
        varies = theirs.std(axis=(0, 1)) > 0  # not the zeros of a Cholesky factor
        values, errors = zip(estimates(ours[..., varies]), estimates(theirs[..., varies]), strict=True)
        off = np.abs(values[0] - values[1]) / np.hypot(*errors)
        assert np.all(off < 5), (page.stem, off.max())
