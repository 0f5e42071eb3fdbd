"""Evidence from parallel tempering: the normalizing constant along the ladder, with its error.

Sources: Xie, Lewis, Fan, Kuo & Chen (2011) for stepping stones; Gelman & Meng (1998) for thermodynamic integration,
with the correction to the trapezoidal rule of Friel, Hurn & Wyse (2014).
"""

import math
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.checks import check_instance, check_number
from xpsample.core.errors import CapabilityError, HyperparameterError, TraceError
from xpsample.core.registry import to_host
from xpsample.core.tree import Tree
from xpsample.diagnostics.convergence import mcse_mean
from xpsample.kernels.tempering_state import TemperingState
from xpsample.particles.errors import error_holds
from xpsample.particles.weights import LogNormalizer
from xpsample.targets.bound import BoundTarget
from xpsample.targets.bridge import log_density_ratio
from xpsample.trace.recorders import Recorder
from xpsample.trace.stored import StoredRows
from xpsample.trace.trace import Trace

INSIDE = "inside which the rung at beta = 0 stays, so its normalizing constant is not the initial target's"

OFTEN = 1e-3  # Share of the steps in which a proposal may have a density that is not finite


class RungDensities(NamedTuple):
    """The ladder (rungs,), and the log density of every rung's position, (draw, *chains, rungs).

    Not tempered; on a `Bridge`, minus the log density of its initial target.
    """

    betas: Array
    log_density: Array


class Rungs(Recorder, eq=True):
    """The log density on every rung of parallel tempering, as `RungDensities`: no evaluation is added.

    See Also
    --------
    tempering_log_normalizer : What they are for.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> kernel = xps.ParallelTempering(xps.MALA(0.5), (1.0, 0.5, 0.25))
    >>> trace = xps.sample(target, kernel, np.zeros((4, 2)), 100, seed=1, recorders=[xps.Draws(), xps.Rungs()])
    >>> trace.recorded["rungs"].log_density.shape
    (100, 4, 3)
    """

    name: str = field(default="rungs", init=False)

    def init(self, target: BoundTarget, state: Any) -> Tree:
        if not isinstance(state, TemperingState):
            raise CapabilityError(f"Rungs records ParallelTempering; the state is a {type(state).__name__}")
        if not target.acceptance.exact:
            raise CapabilityError(
                f"Rungs needs a log density, for which {type(target.acceptance).__name__} stands here"
            )
        if target.constrained:
            raise CapabilityError(
                f"Rungs is for targets without hard constraints, {INSIDE}. Use TemperedSMC or AIS, or a Model whose "
                "parameters have bounded spaces, such as Positive()"
            )
        return state.betas

    def update(self, target: BoundTarget, carry: Tree, state: Any, info: Any) -> tuple[Tree, Tree]:
        ratio = log_density_ratio(target, state.base.point.base)
        return state.betas, target.xp.moveaxis(ratio, 0, -1)

    def result(self, target: BoundTarget, carry: Tree, rows: Tree) -> RungDensities:
        return RungDensities(target.xp.reshape(carry, (-1,)), rows)


class TemperingLogNormalizer(NamedTuple):
    """The same log normalizing constant by two estimates, each a `LogNormalizer` of arrays (*groups).

    ``weight_ess`` is the smallest effective sample size of the stepping stones' weights, as if draws were independent.
    """

    stepping_stones: LogNormalizer
    thermodynamic: LogNormalizer


