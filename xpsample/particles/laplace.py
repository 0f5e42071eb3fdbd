"""Laplace's method: Gaussians at the modes, with the curvature there."""

import math
from typing import ClassVar

import numpy as np
from array_api_compat import device as device_of

from xpsample.core.arrays import Array, Tree
from xpsample.core.registry import compiled, to_host
from xpsample.gradients.choices import Evaluations
from xpsample.optimize.lbfgs import Ascent, climb
from xpsample.particles.gaussians import ByGaussians, Gaussians, ascent
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability

NEAR = 0.1  # A path has led to a mode where a Newton step from its end would raise the log density by no more


class Laplace(ByGaussians, eq=True):
    """Start positions by Laplace's method: weighted draws from Gaussians at the modes.

    L-BFGS climbs the log density from each of some random starts. If a path ends at a mode, its Gaussian has the mode
    as its mean (one Newton step from the end, to be exact) and the inverse of the negative Hessian there as its
    covariance. This requires dim Hessian-vector products, and dim^2 numbers for each path. A path whose end is no mode
    is discarded: for a density that rises without end, such as a hierarchical model's in its scale, use `Pathfinder`.

    With `fit` it gives the mode, and a covariance for `RWM`, `MALA` or `IndependentMH`, its inverse for ``HMC(mass=)``,
    and a first evidence, ``log_normalizer``, by the weights of the draws.

    Parameters
    ----------
    paths : int
        How many `start` begins. More find more of several modes.
    steps : int
        The most of a path.
    history : int
        Moves that L-BFGS goes by.
    draws : int
        From the Gaussians, all together. `start` takes ten for each chain where that is more.

    See Also
    --------
    Pathfinder : Gaussians along the paths, which need no mode and no Hessian.
    start : Uses it as its `method`.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> scales = np.array([0.1, 1.0, 20.0])
    >>> target = xps.Target(
    ...     lambda x: -0.5 * np.sum((x / scales) ** 2, axis=-1),
    ...     score=lambda x: -x / scales**2,
    ...     hvp=lambda x, v: -v / scales**2,
    ... )
    >>> found = xps.Laplace().fit(target, xps.start(target, np.ones(3), 8, seed=0), seed=0)
    >>> np.round(found.covariance, 6)
    array([[1.e-02, 0.e+00, 0.e+00],
           [0.e+00, 1.e+00, 0.e+00],
           [0.e+00, 0.e+00, 4.e+02]])
    """

    requires: ClassVar[Capability] = ByGaussians.requires | Capability.HVP

    def _gaussians(self, bound: BoundTarget, x: Array, seed: int) -> tuple[Gaussians, Evaluations]:
        paths, _, dim = x.shape

        def path(x: Array, data: Tree) -> tuple[Ascent, Array, Array]:
            target, xp, rows = bound.with_data(data), bound.xp, (paths, dim, dim)
            at, _, tried, _ = climb(
                bound.backend, ascent(target), x, self.steps, self.history, lambda at, h, moved, seen: seen, ()
            )
            each = xp.eye(dim, dtype=x.dtype, device=device_of(x))
            hessian = target.hvp(xp.broadcast_to(at.x, rows), xp.broadcast_to(each, rows))
            return at, hessian, tried

        at, hessian, tried = compiled(bound.backend, path)(x, bound.data)
        spent = bound.costs.evaluate.times(int(np.sum(to_host(tried))))
        found = _at_modes(*(to_host(a).astype(np.float64) for a in (at.x, at.score, hessian)))
        dtype, home = to_host(x).dtype, bound.backend
        mean, root, log_scale, none = (home.from_host(a.astype(dtype), x) for a in found)
        return Gaussians(mean, (root,), log_scale, none), spent.plus(bound.costs.hvp.times(paths * dim))


def _at_modes(x: np.ndarray, score: np.ndarray, hessian: np.ndarray) -> tuple[np.ndarray, ...]:
    """Means, roots of the covariances, halves of their log determinants, and 0 for the paths that end at a mode,
    otherwise -inf. On the host, in float64.
    """
    precision = -0.5 * (hessian + np.swapaxes(hessian, -1, -2))
    squares = np.diagonal(precision, axis1=-2, axis2=-1)
    fine = np.all(np.isfinite(precision), axis=(-2, -1)) & np.all(squares > 0, axis=-1)
    sd = 1 / np.sqrt(np.where(fine[:, None], squares, 1.0))[:, None, :]
    one = np.eye(x.shape[-1])
    values, axes = np.linalg.eigh(np.where(fine[:, None, None], precision * sd * np.swapaxes(sd, -1, -2), one))
    fine &= np.all(values > 0, axis=-1)
    values = np.where(values > 0, values, 1.0)[:, None, :]
    root = np.swapaxes(sd, -1, -2) * ((axes / np.sqrt(values)) @ np.swapaxes(axes, -1, -2))
    step = (score @ root) @ np.swapaxes(root, -1, -2)
    fine &= 0.5 * np.sum(score * step, axis=-1)[:, 0] <= NEAR
    log_scale = np.sum(np.log(sd), axis=-1) - 0.5 * np.sum(np.log(values), axis=-1)
    return x + step, root, log_scale, np.where(fine[:, None], 0.0, -math.inf)
