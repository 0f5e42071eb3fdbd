"""Posteriors given data rows: what minibatches can be drawn from."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xpsample import tree
from xpsample.backend import Array
from xpsample.errors import CapabilityError, HyperparameterError
from xpsample.gradients.choices import Auto, GradientChoice
from xpsample.targets.target import Target

AUTO = Auto()


class Rows(NamedTuple):
    """Data rows, a tree of arrays with the rows on the first axis, and the weight (0-d) of their log likelihood."""

    rows: tree.Tree
    weight: Any


def posterior(
    log_prior: Callable[[Array], Array],
    log_likelihood: Callable[[Array, tree.Tree], Array],
    rows: tree.Tree,
    prior_score: Callable[[Array], Array] | None = None,
    likelihood_score: Callable[[Array, tree.Tree], Array] | None = None,
    gradient: GradientChoice = AUTO,
) -> Target:
    """log prior(x) + the sum over rows of log likelihood(x; row): an ordinary target, and one for `Minibatch`.

    Parameters
    ----------
    log_prior : callable
        ``(*chains, dim) -> (*chains)``.
    log_likelihood : callable
        ``(x, rows) -> (*chains)``, the sum over the rows that it is given. For minibatches its rows may be any number,
        the leaves of shape ``(rows, ...)`` or, with a batch of its own for each chain, ``(*chains, rows, ...)``.
    rows : tree of numpy.ndarray
        The data; every leaf has the rows on its first axis.
    prior_score, likelihood_score : callable, optional
        Their gradients in x, ``(*chains, dim)``; both or none.
    gradient : GradientChoice
        How the score is obtained when it was not given.

    Returns
    -------
    Target
        Takes positions of any library.

    Raises
    ------
    HyperparameterError
        If the leaves have different numbers of rows, or none.
    CapabilityError
        If one of the two scores is missing.
    """
    shapes = {path: np.shape(leaf) for path, leaf in tree.items(rows)}
    counts = {shape[0] if shape else 0 for shape in shapes.values()}
    if len(counts) != 1 or 0 in counts:
        raise HyperparameterError(f"every leaf of rows has the rows on its first axis; got the shapes {shapes}")
    if (prior_score is None) != (likelihood_score is None):
        raise CapabilityError("pass both prior_score and likelihood_score, or neither")

    def log_density(x: Array, data: Rows) -> Array:
        return log_prior(x) + data.weight * log_likelihood(x, data.rows)

    def score(x: Array, data: Rows) -> Array:
        assert prior_score is not None
        assert likelihood_score is not None
        return prior_score(x) + data.weight * likelihood_score(x, data.rows)

    given = None if prior_score is None else score
    return Target(log_density, score=given, gradient=gradient, data=Rows(rows, np.asarray(1.0)))
