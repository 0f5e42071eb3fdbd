"""Score matching: losses whose minimum is the score of the data (Score-MH, Section 3.1)."""

from collections.abc import Callable, Mapping

import numpy as np
from array_api_compat import array_namespace
from array_api_compat import device as device_of

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.checks import check_count, check_number
from xpsample.core.fields import FrozenDataclass, count, function, number, numbers
from xpsample.core.specs import Normal, Specs, Uniform
from xpsample.particles.batches import take_rows
from xpsample.score_mh.derivatives import transposed_jacobian_product
from xpsample.score_mh.losses import TrainingLoss, per_row, shaped, squares
from xpsample.score_mh.networks import conditional_score_network, score_network


class ExactTrace(TrainingLoss, FrozenDataclass, eq=True):
    """``E [|s(x)|^2 / 2 + tr J(x)]`` (Eq. 2; Hyvarinen 2005), with J the Jacobian of s; dim derivatives of s a row.

    Parameters
    ----------
    network : callable
        ``s(x, parameters)``, (*rows, dim) to the same.
    """

    network: Callable[..., Array] = function("(x, parameters)", default=score_network)

    def noise(self, rows: int, dim: int) -> Specs:
        return {}

    def __call__(
        self, parameters: tree.Tree, x: Array, noise: Mapping[str, Array], constants: tree.Tree, progress: Array
    ) -> Array:
        xp, dim = array_namespace(x), x.shape[-1]
        directions = xp.eye(dim, dtype=x.dtype, device=device_of(x))[:, None, :]
        return _implicit(self.network, parameters, x, xp.broadcast_to(directions, (dim, *x.shape)), float(dim))


class Sliced(TrainingLoss, FrozenDataclass, eq=True):
    """``E [|s(x)|^2 / 2 + v' J(x) v]`` with v standard normal (Eq. 3; Song, Garg, Shi & Ermon 2019).

    Parameters
    ----------
    projections : int
        Directions v for each row; the second term is averaged over them.
    network : callable
        ``s(x, parameters)``, (*rows, dim) to the same.
    """

    projections: int = count(default=1)
    network: Callable[..., Array] = function("(x, parameters)", default=score_network)

    def noise(self, rows: int, dim: int) -> Specs:
        return {"direction": Normal((self.projections, rows, dim))}

    def __call__(
        self, parameters: tree.Tree, x: Array, noise: Mapping[str, Array], constants: tree.Tree, progress: Array
    ) -> Array:
        return _implicit(self.network, parameters, x, noise["direction"], 1.0)


class Denoising(TrainingLoss, FrozenDataclass, eq=True):
    """``E |s(x + sigma xi) + xi / sigma|^2`` (Eq. 4; Vincent 2011): the score of the data with noise added.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise, in units of x. The minimum is the score of the data's distribution convolved
        with N(0, sigma^2 I); the loss there is about dim / sigma^2, not 0.
    network : callable
        ``s(x, parameters)``, (rows, dim) or (rows, *shape) to the same.
    """

    sigma: float = number(gt=0)
    network: Callable[..., Array] = function("(x, parameters)", default=score_network)

    any_shape = True

    def noise(self, rows: int, dim: int) -> Specs:
        return {"added": Normal((rows, dim))}

    def __call__(
        self, parameters: tree.Tree, x: Array, noise: Mapping[str, Array], constants: tree.Tree, progress: Array
    ) -> Array:
        xi = shaped(noise["added"], x)
        error = self.network(x + self.sigma * xi, parameters) + xi / self.sigma
        return array_namespace(x).mean(squares(error))


class AnnealedDenoising(TrainingLoss, FrozenDataclass, eq=True):
    """Denoising at many noise levels by one network: ``E |sigma s(x + sigma xi, sigma) + xi|^2`` (Song & Ermon 2019).

    Each row draws one of the levels. The factor sigma weights the losses of the levels by sigma^2.

    Parameters
    ----------
    sigmas : sequence of float
        Such as from `geometric_noise_levels`, in units of x.
    network : callable
        ``s(x, sigma, parameters)``, with x (rows, dim) or (rows, *shape) and sigma (rows).
    """

    sigmas: tuple[float, ...] = numbers(gt=0)
    network: Callable[..., Array] = function("(x, sigma, parameters)", default=conditional_score_network)

    any_shape = True

    def noise(self, rows: int, dim: int) -> Specs:
        return {"added": Normal((rows, dim)), "level": Uniform((rows,))}

    def __call__(
        self, parameters: tree.Tree, x: Array, noise: Mapping[str, Array], constants: tree.Tree, progress: Array
    ) -> Array:
        xi, level = shaped(noise["added"], x), drawn_level(self.sigmas, noise["level"])
        sigma = per_row(level, x)
        error = sigma * self.network(x + sigma * xi, level, parameters) + xi
        return array_namespace(x).mean(squares(error))


def geometric_noise_levels(largest: float, smallest: float, levels: int) -> tuple[float, ...]:
    """Noise levels from the largest to the smallest, with the same ratio between all neighbors."""
    levels, smallest = check_count("levels", levels, 1, 2**20), check_number("smallest", smallest, 0)
    largest = check_number("largest", largest, smallest, closed=True)
    return tuple(np.geomspace(largest, smallest, levels).tolist())


def drawn_level(sigmas: tuple[float, ...], uniforms: Array) -> Array:
    """One of the noise levels for every uniform, in the shape of the uniforms."""
    xp = array_namespace(uniforms)
    return take_rows(xp, xp.asarray(sigmas, dtype=uniforms.dtype, device=device_of(uniforms)), uniforms)


def _implicit(network: Callable[..., Array], parameters: tree.Tree, x: Array, v: Array, times: float) -> Array:
    """``E [|s|^2 / 2]`` plus `times` the mean of ``v' J v`` over directions (directions, rows, dim)."""
    xp = array_namespace(x)
    score = network(x, parameters)
    product = transposed_jacobian_product(network, xp.broadcast_to(x, v.shape), v, parameters)
    return 0.5 * xp.mean(xp.sum(score * score, axis=-1)) + times * xp.mean(xp.sum(product * v, axis=-1))
