"""Models of Stan, and all else that has BridgeStan's interface."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from array_api_compat import is_numpy_array

from xpsample.core.arrays import Array
from xpsample.core.checks import given
from xpsample.core.errors import BackendError, CapabilityError, PositionError
from xpsample.targets.target import Target


class StanModel(Protocol):
    """Methods of ``bridgestan.StanModel`` that are used."""

    def param_unc_num(self) -> int:
        """Number of unconstrained coordinates."""

    def param_names(self, *, include_tp: bool = False, include_gq: bool = False) -> list[str]:
        """Names of the values, such as ``theta.1``."""

    def param_constrain(
        self, theta_unc: np.ndarray, /, *, include_tp: bool = False, include_gq: bool = False
    ) -> np.ndarray:
        """The values at one vector of coordinates."""

    def log_density(self, theta_unc: np.ndarray, /, *, propto: bool = True, jacobian: bool = True) -> float:
        """The log density of one vector of coordinates."""

    def log_density_gradient(
        self, theta_unc: np.ndarray, /, *, propto: bool = True, jacobian: bool = True
    ) -> tuple[float, np.ndarray]:
        """The same with its gradient."""


def stan_target(model: StanModel) -> Target:
    """A model of Stan as a target, with Stan's own gradients.

    Chains move in Stan's unconstrained coordinates, one chain after the other in a loop on the host, in float64.

    Parameters
    ----------
    model : bridgestan.StanModel
        Or any object with its methods ``log_density``, ``log_density_gradient``, ``param_constrain``, ``param_names``
        and ``param_unc_num``.

    Returns
    -------
    Target
        For NumPy positions ``(*chains, param_unc_num)``. If Stan raises a RuntimeError, as it does for values outside
        a distribution's support, the log density is -inf.

    Raises
    ------
    CapabilityError
        If a method is missing.

    See Also
    --------
    stan_parameters : the values at draws, by name.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> from xpsample.interop import stan_target
    >>> class Normal:  # BridgeStan's interface; StanModel("model.stan", "data.json") has it, too
    ...     param_unc_num = lambda self: 2
    ...     param_names = lambda self, **include: ["x.1", "x.2"]
    ...     param_constrain = lambda self, z, **include: z
    ...     log_density = lambda self, z, **options: -0.5 * float(z @ z)
    ...     log_density_gradient = lambda self, z, **options: (-0.5 * float(z @ z), -z)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> xps.sample(stan_target(Normal()), xps.NUTS(0.5), x0, 100, seed=1, progress=False).draws.shape
    (100, 4, 2)
    """
    for name in ("log_density", "log_density_gradient", "param_constrain", "param_names", "param_unc_num"):
        if not callable(getattr(model, name, None)):
            raise CapabilityError(f"a Stan model has a method {name}, as bridgestan.StanModel has; got {given(model)}")
    own = _OneByOne(model, model.param_unc_num())
    return Target(own.log_density, own.score, log_density_and_score=own.log_density_and_score)


@dataclass(frozen=True, eq=False)
class _OneByOne:
    """The functions of a Stan model at positions ``(*chains, dim)``, one chain after the other."""

    model: StanModel
    dim: int

    def log_density(self, x: Array) -> Array:
        return np.asarray([self._density(z) for z in self._rows(x)], dtype=x.dtype).reshape(x.shape[:-1])

    def log_density_and_score(self, x: Array) -> tuple[Array, Array]:
        densities, scores = zip(*map(self._pair, self._rows(x)), strict=True)
        return (
            np.asarray(densities, dtype=x.dtype).reshape(x.shape[:-1]),
            np.asarray(scores, dtype=x.dtype).reshape(x.shape),
        )

    def score(self, x: Array) -> Array:
        return self.log_density_and_score(x)[1]

    def _rows(self, x: Array) -> np.ndarray:
        """The positions as Stan takes them, (rows, dim)."""
        if not is_numpy_array(x):
            raise BackendError(f"a Stan model computes on the host: start from a NumPy array; got {type(x).__name__}")
        if x.shape[-1] != self.dim:
            raise PositionError(f"the Stan model has {self.dim} unconstrained coordinates; got positions {x.shape}")
        return np.ascontiguousarray(x, dtype=np.float64).reshape(-1, self.dim)

    def _density(self, z: np.ndarray) -> float:
        try:
            return self.model.log_density(z, propto=True, jacobian=True)
        except RuntimeError:
            return -np.inf

    def _pair(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        try:
            density, score = self.model.log_density_gradient(z, propto=True, jacobian=True)
        except RuntimeError:
            return -np.inf, np.full(self.dim, np.nan)
        return density, np.array(score)  # a copy: a model may return the same buffer each time


def stan_parameters(
    model: StanModel, *, transformed: bool = False, generated: bool = False
) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """A function for `Trace.map`: the values of a Stan model's parameters at draws, by name.

    Parameters
    ----------
    model : bridgestan.StanModel
        As for `stan_target`.
    transformed, generated : bool
        Whether transformed parameters and generated quantities are among them.

    Returns
    -------
    callable
        ``(draw, *chains, dim)`` to a dict with an array ``(draw, *chains, *shape)`` for each parameter.

    Examples
    --------
    >>> import numpy as np
    >>> from xpsample.interop import stan_parameters
    >>> class Scale:
    ...     param_names = lambda self, **include: ["tau"]
    ...     param_constrain = lambda self, z, **include: np.exp(z)
    >>> stan_parameters(Scale())(np.zeros((3, 4, 1)))["tau"].shape
    (3, 4)
    """
    include = {"include_tp": transformed, "include_gq": generated}

    def values(x: np.ndarray) -> dict[str, np.ndarray]:
        z = np.ascontiguousarray(x, dtype=np.float64).reshape(-1, x.shape[-1])
        found = np.stack([np.array(model.param_constrain(row, **include)) for row in z])
        return {name: part.reshape(*x.shape[:-1], *part.shape[1:]) for name, part in _by_name(model, include, found)}

    return values


def _by_name(model: StanModel, include: dict[str, bool], found: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """The columns of each parameter, ``(rows, *shape)``. In names, ``a.2.1``, the first index runs fastest, from 1."""
    places: dict[str, list[int]] = {}
    last: dict[str, tuple[int, ...]] = {}
    for column, name in enumerate(model.param_names(**include)):
        base, *indices = name.split(".")
        places.setdefault(base, []).append(column)
        last[base] = tuple(int(i) for i in indices)
    return [(name, found[:, own].reshape(-1, *last[name], order="F")) for name, own in places.items()]
