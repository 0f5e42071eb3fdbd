"""Targets that rules are tried on, of arrays of any library."""

import numpy as np
from array_api_compat import array_namespace

import xpsample as xps


def gaussian(precision):
    """N(0, precision^-1); the precision is an array of the positions' library."""
    return xps.Target(
        lambda x, p: -0.5 * array_namespace(x).sum((x @ p) * x, axis=-1), score=lambda x, p: -(x @ p), data=precision
    )


def rotated(dim, condition, seed=3):
    """A precision with eigenvalues from 1 to the condition, in random directions."""
    axes, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(dim, dim)))
    return (axes * np.geomspace(1.0, condition, dim)) @ axes.T


def couplings(dim, scale, seed=0):
    """Symmetric, with zeros on the diagonal."""
    upper = np.triu(scale * np.random.default_rng(seed).normal(size=(dim, dim)), 1)
    return upper + upper.T


def spins(matrix):
    """exp(x J x / 2) on {-1, 1}^dim; J is an array of the positions' library."""
    return xps.Target(
        lambda x, j: 0.5 * array_namespace(x).sum((x @ j) * x, axis=-1),
        score=lambda x, j: x @ j,
        data=matrix,
        space=xps.Spins(),
    )


def normals(*shape, seed=7):
    return np.random.default_rng(seed).normal(size=shape)
