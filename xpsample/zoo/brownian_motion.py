"""A Brownian motion seen through noise, with a gap, both noise scales unknown: 32 parameters, 20 observations."""

from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.elementwise import sigmoid, softplus
from xpsample.core.errors import HyperparameterError
from xpsample.core.registry import namespace
from xpsample.targets.target import Target
from xpsample.zoo.data import load_dataset
from xpsample.zoo.moments import KnownMoments, long_run_moments

NAME = "targets/brownian_motion"
PRIOR_SD = 2.0


def brownian_motion(observed: np.ndarray | None = None) -> Target:
    """The posterior of two noise scales and of the path, ``BrownianMotionUnknownScalesMissingMiddleObservations``.

    ``scales ~ LogNormal(0, 2)``, ``l_1 ~ N(0, innovation^2)``, ``l_t ~ N(l_(t-1), innovation^2)`` and
    ``observed_t ~ N(l_t, observation^2)``. Positions (*chains, 2 + steps) are the innovation scale and the observation
    scale, each as ``log(exp(scale) - 1)``, then the path; see `brownian_parameters`.

    Parameters
    ----------
    observed : numpy.ndarray, shape (steps,), optional
        nan where nothing was observed. By default the data of TensorFlow Probability's Inference Gym.

    Returns
    -------
    Target
        With its score. Takes positions of any library.
    """
    observed = load_dataset(NAME)["observed"] if observed is None else np.asarray(observed, dtype=np.float64)
    if observed.ndim != 1 or not len(observed):
        raise HyperparameterError(f"observed has shape (steps,); got {observed.shape}")
    seen = ~np.isnan(observed)
    steps, count = len(observed), int(np.sum(seen))
    data = {"observed": np.where(seen, observed, 0.0), "seen": seen.astype(np.float64)}

    def parts(x: Array, data: Any) -> tuple[Any, Array, Array, Array, Array]:
        """Namespace, the two scales (*chains, 2), their logarithms, the path's steps, the residuals."""
        xp, path = namespace(x), x[..., 2:]
        scales = softplus(xp, x[..., :2])
        steps = path - xp.concat([xp.zeros_like(path[..., :1]), path[..., :-1]], axis=-1)
        return xp, scales, xp.log(scales), steps, data["seen"] * (data["observed"] - path)

    def log_density(x: Array, data: Any) -> Array:
        xp, scales, logs, moves, residuals = parts(x, data)
        prior = xp.sum(-logs - 0.5 * (logs / PRIOR_SD) ** 2 - softplus(xp, -x[..., :2]), axis=-1)
        walk = -steps * logs[..., 0] - 0.5 * xp.sum(moves * moves, axis=-1) / scales[..., 0] ** 2
        return prior + walk - count * logs[..., 1] - 0.5 * xp.sum(residuals**2, axis=-1) / scales[..., 1] ** 2

    def score(x: Array, data: Any) -> Array:
        xp, scales, logs, moves, residuals = parts(x, data)
        squares = xp.stack([xp.sum(moves * moves, axis=-1), xp.sum(residuals**2, axis=-1)], axis=-1)
        counts = xp.stack([xp.full_like(x[..., 0], steps), xp.full_like(x[..., 0], count)], axis=-1)
        slope = (squares / scales**2 - counts - 1.0 - logs / PRIOR_SD**2) / scales
        p = sigmoid(xp, x[..., :2])  # the derivative of the scale
        pull = moves / scales[..., :1] ** 2
        back = xp.concat([pull[..., 1:], xp.zeros_like(pull[..., :1])], axis=-1) - pull
        return xp.concat([slope * p + 1.0 - p, back + residuals / scales[..., 1:] ** 2], axis=-1)

    return Target(log_density, score=score, data=data)


def brownian_parameters(x: Array) -> Array:
    """From positions (*chains, 2 + steps) to innovation scale, observation scale and path."""
    xp = namespace(x)
    return xp.concat([softplus(xp, x[..., :2]), x[..., 2:]], axis=-1)


def brownian_moments() -> KnownMoments:
    """Of `brownian_parameters` for the default data, from a long run.

    The moments that the Inference Gym publishes for this posterior are not those of these data: the mean of the
    observation scale is off by a third of its standard deviation.
    """
    return long_run_moments("brownian-motion")
