"""Prints the tables of docs/measurements/2026-11-starts.md: what Pathfinder saves, and where a mode is lost.

python docs/starts_saved.py [saved | lost | peer]     (one to ten minutes each)
"""

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import xpsample as xps
from xpsample.core.registry import to_host
from xpsample.zoo.curved import banana, funnel
from xpsample.zoo.gaussian import gaussian
from xpsample.zoo.logistic import logistic_regression

CHAINS, SEEDS, SHORT = 4, (0, 1, 2), 50


def row(*cells: object) -> None:
    """Print a line of a Markdown table."""
    print("|", " | ".join(str(cell) for cell in cells), "|", flush=True)


# ---- models ----------------------------------------------------------------------------------------------------------

EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
ERRORS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
PELTS = [
    [30.0, 4.0], [47.2, 6.1], [70.2, 9.8], [77.4, 35.2], [36.3, 59.4], [20.6, 41.7], [18.1, 19.0],
    [21.4, 13.0], [22.0, 8.3], [25.4, 9.1], [27.1, 7.4], [40.3, 8.0], [57.0, 12.3], [76.6, 19.5],
    [52.3, 45.7], [19.5, 51.1], [11.2, 29.7], [7.6, 15.8], [14.6, 9.7], [16.2, 10.1], [24.7, 8.6],
]  # fmt: skip
ROWS = np.random.default_rng(1).normal(size=(200, 10))
LABELS = (ROWS @ np.random.default_rng(2).normal(size=10) > 0).astype(float)
YEARS = np.linspace(1990, 2020, 40)
HEIGHTS = 120 + 0.8 * (YEARS - 1990) + np.random.default_rng(0).normal(size=40) * 4


def eight_schools(p: Any) -> Any:
    """Non-centered: each school's effect is mu + tau z."""
    from array_api_compat import array_namespace

    xp = array_namespace(p.mu)
    effects, errors = xp.asarray(EFFECTS), xp.asarray(ERRORS)
    misfit = (effects - p.mu[..., None] - p.tau[..., None] * p.z) / errors
    prior = -0.5 * (p.mu / 5) ** 2 - xp.log1p((p.tau / 5) ** 2)
    return prior - 0.5 * xp.sum(p.z**2, axis=-1) - 0.5 * xp.sum(misfit**2, axis=-1)


def regression(p: Any) -> Any:
    """A line through raw years: intercept and slope are strongly correlated."""
    from array_api_compat import array_namespace

    xp = array_namespace(p.slope)
    years, heights = xp.asarray(YEARS), xp.asarray(HEIGHTS)
    line = p.intercept[..., None] + p.slope[..., None] * (years - 1960)
    misfit = (heights - line) / p.sigma[..., None]
    prior = -0.5 * (p.intercept / 200) ** 2 - 0.5 * p.slope**2 - p.sigma / 10
    return prior - 0.5 * xp.sum(misfit**2, axis=-1) - 40 * xp.log(p.sigma)


def two_modes(x: np.ndarray, d: int = 5) -> np.ndarray:
    """Shares 0.3 and 0.7, at 4 and -4 in each coordinate."""
    near = -0.5 * np.sum((x - 4) ** 2, axis=-1) + np.log(0.3)
    return np.logaddexp(near, -0.5 * np.sum((x + 4) ** 2, axis=-1) + np.log(0.7))


Start = Callable[..., Any]


def of(target: xps.Target, dim: int, scale: float = 2.0) -> tuple[Any, Start]:
    """A target, and how its chains start."""
    return target, lambda **given: xps.start(
        target, np.zeros(dim), scale=scale, **given
    )


def of_model(model: xps.Model, like: Any) -> tuple[Any, Start]:
    """The same as `of`, for a model."""
    return model, lambda **given: model.start(like, **given)


def models() -> dict[str, tuple[Any, Start]]:
    """Five models, one of them also from distant positions, each with the start of its chains."""
    import jax.numpy as jnp

    schools = {"mu": xps.Real(), "tau": xps.Positive(), "z": xps.Real(8)}
    line = {"intercept": xps.Real(), "slope": xps.Real(), "sigma": xps.Positive()}
    return {
        "Gaussian (20), sds from 0.01 to 100": of(
            gaussian(np.diag(np.logspace(-4, 4, 20))), 20
        ),
        "logistic regression (10)": of(logistic_regression(ROWS, LABELS), 10),
        "the same, random starts of scale 100": of(
            logistic_regression(ROWS, LABELS), 10, 100.0
        ),
        "banana (2)": of(banana(), 2),
        "eight schools (10), named spaces": of_model(
            xps.Model(eight_schools, **schools), jnp.zeros(0)
        ),
        "regression on raw years (3), named spaces": of_model(
            xps.Model(regression, **line), jnp.zeros(0)
        ),
    }


