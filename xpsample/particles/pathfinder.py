"""Pathfinder: Gaussians along the path to a mode (Zhang, Carpenter, Gelman & Vehtari 2022)."""

import math
from typing import Any

import numpy as np

from xpsample.core.arrays import Array, Tree
from xpsample.core.covariance import LowRankCovariance
from xpsample.core.registry import compiled, to_host
from xpsample.densities.real import normal
from xpsample.gradients.choices import Evaluations
from xpsample.optimize.lbfgs import Ascent, Curvature, chosen, climb
from xpsample.particles.gaussians import (
    NORMALS_OF_PATHS,
    ByGaussians,
    Gaussians,
    ascent,
    lower_bound,
    normals_like,
)
from xpsample.targets.bound import BoundTarget

LOOKS = 10  # Draws from each Gaussian of a path that tell which is best


class Pathfinder(ByGaussians, eq=True):
    """Start positions by Pathfinder: weighted draws from the best Gaussians along the paths to modes.

    From each of some random starts L-BFGS climbs the log density. Each point x of a path, with the inverse Hessian H
    that the path has learned so far, gives a Gaussian of mean ``x + H score(x)`` and covariance H. The Gaussian with
    the largest evidence lower bound, from 10 draws, is the path's (Algorithm 1 of [1]_). Start positions are draws from
    the Gaussians of all paths, chosen by their weights (Algorithm 2). A path need not end at a mode, and there need be
    none.

    Parameters
    ----------
    paths : int
        How many `start` begins. More find more of several modes.
    steps : int
        The most of a path: one that goes up without end stops there.
    history : int
        Number of moves of a path from which H is built: H has its diagonal and up to twice as many directions.
    draws : int
        From the Gaussians, all together. `start` takes ten for each chain where that is more.

    See Also
    --------
    Laplace : Gaussians at the modes.
    start : Takes it as its `method`.

    Notes
    -----
    It differs from the paper. A draw's weight is the target's density divided by the density of the mixture of all
    Gaussians, not of the Gaussian it came from: two modes then have their correct shares, regardless of how many paths
    found each. No draw is chosen twice: chains are apart even where few draws have all the weight. L-BFGS moves by the
    same H that the Gaussians have, whose diagonal is the paper's. All Gaussians of a path are compared on the same
    normals.

    References
    ----------
    .. [1] Zhang, Carpenter, Gelman & Vehtari (2022), "Pathfinder: Parallel quasi-Newton variational inference",
       Journal of Machine Learning Research 23.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> scales = np.array([0.1, 1.0, 20.0])
    >>> target = xps.Target(lambda x: -0.5 * np.sum((x / scales) ** 2, axis=-1), score=lambda x: -x / scales**2)
    >>> x0 = xps.start(target, np.ones(3), chains=4, seed=0, method=xps.Pathfinder())
    >>> x0.shape
    (4, 3)
    >>> found = xps.Pathfinder().fit(target, xps.start(target, np.ones(3), 8, seed=0), seed=0)
    >>> bool(found.k_hat < 0.7)
    True
    """

    def _gaussians(self, bound: BoundTarget, x: Array, seed: int) -> tuple[Gaussians, Evaluations]:
        xp = bound.xp

        def path(x: Array, normals: Array, data: Tree) -> tuple[Gaussians, Array, Array]:
            target = bound.with_data(data)

            def see(at: Ascent, h: LowRankCovariance, moved: Array, seen: tuple[Gaussians, Array]) -> Any:
                best, looked = seen
                mean = at.x + h.product(at.score)
                log_scale = xp.sum(xp.log(h.sd), axis=-1) + 0.5 * xp.sum(xp.log(h.values), axis=-1)
                log_p = target.log_density(mean + h.root(normals))
                elbo = lower_bound(xp, log_p, xp.sum(normal(normals, 0.0, 1.0), axis=-1) - log_scale)
                now = Gaussians(mean, (h.sd, h.vectors, h.values), log_scale, elbo)
                return chosen(xp, moved & (elbo > best.elbo), now, best), looked + xp.astype(moved, looked.dtype)

            h, none = Curvature.none(xp, x, self.history).inverse_hessian(xp), xp.zeros_like(x[..., 0])
            begun = Gaussians(x, (h.sd, h.vectors, h.values), none, none - math.inf)
            count = xp.astype(none, xp.int32)
            _, endless, tried, (best, looked) = climb(
                bound.backend, ascent(target), x, self.steps, self.history, see, (begun, count)
            )
            return best._replace(elbo=xp.where(endless, -math.inf, best.elbo)), tried, looked

        normals = normals_like(x, (x.shape[0], LOOKS), seed, NORMALS_OF_PATHS)
        best, tried, looked = compiled(bound.backend, path)(x, normals, bound.data)
        tried, looked = (int(np.sum(to_host(a))) for a in (tried, looked))
        return best, bound.costs.evaluate.times(tried).plus(bound.costs.log_density.times(LOOKS * looked))
