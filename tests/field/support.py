"""What tests of findings share: quiet runs, and targets that several of them use."""

import warnings

import numpy as np

import xpsample as xps

FINITE = xps.FiniteDifference()

NORMAL = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)

TWO_BITS = xps.Target(
    lambda x: 12.0 * (x[..., 0] == x[..., 1]), score=lambda x: 12.0 * (2 * x[..., ::-1] - 1), space=xps.Binary()
)
"""Bits that must agree."""


def gaussian(scale):
    return xps.Target(lambda x: -0.5 * np.sum((x / scale) ** 2, axis=-1), score=lambda x: -x / scale**2)


def of_precision(precision):
    return xps.Target(lambda x: -0.5 * np.sum(x * (x @ precision), axis=-1), score=lambda x: -(x @ precision))


def two_modes(a):
    """At a and -a, in each coordinate."""
    return xps.Target(
        lambda x: np.logaddexp(-0.5 * np.sum((x - a) ** 2, axis=-1), -0.5 * np.sum((x + a) ** 2, axis=-1)),
        score=lambda x: a * np.tanh(a * np.sum(x, axis=-1))[..., None] - x,
    )


def posterior_of_a_mean(rows, weight=1.0):
    """Of rows around it, each coordinate with its precision."""
    return xps.posterior(
        lambda x: -0.5 * np.sum(x**2, axis=-1),
        lambda x, rows: -0.5 * np.sum(weight * (rows - x[..., None, :]) ** 2, axis=(-2, -1)),
        rows,
        prior_score=lambda x: -x,
        likelihood_score=lambda x, rows: np.sum(weight * (rows - x[..., None, :]), axis=-2),
    )


def normal(dim, scale=1.0, chains=4, seed=0):
    return scale * np.random.default_rng(seed).normal(size=(chains, dim))


def quiet(target, kernel, x0=None, draws=1000, **settings):
    """A run whose warnings are left out; a model makes its own positions."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        x0 = target.start(like=np.zeros(0), chains=4, seed=0) if x0 is None else x0
        return xps.sample(target, kernel, x0, draws, **{"seed": 1, "progress": False} | settings)


def told(*arguments, **settings):
    """The findings of a quiet run."""
    return quiet(*arguments, **settings).diagnose()


def kinds(found):
    """The kinds of findings, or of those of a trace."""
    return [finding.kind for finding in (found if isinstance(found, tuple) else found.diagnose())]


def named(kernel):
    return type(kernel).__name__
