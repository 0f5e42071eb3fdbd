"""Logistic regression for JAX."""

import jax
import jax.numpy as jnp


def log_density(x, rows):
    return jnp.sum(jax.nn.log_sigmoid(x @ rows.T), axis=-1) - 0.5 * jnp.sum(x * x, axis=-1)


def score(x, rows):
    return _along(jax.nn.sigmoid(-(x @ rows.T)), rows.T) - x


def both(x, rows):
    margin = x @ rows.T
    small = jnp.exp(-jnp.abs(margin))
    log_sigmoid = jnp.minimum(margin, 0) - jnp.log1p(small)
    sigmoid_of_minus = jnp.where(margin < 0, 1, small) / (1 + small)
    return jnp.sum(log_sigmoid, axis=-1) - 0.5 * jnp.sum(x * x, axis=-1), _along(sigmoid_of_minus, rows.T) - x


def _along(a, columns):
    """``a @ columns.T`` as sums along the rows of `columns`: with few chains a third of the time."""
    return jnp.tensordot(a, columns, axes=(-1, 1))
