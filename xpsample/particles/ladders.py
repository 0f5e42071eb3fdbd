"""Ladders: the sequences of inverse temperatures, or of noise levels, that particles go through."""

from itertools import pairwise

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.checks import check_count, check_instance, check_number, check_numbers
from xpsample.core.declared import Numbers
from xpsample.core.errors import HyperparameterError
from xpsample.core.registry import to_host
from xpsample.core.tree import dtype_name
from xpsample.kernels.tempering_state import TemperingState
from xpsample.targets.bound import BoundTarget


def geometric_ladder(rungs: int, hottest: float) -> tuple[float, ...]:
    """Inverse temperatures ``hottest^(k / (rungs - 1))`` for k = 0 .. rungs - 1, from 1 to `hottest`.

    Parameters
    ----------
    rungs : int
        At least 2.
    hottest : float
        Between 0 and 1.

    See Also
    --------
    annealing_ladder : For importance sampling.
    ParallelTempering : Takes the ladder.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> np.round(xps.geometric_ladder(4, 0.001), 3)
    array([1.   , 0.1  , 0.01 , 0.001])
    """
    rungs, hottest = check_count("rungs", rungs, 2), check_number("hottest", hottest, 0, 1, below=True)
    return tuple(hottest ** (k / (rungs - 1)) for k in range(rungs))


def annealing_ladder(state: TemperingState, rungs: int) -> tuple[float, ...]:
    """Inverse temperatures from 0 to 1 for `AIS` and `TemperedSMC`, estimated from a run of parallel tempering.

    They are equal parts of the communication barrier, linear between the rungs of the tempering's ladder. If log
    density ratios are normal, the log weights then change by the same standard deviation at every step.

    Parameters
    ----------
    state : TemperingState
        State of a run whose ladder ended in 0, on the same target (a `Bridge`, or on a finite space).
    rungs : int
        At least 2; as many as annealing makes steps, and one.

    Raises
    ------
    HyperparameterError
        If the ladder of the run did not end in 0.

    See Also
    --------
    geometric_ladder : Equal ratios.
    AIS : Takes the ladder.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> wide = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1) / 9, score=lambda x: -x / 9)
    >>> narrow = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> kernel = xps.ParallelTempering(xps.MALA(), xps.Ladder(hottest=0))
    >>> trace = xps.sample(xps.Bridge(wide, narrow), kernel, np.zeros((8, 2)), 300, seed=1, recorders=())
    >>> betas = xps.annealing_ladder(trace.state, 20)
    >>> betas[0], betas[-1]
    (0.0, 1.0)
    """
    check_instance("state", state, TemperingState, "trace.state of a ParallelTempering run")
    rungs, betas = check_count("rungs", rungs, 2), to_host(state.betas).astype(np.float64).ravel()
    if betas[-1] != 0:
        raise HyperparameterError(
            f"the ladder of the run ends in {betas[-1]:.3g}, and annealing begins with 0: temper a Bridge, or on a "
            "finite space, by Ladder(hottest=0)"
        )
    barrier = to_host(state.barrier).astype(np.float64)
    inner = np.interp(np.linspace(barrier[-1], 0.0, rungs), barrier, betas)[1:-1]
    return 0.0, *map(float, inner), 1.0


def check_ladder(name: str, betas: Numbers) -> tuple[float, ...]:
    """Inverse temperatures as numbers; raises HyperparameterError unless they go from 0 to 1 and never decrease."""
    ladder = check_numbers(name, betas, least=2)
    if ladder[0] != 0 or ladder[-1] != 1 or any(b > c for b, c in pairwise(ladder)):
        raise HyperparameterError(f"{name} must go from 0 to 1 and never decrease; got {ladder}")
    return ladder


def ladder_array(target: BoundTarget, betas: Numbers, x: Array) -> Array:
    """Inverse temperatures as an array (rungs,) in the library, on the device and in the floating dtype of x."""
    return target.backend.from_host(np.asarray(betas, dtype=dtype_name(target.as_floating(x))), x)
