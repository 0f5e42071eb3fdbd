"""Posteriors given data rows: what minibatches can be drawn from."""

from collections.abc import Callable

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.checks import check_count, check_function
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.core.hyperparameters import check_reals
from xpsample.gradients.choices import Auto, GradientChoice
from xpsample.targets.bound import Rows
from xpsample.targets.target import Target

AUTO = Auto()


def posterior(
    log_prior: Callable[[Array], Array],
    log_likelihood: Callable[[Array, tree.Tree], Array],
    rows: tree.Tree,
    prior_score: Callable[[Array], Array] | None = None,
    likelihood_score: Callable[[Array, tree.Tree], Array] | None = None,
    gradient: GradientChoice = AUTO,
    sets: int = 0,
) -> Target:
    """log prior(x) + the sum over rows of log likelihood(x; row): an ordinary target, and one for `Minibatch`.

    Parameters
    ----------
    log_prior : callable
        ``(*chains, dim) -> (*chains)``.
    log_likelihood : callable
        ``(x, rows) -> (*chains)``, the sum over the rows that it is given. For minibatches its rows may be any number,
        the leaves of shape ``(rows, ...)`` or, with separate batches of the chains, ``(*chains, rows, ...)``.
    rows : tree of numpy.ndarray
        The data; every leaf has the rows on its first axis, after the axes of `sets`.
    prior_score, likelihood_score : callable, optional
        Their gradients in x, ``(*chains, dim)``; both or none.
    gradient : GradientChoice
        How the score is obtained when it was not given.
    sets : int
        Number of leading axes of every leaf for separate data sets: leaves ``(*sets, rows, ...)`` whose set axes
        broadcast against the chain axes, such as ``(groups, 1, rows, ...)`` for positions ``(groups, chains, dim)``.
        The chains of one group share their rows. 0: all chains have the same rows. `log_likelihood` receives whole
        data as leaves ``(*sets, rows, ...)``.

    Returns
    -------
    Target
        Takes positions of any library.

    Raises
    ------
    HyperparameterError
        If the leaves have different sets or numbers of rows, or none.
    CapabilityError
        If one of the two scores is missing.

    See Also
    --------
    Minibatch : Samples it by random rows.
    Model : A density of named parameters.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> rows = np.random.default_rng(0).normal(2.0, 1.0, size=(1000, 1))
    >>> target = xps.posterior(
    ...     lambda x: -0.5 * np.sum(x**2, axis=-1),  # the prior
    ...     lambda x, rows: -0.5 * np.sum((rows - x[..., None, :]) ** 2, axis=(-2, -1)),  # of the rows that it is given
    ...     rows,
    ...     prior_score=lambda x: -x,
    ...     likelihood_score=lambda x, rows: np.sum(rows - x[..., None, :], axis=-2),
    ... )
    >>> trace = xps.sample(target, xps.HMC(), np.random.default_rng(1).normal(size=(4, 1)), 1000, seed=1)
    >>> bool(abs(trace.draws.mean() - rows.sum() / 1001) < 0.01)
    True
    """
    for name, function in (("log_prior", log_prior), ("log_likelihood", log_likelihood)):
        check_function(name, function, "(x)" if name == "log_prior" else "(x, rows)")
    check_function("prior_score", prior_score, "(x)", optional=True)
    check_function("likelihood_score", likelihood_score, "(x, rows)", optional=True)
    sets = check_count("sets", sets, 0)
    for path, leaf in tree.items(rows):
        check_reals(f"rows {path!r}", leaf, "an array")
    shapes = {path: np.shape(leaf) for path, leaf in tree.items(rows)}
    fronts = {shape[: sets + 1] for shape in shapes.values()}
    if len(fronts) != 1 or any(len(front) <= sets or 0 in front for front in fronts):
        where = "the rows on its first axis" if sets == 0 else f"the same {sets} axes of sets, then the rows"
        raise HyperparameterError(f"every leaf of rows has {where}; got the shapes {shapes}")
    if (prior_score is None) != (likelihood_score is None):
        raise CapabilityError("pass both prior_score and likelihood_score, or neither")

    def log_density(x: Array, data: Rows) -> Array:
        return log_prior(x) + data.weight * log_likelihood(x, data.rows)

    def score(x: Array, data: Rows) -> Array:
        assert prior_score is not None
        assert likelihood_score is not None
        return prior_score(x) + data.weight[..., None] * likelihood_score(x, data.rows)

    given = None if prior_score is None else score
    return Target(log_density, score=given, gradient=gradient, data=Rows(rows, np.ones((1,) * sets)))
