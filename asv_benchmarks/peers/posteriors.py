"""Ten posteriors of posteriordb as models in JAX, with its data and its reference draws.

The Stan programs and their data are those of https://github.com/stan-dev/posteriordb (Magnusson, Torgander, Bürkner,
Zhang, Carpenter and Vehtari 2025, "posteriordb: testing, benchmarking and developing Bayesian inference algorithms").
Nothing of it is kept here: everything is read from a checkout.
"""

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import xpsample as xps

SUBSTEPS = 5
"""Runge-Kutta steps a year, a fixed number in place of adaptive ones. 80 change no log density by 0.003."""

JITTER = 1e-5
"""Added to the diagonal of a covariance, of variance alpha^2. Stan adds 1e-10, which float32 cannot see."""


class Posterior(NamedTuple):
    """A model, and the quantities that the reference draws are of, a dict by name of arrays ``(*chains, *shape)``."""

    model: xps.Model
    quantities: Callable[[Any], Mapping[str, Any]]


def posterior(folder: Path, name: str) -> Posterior:
    """A posterior by its name in posteriordb, with the data of a checkout."""
    data = _read(folder / "posterior_database/data/data" / f"{name.partition('-')[0]}.json.zip")
    arrays = {key: np.asarray(value, dtype=float) for key, value in data.items() if not isinstance(value, str)}
    return POSTERIORS[name](arrays)


def reference(folder: Path, name: str) -> dict[str, np.ndarray]:
    """The reference draws, (draw, chain) of each quantity."""
    chains = _read(folder / "posterior_database/reference_posteriors/draws/draws" / f"{name}.json.zip")
    return {key: np.stack([np.asarray(chain[key], dtype=float) for chain in chains], axis=-1) for key in chains[0]}