def tempering_log_normalizer(trace: Trace, initial_log_normalizer: float = 0.0) -> TemperingLogNormalizer:
    """The target's log normalizing constant, its evidence, from a run of parallel tempering down to beta = 0.

    Parameters
    ----------
    trace : Trace
        Trace of `ParallelTempering` with a ladder that ends in 0, on a `Bridge` or on a finite space, with the recorder
        `Rungs`. All chain axes but the last are groups, with an estimate each.
    initial_log_normalizer : float
        log of the integral (or sum) of the density at beta = 0: of the bridge's initial target, or the log of the
        number of states. The target's density must be positive wherever that one is.

    Returns
    -------
    TemperingLogNormalizer
        ``stepping_stones`` is the sum of the logs of the mean weights from each rung to the next colder one. It is
        consistent on every ladder and recommended. ``thermodynamic`` is the integral of the mean log density along the
        ladder, by the trapezoidal rule with a correction by the variances, whose size is added to the standard error
        for the error of the rule if rungs are far apart. Standard errors refer to the whole sum, from its
        autocorrelation along the chains. The standard error of the stepping stones is infinite if a rung's weights do
        not determine it, as in `log_normalizer`.

    Raises
    ------
    HyperparameterError
        If the ladder does not end in 0.
    TraceError
        If the run did not record `Rungs`, was sharded (each shard has a separate ladder), or diverged in more than a
        thousandth of its steps: no rung has visited regions of density 0.
    CapabilityError
        If the kernel inside does not leave its target invariant.

    See Also
    --------
    particle_log_normalizer : Of particles along the same path.
    log_normalizer : Of independent chains along it.

    Notes
    -----
    Xie et al., Systematic Biology 60 (2011) 150-160; Gelman and Meng, Statistical Science 13 (1998) 163-185; Friel,
    Hurn and Wyse, Statistics and Computing 24 (2014) 709-723.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> wide = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1) / 9, score=lambda x: -x / 9)
    >>> narrow = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> kernel, x0 = xps.ParallelTempering(xps.MALA(), xps.Ladder(hottest=0)), np.zeros((8, 2))
    >>> recorders = [xps.Draws(), xps.Rungs()]
    >>> trace = xps.sample(xps.Bridge(wide, narrow), kernel, x0, 1000, seed=1, burn_in=100, recorders=recorders)
    >>> found = xps.tempering_log_normalizer(trace).stepping_stones  # of the ratio of the two constants, 1 / 9
    >>> bool(abs(found.value - np.log(1 / 9)) < 4 * found.standard_error)
    True
    """
    check_instance("trace", trace, Trace, "the trace of a ParallelTempering run")
    initial_log_normalizer = check_number("initial_log_normalizer", initial_log_normalizer)
    betas, density = _along_the_ladder(trace)
    # (draw, chain, *groups, pair): log weights from the hotter rung of each pair to the colder one, of both its rungs.
    steps = betas[:-1] - betas[1:]
    cold, hot = steps * density[..., :-1], steps * density[..., 1:]
    together = trace.metadata["diagnosis"].get("ensembles", False)
    both = _stepping_stones(hot, together), _thermodynamic(cold, hot, together)
    return TemperingLogNormalizer(*(found._replace(value=found.value + initial_log_normalizer) for found in both))


def _along_the_ladder(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """The ladder, and the log densities (draw, chain, *groups, rungs) on the host, once they are fit for use."""
    found = trace.recorded.get("rungs")
    if "shards" in trace.metadata:
        raise TraceError("each shard of a run has a separate ladder. Run without shards.")
    if found is None:
        raise TraceError("the run recorded no densities of its rungs: run again with recorders=(Draws(), Rungs())")
    if not trace.metadata["diagnosis"]["adjusted"]:
        raise CapabilityError(
            "the kernel inside ParallelTempering does not leave its target invariant. Use one that accepts or rejects."
        )
    diverged = np.mean(trace.run_statistics.diverged) / max(trace.run_statistics.steps, 1)
    if diverged > OFTEN:
        raise TraceError(
            f"{diverged:.1%} of the steps diverged. If that is at a hard bound, {INSIDE}, use TemperedSMC or AIS, "
            "or bounded spaces; otherwise use smaller steps."
        )
    betas = to_host(found.betas).astype(np.float64)
    if betas[-1] != 0:
        raise HyperparameterError(
            f"the ladder of the run ends in {betas[-1]:.3g}, where no normalizing constant is known: temper a Bridge, "
            "or on a finite space, by Ladder(hottest=0)"
        )
    rows = found.log_density
    density = (np.asarray(rows) if isinstance(rows, StoredRows) else to_host(rows)).astype(np.float64)
    return betas, np.moveaxis(density[:, None] if density.ndim == 2 else density, -2, 1)


def _stepping_stones(logs: np.ndarray, together: bool) -> LogNormalizer:
    """From log weights (draw, chain, *groups, pair)."""
    top = np.max(logs, axis=(0, 1))
    weights = np.exp(logs - top)
    mean = np.mean(weights, axis=(0, 1))
    value, error = np.sum(np.log(mean) + top, axis=-1), _error(np.sum(weights / mean, axis=-1), together)
    ess = np.min(np.sum(weights, axis=(0, 1)) ** 2 / np.sum(weights**2, axis=(0, 1)), axis=-1)
    for group in np.ndindex(value.shape):
        pairs = np.reshape(logs[(slice(None), slice(None), *group)], (-1, logs.shape[-1])).T
        if not all(map(error_holds, pairs)):
            error[group] = math.inf
    return LogNormalizer(value[()], error[()], ess[()])


def _thermodynamic(cold: np.ndarray, hot: np.ndarray, together: bool) -> LogNormalizer:
    """From the log weights of the colder and of the hotter rung of each pair, (draw, chain, *groups, pair)."""
    squares = [(a - np.mean(a, axis=(0, 1))) ** 2 for a in (cold, hot)]
    correction = np.sum(squares[1] - squares[0], axis=-1) / 12
    series = np.sum(cold + hot, axis=-1) / 2 + correction
    error = np.hypot(_error(series, together), np.mean(correction, axis=(0, 1)))
    return LogNormalizer(np.mean(series, axis=(0, 1))[()], error[()], np.nan)


def _error(series: np.ndarray, together: bool) -> np.ndarray:
    """Standard errors (*groups) of the means of series (draw, chain, *groups), whose chains are an ensemble or not."""
    groups = series.shape[2:]
    series = np.mean(series, axis=1, keepdims=True) if together else series
    return np.reshape(mcse_mean(np.reshape(series, (*series.shape[:2], -1))), groups)
