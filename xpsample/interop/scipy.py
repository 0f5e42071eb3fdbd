"""Distributions of scipy.stats as models, whose moments and quantiles are known."""

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

from xpsample.core.arrays import Array
from xpsample.core.checks import given
from xpsample.core.errors import BackendError, CapabilityError, HyperparameterError
from xpsample.gradients.choices import GradientChoice
from xpsample.interop.constraints import between
from xpsample.spaces.constrained import Circular
from xpsample.spaces.simplexes import Simplex, UnitVector
from xpsample.spaces.space import Constrained, Real
from xpsample.targets.model import AUTO, Model

VECTORS: dict[str, Callable[[Any], Constrained]] = {
    "multivariate_normal_frozen": lambda distribution: Real(distribution.dim),
    "multivariate_t_frozen": lambda distribution: Real(distribution.dim),
    "dirichlet_frozen": lambda distribution: Simplex(len(distribution.alpha)),
    "vonmises_fisher_frozen": lambda distribution: UnitVector(distribution.dim),
}
"""Classes of distributions of vectors, with their spaces."""


def scipy_model(*, gradient: GradientChoice = AUTO, **distributions: Any) -> Model:
    """Frozen distributions of scipy.stats, independent of each other, as a `Model` of NumPy arrays.

    Parameters
    ----------
    gradient : GradientChoice
        SciPy gives no gradients: `FiniteDifference` serves kernels that need a score. The others need none.
    **distributions : frozen distribution
        Distribution of each parameter: continuous, such as ``gamma(3)`` or ``Normal(mu=0, sigma=1)``, or a multivariate
        normal or t, a Dirichlet or a von Mises-Fisher distribution. Parameters that are arrays make a value of their
        shape.

    Returns
    -------
    Model
        Each parameter is in the space that the support of its distribution is.

    Raises
    ------
    CapabilityError
        For a discrete distribution, and for one that is in no space.
    HyperparameterError
        If a value is no frozen distribution.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> from scipy import stats
    >>> from xpsample.interop import scipy_model
    >>> model = scipy_model(x=stats.gamma(3.0), y=stats.multivariate_normal([0.0, 1.0]))
    >>> model.space.parts
    (Positive(), Real(2))
    >>> x0 = model.start(like=np.zeros(0), chains=4, seed=0)
    >>> xps.sample(model, xps.RWM(0.8), x0, 50, seed=1, progress=False)["y"].shape
    (50, 4, 2)
    """
    spaces: dict[str, Any] = {name: _space(name, distribution) for name, distribution in distributions.items()}

    def log_density(p: Any) -> Array:
        total: Any = 0.0
        for value, distribution, space in zip(p, distributions.values(), spaces.values(), strict=True):
            if not is_numpy_array(value):
                raise BackendError(f"SciPy computes on NumPy arrays: start from one; got {type(value).__name__}")
            total = total + _log_density(distribution, value.astype(np.float64), space.shape)
        return total.astype(p[0].dtype)

    return Model(log_density, gradient=gradient, **spaces)


def _kinds(distribution: Any) -> set[str]:
    return {kind.__name__ for kind in type(distribution).__mro__}


def _space(name: str, distribution: Any) -> Constrained:
    kinds = _kinds(distribution)
    if kinds & {"rv_discrete_frozen", "DiscreteDistribution"}:
        raise CapabilityError(
            f"{name} is discrete: write a Model with a discrete space, such as Categorical(values), and use Blocks"
        )
    if kinds & {"rv_continuous_frozen", "ContinuousDistribution", "Mixture"}:  # gamma(3), Normal(mu=0)
        low, high = np.broadcast_arrays(*distribution.support())
        if getattr(getattr(distribution, "dist", None), "name", "") == "vonmises":
            return _circular(name, distribution)
        space = between(low, high, low.shape)
        if space is None:
            raise CapabilityError(f"some values of {name} are bounded and some are not: use a separate name for each")
        return space
    for kind, vectors in VECTORS.items():
        if kind in kinds:
            return vectors(distribution)
    if hasattr(distribution, "logpdf") and not kinds & {"rv_generic", "multi_rv_generic"}:
        raise CapabilityError(
            f"the values of {name}, {type(distribution).__name__}, are in no space that is known here: write a Model "
            "with the space of its values, and logpdf in its log density"
        )
    raise HyperparameterError(
        f"{name} must be a frozen distribution, such as scipy.stats.gamma(3); got {given(distribution)}"
    )


def _circular(name: str, distribution: Any) -> Constrained:
    """The space of angles, which SciPy says are all real numbers: the density repeats, and chains would drift."""
    angles = np.asarray([0.0, 1.0, 2.0])
    shape = np.shape(distribution.logpdf(0.0))
    here, round_ = (distribution.logpdf(np.reshape(a, (-1, *(1 for _ in shape)))) for a in (angles, angles + 2 * np.pi))
    if not np.allclose(here, round_, atol=1e-6):
        raise CapabilityError(f"{name} is an angle whose circle is not 2 pi long: remove its scale")
    return Circular(*shape)


def _log_density(distribution: Any, value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The log density ``(*chains)`` of values ``(*chains, *shape)``."""
    chains = value.shape[: value.ndim - len(shape)]
    if not _kinds(distribution) & set(VECTORS):
        return np.sum(np.reshape(distribution.logpdf(value), (*chains, -1)), axis=-1)
    rows = value.reshape(-1, *shape)
    if "vonmises_fisher_frozen" in _kinds(distribution):  # SciPy raises where a float32's length is not 1
        rows = rows / np.sqrt(np.sum(rows**2, axis=-1, keepdims=True))
    if "dirichlet_frozen" not in _kinds(distribution):
        return np.reshape(distribution.logpdf(rows), chains)
    inside = np.all(rows > 0, axis=-1)  # SciPy raises on the edge, and where a float32's sum is not 1
    found = np.full(len(rows), -np.inf)
    found[inside] = distribution.logpdf((rows[inside] / np.sum(rows[inside], axis=-1, keepdims=True)).T)
    return np.reshape(found, chains)
