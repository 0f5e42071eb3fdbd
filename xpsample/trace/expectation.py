"""Expectations by zero-variance control variates, from the draws of a run and the scores that it evaluated anyway."""

import math
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from xpsample.core.arrays import is_array
from xpsample.core.checks import check_function, check_instance, errors_of_functions, given
from xpsample.core.errors import CapabilityError, FunctionError, TraceError
from xpsample.core.registry import to_host
from xpsample.core.tree import Tree
from xpsample.diagnostics.convergence import mcse_mean
from xpsample.metrics.control_variates import GROUPS, MOST, corrected, squares
from xpsample.spaces.named import is_real
from xpsample.targets.bound import BoundTarget
from xpsample.trace.recorders import Recorder
from xpsample.trace.stored import StoredRows
from xpsample.trace.trace import Trace


class Scores(Recorder, eq=True):
    """The score at every kept position, (draw, *chains, dim), as the kernel evaluated it: no evaluation is added.

    On a `Model` it is the gradient in the unconstrained coordinates, as ``trace.draws`` are. Refused are kernels that
    evaluate none, and targets on which the mean of the score is not 0: with hard constraints, on discrete spaces, and
    where an acceptance of scores stands for the density.

    See Also
    --------
    expectation : What they are for.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.MALA(), x0, 1000, seed=1, recorders=[xps.Draws(), xps.Scores()])
    >>> bool(np.all(trace.recorded["scores"] == -trace.draws))
    True
    """

    name: str = field(default="scores", init=False)
    chain_axis: ClassVar[int | None] = 1

    def init(self, target: BoundTarget, state: Any) -> Tree:
        if not is_real(target.space):
            raise CapabilityError("Scores is for real positions: the mean of the score is not 0 on a discrete space")
        if target.constrained:
            raise CapabilityError(
                "Scores needs a target without hard constraints, since otherwise the mean of the score is not 0. Use a "
                "Model with a bounded space, such as Positive()."
            )
        if not target.acceptance.exact:
            raise CapabilityError(
                f"Scores needs draws by the log density, but {type(target.acceptance).__name__} replaces it, so the "
                "mean of the score is not quite 0. Omit acceptance."
            )
        if state.point.score is None:
            raise CapabilityError(
                "Scores records scores, but the kernel evaluates none. Use a kernel that does, such as HMC(), NUTS() "
                "or MALA()."
            )
        return None

    def update(self, target: BoundTarget, carry: Tree, state: Any, info: Any) -> tuple[Tree, Tree]:
        return None, state.point.score

    def result(self, target: BoundTarget, carry: Tree, rows: Tree) -> Any:
        return rows


class Expectation(NamedTuple):
    """An expectation with its Monte Carlo standard error, and the plain mean with its own: host arrays (*groups, ...).

    In the unit of the function's values; a standard error is nan where the values do not vary.
    """

    value: np.ndarray
    standard_error: np.ndarray
    plain: np.ndarray
    plain_standard_error: np.ndarray


