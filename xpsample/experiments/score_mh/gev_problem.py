"""The generalized extreme value distribution (Score-MH, Appendix B), with its score, hvp, and exact draws."""

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.targets.target import Target


def gev(shape: float | np.ndarray, location: float | np.ndarray = 0.0, scale: float | np.ndarray = 1.0) -> Target:
    """GEV(location, scale, shape), normalized, independently in each coordinate.

    With z = (x - location) / scale, t = 1 + shape z and w = log(t) / shape (z for shape 0) the log density is
    ``-log scale - (1 + shape) w - exp(-w)`` if t > 0, otherwise -inf.

    Parameters
    ----------
    shape : float or numpy.ndarray
        xi: the upper tail is heavy for xi > 0 (Frechet), exponential for xi = 0 (Gumbel), bounded for xi < 0 (Weibull).
        SciPy's ``genextreme`` has c = -xi. Arrays broadcast against the chain axes.
    location, scale : float or numpy.ndarray
        mu and sigma > 0, in units of x.

    Returns
    -------
    Target
        Takes positions (*chains, dim) of any library. Outside of the support score and hvp are nan: an adjusted kernel
        rejects such a proposal, and an unadjusted chain that leaves the support is frozen at its last point in it.

    Raises
    ------
    HyperparameterError
        If a parameter is not finite, or a scale not positive.
    """
    given = {"shape": shape, "location": location, "scale": scale}
    data = {name: np.asarray(value, dtype=np.float64)[..., None] for name, value in given.items()}
    for name, value in data.items():
        if not np.all(np.isfinite(value)) or (name == "scale" and not np.all(value > 0)):
            positive = "positive and " if name == "scale" else ""
            raise HyperparameterError(f"{name} must be {positive}finite; got {value[..., 0]}")
    return Target(_log_density, score=_score, hvp=_hvp, data=data, constrained=True)


def gev_quantile(
    probability: float | np.ndarray,
    shape: float | np.ndarray,
    location: float | np.ndarray = 0.0,
    scale: float | np.ndarray = 1.0,
) -> np.ndarray:
    """The inverse of the distribution function, on the host: uniforms in (0, 1) to exact draws. Arguments broadcast.

    ``location + scale (exp(shape w) - 1) / shape`` with ``w = -log(-log probability)``.
    """
    w = -np.log(-np.log(np.asarray(probability, dtype=np.float64)))
    xi = np.asarray(shape, dtype=np.float64)
    flat = xi == 0
    z = np.where(flat, w, np.expm1(xi * w) / np.where(flat, 1.0, xi))
    return np.asarray(location + scale * z)


def _parts(x: Array, data: Any) -> tuple[Any, Array, Array, Array]:
    """Namespace, whether x is in the support, t and w there (1 and 0 outside), (*chains, dim)."""
    xp, xi = array_namespace(x), data["shape"]
    z = (x - data["location"]) / data["scale"]
    inside = 1.0 + xi * z > 0
    z = xp.where(inside, z, xp.zeros_like(z))
    flat = xi == 0
    safe = xp.where(flat, xp.ones_like(xi), xi)
    # log1p keeps w exact for shapes near 0.
    return xp, inside, 1.0 + xi * z, xp.where(flat, z, xp.log1p(xi * z) / safe)


def _log_density(x: Array, data: Any) -> Array:
    xp, inside, _, w = _parts(x, data)
    each = -xp.log(data["scale"]) - (1.0 + data["shape"]) * w - xp.exp(-w)
    return xp.sum(xp.where(inside, each, xp.full_like(each, -xp.inf)), axis=-1)


def _score(x: Array, data: Any) -> Array:
    xp, inside, t, w = _parts(x, data)
    each = (xp.exp(-w) - (1.0 + data["shape"])) / (data["scale"] * t)
    return xp.where(inside, each, xp.full_like(each, xp.nan))


def _hvp(x: Array, v: Array, data: Any) -> Array:
    xp, inside, t, w = _parts(x, data)
    xi, scale = data["shape"], data["scale"]
    each = (1.0 + xi) * (xi - xp.exp(-w)) / (scale * t) ** 2
    return v * xp.where(inside, each, xp.full_like(each, xp.nan))