# ---- what is saved ---------------------------------------------------------------------------------------------------


def arrival(path: dict[str, Any]) -> tuple[int, float]:
    """Steps, and scores of a chain, until the log densities of all chains are within 3 sds of where they stay."""
    log_density = to_host(path["log_density"]).astype(float)
    late = log_density[-len(log_density) // 4 :]
    there = np.all(log_density > np.mean(late) - 3 * np.std(late), axis=-1)
    first = int(np.argmax(there))
    return first, float(np.mean(np.cumsum(to_host(path["scores"]), axis=0)[first]))


def one(
    target: Any, start: Start, method: Any, mass: bool, seed: int
) -> tuple[float, ...]:
    """k-hat, scores of the method, steps and scores to arrive, warm-up steps, R-hat and ESS after a short one."""
    spent, k, kernel = 0.0, np.nan, xps.HMC()
    if method is not None:
        found = method.fit(target, start(chains=method.paths, seed=seed), seed=seed)
        spent, k = found.evaluations.score / CHAINS, found.k_hat
        kernel = xps.HMC(mass=found.mass) if mass else kernel
    x0 = start(chains=CHAINS, seed=seed, method=method)
    run = xps.sample(target, kernel, x0, 10, seed=seed)
    short = xps.sample(target, kernel, x0, 300, seed=seed, warmup=SHORT).summary()
    worst = float(np.max(short.rhat)), float(np.min(short.ess_bulk))
    return k, spent, *arrival(run.warmup), run.metadata["warmup"], *worst


def saved(problems: dict[str, tuple[Any, Start]], methods: Any) -> None:
    """Medians over the seeds; one seed of Lotka-Volterra."""
    arrived = "steps until there", "scores until there"
    last = "warm-up", "R-hat", "ESS"
    row("model", "starts", "k-hat", "scores for them", *arrived, *last)
    row(*["---"] * 9)
    for name, (target, start) in problems.items():
        for called, (method, mass) in methods.items():
            seeds = SEEDS[:1] if name.startswith("Lotka") else SEEDS
            runs = [one(target, start, method, mass, seed) for seed in seeds]
            k, *counts, rhat, ess = np.median(runs, axis=0)
            whole = (f"{count:,.0f}" for count in counts)
            first = "" if called != "random" else name
            shown = "" if np.isnan(k) else f"{k:.2g}"
            row(first, called, shown, *whole, f"{rhat:.3f}", f"{ess:.0f}")


def volterra() -> dict[str, tuple[Any, Start]]:
    """Hares and lynxes, 1900 to 1920 (the Hudson's Bay Company's pelts): rates, first values and errors, on JAX."""
    import jax.numpy as jnp
    from jax.lax import scan

    counts = jnp.log(jnp.array(PELTS))

    def path(p: Any) -> Any:
        """Logarithms, (year, *chains, 2), by 20 Runge-Kutta steps a year."""
        grow, eaten, die, eat = (p.rates[..., i] for i in range(4))

        def slope(x: Any) -> Any:
            hares, lynxes = jnp.exp(x[..., 0]), jnp.exp(x[..., 1])
            return jnp.stack([grow - eaten * lynxes, eat * hares - die], axis=-1)

        def step(x: Any, _: Any) -> Any:
            k1 = slope(x)
            k2 = slope(x + k1 / 40)
            k3 = slope(x + k2 / 40)
            return x + (k1 + 2 * k2 + 2 * k3 + slope(x + k3 / 20)) / 120, None

        def year(x: Any, _: Any) -> Any:
            return scan(step, x, None, length=20)[0], x

        return scan(year, jnp.log(p.first), None, length=len(counts))[1]

    def log_density(p: Any) -> Any:
        misfit = (counts.reshape(21, *(1,) * (p.first.ndim - 1), 2) - path(p)) / p.sd
        means, sds = (
            jnp.array([1.0, 0.05, 1.0, 0.05]),
            jnp.array([0.5, 0.05, 0.5, 0.05]),
        )
        squares = (
            jnp.sum(misfit**2, axis=(0, -1))
            + jnp.sum(((p.rates - means) / sds) ** 2, axis=-1)
            + jnp.sum((jnp.log(p.sd) + 1) ** 2, axis=-1)
            + jnp.sum(jnp.log(p.first / 10) ** 2, axis=-1)
        )
        return -0.5 * squares - jnp.sum(22 * jnp.log(p.sd) + jnp.log(p.first), axis=-1)

    places = {"rates": xps.Positive(4), "first": xps.Positive(2), "sd": xps.Positive(2)}
    return {
        "Lotka-Volterra (8), named spaces": of_model(
            xps.Model(log_density, **places), jnp.zeros(0)
        )
    }


def lost() -> None:
    """Targets of which Gaussians miss a part."""
    row("target", "k-hat", "log Z", "true", "of 1,000 starts", "true")
    row(*["---"] * 6)
    neck = funnel(10)  # v has the standard deviation 3
    for paths in (8, 32):
        x0 = xps.start(neck, np.zeros(10), paths, seed=0)
        found = xps.Pathfinder(draws=20_000).fit(neck, x0, seed=0)
        share = np.mean(found.starts(1000, seed=0)[:, 0] > 3)
        cells = (
            f"{found.k_hat:.2g}",
            f"{found.log_normalizer.value:.2f}",
            "0",
            f"{share:.3f} have v > 3",
        )
        row(
            "funnel (10), 8 paths" if paths == 8 else "the same, 32 paths",
            *cells,
            "0.159",
        )
    modes = xps.Target(two_modes, gradient=xps.FiniteDifference())
    for scale in (0.5, 2.0, 6.0):
        x0 = xps.start(modes, np.full(5, 2.0), 8, seed=0, scale=scale)
        found = xps.Pathfinder(draws=20_000).fit(modes, x0, seed=0)
        share = np.mean(found.starts(1000, seed=0)[:, 0] > 0)
        true = f"{2.5 * np.log(2 * np.pi):.2f}"
        cells = (
            f"{found.k_hat:.2g}",
            f"{found.log_normalizer.value:.2f}",
            true,
            f"{share:.3f} are in the nearer",
        )
        first = "two modes, paths begin with" if scale == 0.5 else "the same,"
        row(f"{first} scale {scale:g}", *cells, "0.3")


def peer() -> None:
    """Pathfinder of BlackJAX from the same starts, with as many draws: ELBOs of the paths, and k-hats."""
    import jax
    import jax.numpy as jnp
    from blackjax.vi import multipathfinder

    jax.config.update("jax_enable_x64", True)
    generator = np.random.default_rng(1)
    root = generator.normal(size=(50, 50))
    precision = np.linalg.inv(root @ root.T / 50 + 0.01 * np.eye(50))
    rows = generator.normal(size=(200, 10))
    signed = jnp.asarray(rows * np.where(generator.random((200, 1)) < 0.5, -1.0, 1.0))

    def of_gaussian(x: Any) -> Any:
        return -0.5 * jnp.sum((x @ jnp.asarray(precision)) * x, axis=-1)

    def logistic(x: Any) -> Any:
        return -jnp.sum(jnp.logaddexp(0.0, -x @ signed.T), axis=-1) - 0.5 * jnp.sum(
            x**2, axis=-1
        )

    row(
        "target",
        "history",
        "BlackJAX: ELBOs",
        "k-hat",
        "here: ELBOs",
        "k-hat",
    )
    row(*["---"] * 6)
    for name, f, dim, history in (
        ("Gaussian (50), strongly correlated", of_gaussian, 50, 6),
        ("logistic regression (10)", logistic, 10, 6),
    ):
        x0 = 2.0 * jnp.asarray(np.random.default_rng(0).normal(size=(8, dim)))
        options = {"maxiter": 200, "maxcor": history, "ftol": 1e-9}
        theirs, _ = multipathfinder.multi_approximate(
            jax.random.key(0), f, x0, 125, **options
        )
        ours = xps.Pathfinder(history=history).fit(xps.Target(f), x0, seed=0)
        elbos = np.asarray(jnp.mean(theirs.logp - theirs.logq, axis=1)), ours.elbos
        shown = [
            f"{np.median(a):.2f} ({np.min(a):.2f} to {np.max(a):.2f})" for a in elbos
        ]
        k = float(multipathfinder.psis_weights(theirs)[1])
        row(name, history, shown[0], f"{k:.2f}", shown[1], f"{ours.k_hat:.2f}")


def main(words: list[str]) -> None:
    """Print the tables that are named, or all."""
    method = xps.Pathfinder()
    methods = {
        "random": (None, False),
        "Pathfinder": (method, False),
        "and its mass": (method, True),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "saved" in words:
            saved(models() | volterra(), methods)
        if "lost" in words:
            lost()
        if "peer" in words:
            peer()


if __name__ == "__main__":
    main(sys.argv[1:] or ["saved", "lost", "peer"])