def expectation(trace: Trace, function: Callable[[Any], Any]) -> Expectation:
    """The mean of a function under the target, with less error than the mean over the draws, from the same run.

    Subtracted from each value are polynomials of the draw and its score whose mean is 0: zero-variance control
    variates. Their coefficients for one quarter of the chains are fitted on the other three, with an order and a
    penalty that cross-validation chooses, or none. The estimate has no bias if the draws have none. It gains the
    more, the nearer the function is to a polynomial and the target to a normal one.

    Parameters
    ----------
    trace : Trace
        Trace of a run with ``recorders=(Draws(), Statistics(), Scores())``, on a kernel that leaves its target
        invariant, of four chains or more. Axes of chains but the last are groups, with an estimate each.
    function : callable
        ``function(p)`` of a model's parameters, or ``function(x)`` of positions, as in `Trace.map`: it is called once,
        for all draws, and gives ``(draw, *chains, ...)``, one number or more for each draw.

    Returns
    -------
    Expectation
        ``value`` and ``standard_error`` ``(*groups, ...)``, and the same of the plain mean. The error is that of the
        corrected values, from their own autocorrelation.

    Raises
    ------
    TraceError
        If the trace has no scores or no draws in memory, fewer than four chains or more than 1,000 coordinates, values
        that are not finite, or scores that do not fit the draws' distribution: if the mean of a score s or
        of ``1 + x s`` is more than eight standard errors from 0.
    CapabilityError
        If the kernel's mean score is not 0: unadjusted, tilted, on minibatches, of particles.
    FunctionError
        If the function gives anything else than a number for each draw.

    See Also
    --------
    Scores : The recorder.
    Trace.summary : Plain means.

    Notes
    -----
    Mira, Solgi and Imparato, Statistics and Computing 23 (2013) 653-662: for a polynomial P the mean of
    ``laplacian P + grad P . score`` is 0. The orders are 1, 2 without mixed terms, and 2, as long as there are no more
    than 1,000 coefficients; those are regularized as by South, Oates, Mira and Drovandi, Bayesian Analysis (2022).
    The choice minimizes the variance of the means of stretches of about ``sqrt(draws)`` draws. With more than 10,000
    draws, some are used for the fit.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum((x - 3) ** 2, axis=-1), score=lambda x: 3 - x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> recorders = (xps.Draws(), xps.Statistics(), xps.Scores())
    >>> trace = xps.sample(target, xps.HMC(), x0, 200, seed=1, recorders=recorders)
    >>> found = xps.expectation(trace, lambda x: x**2)
    >>> bool(np.all(abs(found.value - 10) < 1e-6)), bool(np.all(abs(found.plain - 10) < 1e-6))
    (True, False)
    """
    check_instance("trace", trace, Trace, "what sample returns")
    check_function("function", function, "(x)")
    x, scores = _positions_and_scores(trace)
    with errors_of_functions("the function failed on the draws"):
        values = trace.map(function)
    chains = x.shape[:-1]
    if not is_array(values) or tuple(values.shape[: len(chains)]) != chains:
        raise FunctionError(f"the function must give (draw, *chains, ...), for {chains}; got {given(values)}")
    host = to_host(values)
    if host.dtype.kind not in "biuf":
        raise FunctionError(f"the function must give real numbers; got {host.dtype}")
    groups, own = chains[1:-1], host.shape[len(chains) :]
    found = np.empty((4, *groups, math.prod(own)))
    flat = np.reshape(host.astype(np.float64), (*chains, math.prod(own)))
    for group in np.ndindex(*groups):
        at = (slice(None), *group)
        _check_means(x[at], scores[at])
        better = corrected(flat[at], x[at], scores[at])
        for k, each in enumerate((better, flat[at])):
            found[2 * k][group], found[2 * k + 1][group] = np.mean(each, axis=(0, 1)), mcse_mean(each)
    return Expectation(*np.reshape(found, (4, *groups, *own)))


def _positions_and_scores(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Unconstrained coordinates and scores on the host, (draw, *groups, chain, dim), once they are fit for use."""
    scores, x = trace.recorded.get("scores"), trace.draws
    if x is None or scores is None:
        raise TraceError("an expectation needs draws and scores: run again with recorders=(Draws(), Scores())")
    if isinstance(x, StoredRows):
        raise TraceError(f"an expectation takes all draws at once, and they are in {x.where}: keep them in memory")
    _check_kernel(trace)
    x, scores = (to_host(a).astype(np.float64) for a in (x, scores))
    if x.ndim < 3 or x.shape[-2] < GROUPS:
        raise TraceError(
            f"an expectation is fitted on other chains, and needs at least {GROUPS} in all; got draws "
            f"{x.shape}: run more chains, or use the means of trace.summary()"
        )
    if x.shape[-1] > MOST:
        raise TraceError(f"an expectation is for at most {MOST:,} coordinates; got {x.shape[-1]:,}")
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(scores))):
        raise TraceError("some draws or scores are not finite: see trace.diagnose()")
    return x, scores


def _check_kernel(trace: Trace) -> None:
    """Refuse the draws of kernels under which the mean of the score is not 0."""
    known, kernel = trace.metadata["diagnosis"], trace.metadata["kernel"].split("(")[0]
    if known["tilted"]:
        raise CapabilityError(
            f"{kernel} draws from tilted targets, under which the mean of the score is not 0: run the kernel inside "
            "it, whose draws an expectation corrects"
        )
    if not known.get("exact", True):
        raise CapabilityError(f"the scores of {kernel} are random estimates: run the kernel on the whole data")
    if not known["adjusted"]:
        raise CapabilityError(
            f"{kernel} does not leave its target invariant, so that the mean of the score is not 0: use a kernel that "
            "accepts or rejects, such as HMC(), NUTS() or MALA()"
        )


def _check_means(x: np.ndarray, scores: np.ndarray) -> None:
    """Refuse draws and scores (draw, chain, dim) unless ``s_i`` and ``1 + x_i s_i`` have the mean 0."""
    variates = squares(x - np.mean(x, axis=(0, 1)), scores)
    mean, error = np.mean(variates, axis=(0, 1)), mcse_mean(variates)
    constant = np.ptp(variates, axis=(0, 1)) == 0  # its error is nan, as with too few draws
    off = np.where(constant & (mean != 0), np.inf, np.abs(mean) / np.where(error > 0, error, np.inf))
    worst = int(np.argmax(off))
    if off[worst] > 8.0:  # standard errors
        order, i = divmod(worst, x.shape[-1])
        raise TraceError(
            f"the mean of {('s', '1 + x s')[order]} (s: score) of coordinate {i} is {mean[worst]:.3g}, "
            f"{off[worst]:.0f} standard errors from 0. Set burn_in, use a bounded space in a Model, or sample with "
            "check=True."
        )
