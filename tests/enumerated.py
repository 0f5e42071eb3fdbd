"""What tests of samplers on discrete spaces share: small targets whose states are listed, and chi-square."""

import numpy as np
from array_api_compat import array_namespace
from scipy.stats import chi2

from xpsample.spaces import Binary, Categorical, OneHot, Spins
from xpsample.targets import Target

CHAINS = 100_000
ERROR = 1e-6
"""Probability that a right sampler fails one chi-square test; seeds are fixed."""

SPACES = {
    "bits": (Binary(), 4),
    "spins": (Spins(), 9),
    "ternary": (Categorical((0, 1, 2)), 4),
    "mixed": (Categorical(((0, 1), (-1, 0.5, 2), (5,), (1, 3, 7, 9))), 4),
    "one-hot": (OneHot(3), 9),
}


def _log_density(x, d):
    xp = array_namespace(x)
    return xp.sum(x * (d["field"] + 0.5 * (x @ d["couplings"])), axis=-1)


def _score(x, d):
    return d["field"] + x @ d["couplings"]


def _both(x, d):
    return _log_density(x, d), _score(x, d)


def quadratic(name, strength=1.0):
    """A target with couplings between all coordinates, of a space in `SPACES`, and the space's dim."""
    space, dim = SPACES[name]
    rng = np.random.default_rng(dim)
    largest = np.max(np.abs(space.states(dim)), axis=0)
    couplings = rng.normal(size=(dim, dim)) * strength / dim / np.outer(largest, largest)
    field = 0.4 * strength * rng.normal(size=dim) / largest
    data = {"field": field, "couplings": couplings + couplings.T}
    target = Target(
        _log_density,
        score=_score,
        hvp=lambda x, v, d: v @ d["couplings"],
        log_density_and_score=_both,
        data=data,
        space=space,
    )
    return target, dim


def listed(target, dim):
    """All states and their probabilities."""
    states = target.space.states(dim)
    weights = np.exp(target.log_density(states, target.data))
    return states, weights / weights.sum()


def numbered(states, x):
    """Which of the listed states each position (*chains, dim) is."""
    code = np.random.default_rng(0).random(states.shape[1])
    codes = states @ code
    order = np.argsort(codes)
    between = 0.5 * (codes[order][1:] + codes[order][:-1])
    found = order[np.searchsorted(between, x @ code)]
    assert np.array_equal(states[found], x)
    return found


def chi_square(indices, probabilities):
    """The statistic of how often each state was seen, and the bound that it keeps but with probability `ERROR`."""
    expected = indices.size * probabilities
    # Rare states together, so that the law of the statistic is what it is taken for.
    rare = expected < 10
    seen = np.bincount(indices.ravel(), minlength=len(probabilities))
    if rare.any():
        seen = np.append(seen[~rare], seen[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    return float(np.sum((seen - expected) ** 2 / expected)), float(chi2.isf(ERROR, len(seen) - 1))