def flat(quantities: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Quantities by the names that reference draws have, such as ``beta[1]``."""
    found = {}
    for name, value in quantities.items():
        value = np.asarray(value)
        if value.ndim < 3:
            found[name] = value
        else:
            found |= {f"{name}[{i + 1}]": value[..., i] for i in range(value.shape[-1])}
    return found


def _read(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(archive.namelist()[0]))


def _as_they_are(p: Any) -> Mapping[str, Any]:
    return p._asdict()


def _normal(x: Any, mean: Any = 0.0, sd: Any = 1.0) -> Any:
    return -0.5 * ((x - mean) / sd) ** 2 - jnp.log(sd)


def _cauchy(x: Any, scale: float) -> Any:
    return -jnp.log1p((x / scale) ** 2)


def _regression(y: np.ndarray, *columns: Any, prior: Callable[[Any], Any] = lambda p: 0.0) -> Posterior:
    """y ~ normal(X beta, sigma), by default with flat priors."""
    y, x = jnp.asarray(y), jnp.stack([jnp.broadcast_to(jnp.asarray(column), np.shape(y)) for column in columns])

    def log_density(p: Any) -> Any:
        return prior(p) + jnp.sum(_normal(y, p.beta @ x, p.sigma[..., None]), axis=-1)

    return Posterior(xps.Model(log_density, beta=xps.Real(len(x)), sigma=xps.Positive()), _as_they_are)


def _blr(data: Any) -> Posterior:
    def prior(p: Any) -> Any:
        return jnp.sum(_normal(p.beta, 0.0, 10.0), axis=-1) + _normal(p.sigma, 0.0, 10.0)

    return _regression(data["y"], *data["X"].T, prior=prior)


def _kidscore_momiq(data: Any) -> Posterior:
    return _regression(data["kid_score"], 1.0, data["mom_iq"], prior=lambda p: _cauchy(p.sigma, 2.5))


def _logearn_height(data: Any) -> Posterior:
    return _regression(np.log(data["earn"]), 1.0, data["height"])


def _nes(data: Any) -> Posterior:
    ages = [data["age_discrete"] == age for age in (2, 3, 4)]
    columns = (1.0, data["real_ideo"], data["race_adj"], *ages, data["educ1"], data["gender"], data["income"])
    return _regression(data["partyid7"], *columns)


def _ark(data: Any) -> Posterior:
    lags, y = int(data["K"]), data["y"]
    past = jnp.stack([jnp.asarray(y[lags - k : len(y) - k]) for k in range(1, lags + 1)])
    now = jnp.asarray(y[lags:])

    def log_density(p: Any) -> Any:
        prior = _normal(p.alpha, 0.0, 10.0) + jnp.sum(_normal(p.beta, 0.0, 10.0), axis=-1) + _cauchy(p.sigma, 2.5)
        return prior + jnp.sum(_normal(now, p.alpha[..., None] + p.beta @ past, p.sigma[..., None]), axis=-1)

    return Posterior(xps.Model(log_density, alpha=xps.Real(), beta=xps.Real(lags), sigma=xps.Positive()), _as_they_are)


def _eight_schools(data: Any) -> Posterior:
    y, sigma = jnp.asarray(data["y"]), jnp.asarray(data["sigma"])

    def theta(p: Any) -> Any:
        return p.theta_trans * p.tau[..., None] + p.mu[..., None]

    def log_density(p: Any) -> Any:
        prior = jnp.sum(_normal(p.theta_trans), axis=-1) + _normal(p.mu, 0.0, 5.0) + _cauchy(p.tau, 5.0)
        return prior + jnp.sum(_normal(y, theta(p), sigma), axis=-1)

    model = xps.Model(log_density, theta_trans=xps.Real(8), mu=xps.Real(), tau=xps.Positive())
    return Posterior(model, lambda p: {"theta": theta(p), "mu": p.mu, "tau": p.tau})


def _gp_pois_regr(data: Any) -> Posterior:
    x, k = data["x"], jnp.asarray(data["k"])
    apart, nugget = jnp.asarray((x[:, None] - x) ** 2), JITTER * jnp.eye(len(x))

    def f(p: Any) -> Any:
        rho, alpha = p.rho[..., None, None], p.alpha[..., None]
        return alpha * (jnp.linalg.cholesky(jnp.exp(-0.5 * apart / rho**2) + nugget) @ p.f_tilde[..., None])[..., 0]

    def log_density(p: Any) -> Any:
        prior = 24 * jnp.log(p.rho) - 4 * p.rho + _normal(p.alpha, 0.0, 2.0) + jnp.sum(_normal(p.f_tilde), axis=-1)
        values = f(p)
        return prior + jnp.sum(k * values - jnp.exp(values), axis=-1)

    model = xps.Model(log_density, rho=xps.Positive(), alpha=xps.Positive(), f_tilde=xps.Real(len(x)))
    return Posterior(model, lambda p: {"rho": p.rho, "alpha": p.alpha, "f": f(p)})


def _low_dim_gauss_mix(data: Any) -> Posterior:
    y = jnp.asarray(data["y"])

    def log_density(p: Any) -> Any:
        prior = jnp.sum(_normal(p.sigma, 0.0, 2.0) + _normal(p.mu, 0.0, 2.0), axis=-1)
        theta = p.theta[..., None]
        prior = prior + 4 * (jnp.log(p.theta) + jnp.log1p(-p.theta))
        one, two = (_normal(y, p.mu[..., i, None], p.sigma[..., i, None]) for i in range(2))
        return prior + jnp.sum(jnp.logaddexp(jnp.log(theta) + one, jnp.log1p(-theta) + two), axis=-1)

    model = xps.Model(log_density, mu=xps.Ordered(2), sigma=xps.Positive(2), theta=xps.Interval(0, 1))
    return Posterior(model, _as_they_are)


def _lotka_volterra(data: Any) -> Posterior:
    first, later = jnp.log(jnp.asarray(data["y_init"])), jnp.log(jnp.asarray(data["y"]))

    def years(p: Any) -> Any:
        """Logarithms of both populations, (year, *chains, 2)."""
        alpha, beta, gamma, delta = (p.theta[..., i] for i in range(4))
        h = 1 / SUBSTEPS

        def speed(z: Any) -> Any:
            return jnp.stack([alpha - beta * jnp.exp(z[..., 1]), delta * jnp.exp(z[..., 0]) - gamma], axis=-1)

        def step(z: Any, _: Any) -> Any:
            a = speed(z)
            b = speed(z + 0.5 * h * a)
            c = speed(z + 0.5 * h * b)
            return z + h / 6 * (a + 2 * b + 2 * c + speed(z + h * c)), None

        def year(z: Any, _: Any) -> Any:
            z, _ = jax.lax.scan(step, z, None, length=SUBSTEPS)
            return z, z

        return jax.lax.scan(year, jnp.log(p.z_init), None, length=len(later))[1]

    def log_density(p: Any) -> Any:
        start = jnp.log(p.z_init)
        means, sds = jnp.asarray([1.0, 0.05, 1.0, 0.05]), jnp.asarray([0.5, 0.05, 0.5, 0.05])
        prior = jnp.sum(_normal(p.theta, means, sds), axis=-1)
        prior = prior + jnp.sum(_normal(jnp.log(p.sigma), -1.0) - jnp.log(p.sigma), axis=-1)
        prior = prior + jnp.sum(_normal(start, jnp.log(10.0)) - start, axis=-1)
        seen = jnp.reshape(later, (len(later), *[1] * (p.theta.ndim - 1), 2))
        likelihood = _normal(first, start, p.sigma) + jnp.sum(_normal(seen, years(p), p.sigma), axis=0)
        return prior + jnp.sum(likelihood, axis=-1)

    model = xps.Model(log_density, theta=xps.Positive(4), z_init=xps.Positive(2), sigma=xps.Positive(2))
    return Posterior(model, _as_they_are)


POSTERIORS: dict[str, Callable[[Any], Posterior]] = {
    "sblri-blr": _blr,
    "sblrc-blr": _blr,
    "eight_schools-eight_schools_noncentered": _eight_schools,
    "hudson_lynx_hare-lotka_volterra": _lotka_volterra,
    "arK-arK": _ark,
    "kidiq-kidscore_momiq": _kidscore_momiq,
    "earnings-logearn_height": _logearn_height,
    "nes2000-nes": _nes,
    "gp_pois_regr-gp_pois_regr": _gp_pois_regr,
    "low_dim_gauss_mix-low_dim_gauss_mix": _low_dim_gauss_mix,
}
