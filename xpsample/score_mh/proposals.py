"""Proposals q(x' | x) as values, in the parametrisation of the kernels `RWM`, `MALA` and `PCN`.

They give what a balance loss needs: draws, log densities, and their gradients in both points.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.errors import BackendError
from xpsample.core.fields import FrozenDataclass, checked
from xpsample.core.hyperparameters import PER_CHAIN, check_range, check_reals, per_coordinate, sqrt
from xpsample.kernels import MALA, PCN, RWM, Kernel
from xpsample.score_mh.derivatives import transposed_jacobian_product

Score = Callable[..., Array]


class Proposal(ABC):
    """A proposal. Final subclasses are frozen dataclasses.

    Hyperparameters that are arrays broadcast against the chain axes. They are not checked, since a loss may trace
    them.

    Attributes
    ----------
    needs_score : bool
        Whether it moves along the score, so that it needs scores.
    """

    needs_score = False

    @property
    @abstractmethod
    def kernel(self) -> Kernel:
        """The kernel that proposes so, and accepts or rejects."""

    @abstractmethod
    def draw(self, x: Array, xi: Array, score: Array | None = None) -> Array:
        """x' from x and standard normals, all (*chains, dim); `score` is that at x."""

    @abstractmethod
    def log_density(self, x_new: Array, x: Array, score: Array | None = None) -> Array:
        """``log q(x' | x)``, (*chains), without its constant; `score` is that at x."""

    @abstractmethod
    def gradients(self, x_new: Array, x: Array, score: Score | None = None, *args: Any) -> tuple[Array, Array]:
        """Gradients of ``log q(x' | x)`` in x' and in x, both (*chains, dim); ``score(x, *args)`` if needed."""


def _check(name: str, value: Any, high: float = math.inf) -> Any:
    """A number or an array in a range; the numbers of an array that is traced are not looked at."""
    try:
        return check_range(name, value, 0, high)
    except BackendError:
        return check_reals(name, value, "a number or an array of the positions' library")


class RandomWalk(Proposal, FrozenDataclass):
    """``x' = x + step_size xi``, as `RWM` proposes.

    Parameters
    ----------
    step_size : float or array
        In units of x.
    """

    step_size: float | Array = checked(_check, kind=PER_CHAIN)

    @property
    def kernel(self) -> Kernel:
        return RWM(self.step_size)

    def draw(self, x: Array, xi: Array, score: Array | None = None) -> Array:
        return x + per_coordinate(self.step_size) * xi

    def log_density(self, x_new: Array, x: Array, score: Array | None = None) -> Array:
        xi = (x_new - x) / per_coordinate(self.step_size)
        return -0.5 * array_namespace(x).sum(xi * xi, axis=-1)

    def gradients(self, x_new: Array, x: Array, score: Score | None = None, *args: Any) -> tuple[Array, Array]:
        pull = (x_new - x) / per_coordinate(self.step_size) ** 2
        return -pull, pull


class LangevinProposal(Proposal, FrozenDataclass):
    """``x' = x + eta s(x) + sqrt(2 eta) xi``, as `MALA` and `ULA` propose; eta is epsilon^2 / 2 of the paper.

    Parameters
    ----------
    step_size : float or array
        eta, in units of x squared.

    Notes
    -----
    The gradient in x goes through the score: it takes a product with the transposed Jacobian of s.
    """

    step_size: float | Array = checked(_check, kind=PER_CHAIN)

    needs_score = True

    @property
    def kernel(self) -> Kernel:
        return MALA(self.step_size)

    def draw(self, x: Array, xi: Array, score: Array | None = None) -> Array:
        eta = per_coordinate(self.step_size)
        return x + eta * score + sqrt(array_namespace(x), 2.0 * eta) * xi

    def log_density(self, x_new: Array, x: Array, score: Array | None = None) -> Array:
        eta = per_coordinate(self.step_size)
        rest = x_new - x - eta * score
        return -array_namespace(x).sum(rest * rest / (4.0 * eta), axis=-1)

    def gradients(self, x_new: Array, x: Array, score: Score | None = None, *args: Any) -> tuple[Array, Array]:
        assert score is not None
        eta = per_coordinate(self.step_size)
        pull = (x_new - x - eta * score(x, *args)) / (2.0 * eta)
        return -pull, pull + eta * transposed_jacobian_product(score, x, pull, *args)


class CrankNicolson(Proposal, FrozenDataclass):
    """``x' = sqrt(1 - beta^2) x + beta xi``, as `PCN` proposes with the reference N(0, I): standardize the data.

    Parameters
    ----------
    beta : float or array
        Factor of the noise, in (0, 1].
    """

    beta: float | Array = checked(partial(_check, high=1.0), kind=PER_CHAIN)

    @property
    def kernel(self) -> Kernel:
        return PCN(self.beta)

    def draw(self, x: Array, xi: Array, score: Array | None = None) -> Array:
        beta = per_coordinate(self.beta)
        return self._keep(x) * x + beta * xi

    def log_density(self, x_new: Array, x: Array, score: Array | None = None) -> Array:
        xi = (x_new - self._keep(x) * x) / per_coordinate(self.beta)
        return -0.5 * array_namespace(x).sum(xi * xi, axis=-1)

    def gradients(self, x_new: Array, x: Array, score: Score | None = None, *args: Any) -> tuple[Array, Array]:
        keep = self._keep(x)
        pull = (x_new - keep * x) / per_coordinate(self.beta) ** 2
        return -pull, keep * pull

    def _keep(self, x: Array) -> float | Array:
        """The factor of x."""
        beta = per_coordinate(self.beta)
        return sqrt(array_namespace(x), 1.0 - beta * beta)
