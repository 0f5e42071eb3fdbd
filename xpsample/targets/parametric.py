"""Targets with parameters that change along a run: U(x, parameters), the parameters a tree of arrays."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from xpsample.core.arrays import Array
from xpsample.core.backend import Backend
from xpsample.core.errors import CapabilityError
from xpsample.core.tree import Tree
from xpsample.gradients.choices import Auto, GradientChoice
from xpsample.spaces.space import Real, Space
from xpsample.targets.bound import BoundTarget
from xpsample.targets.point import Capability
from xpsample.targets.prepared import Family, PreparedTarget
from xpsample.targets.target import AbstractTarget, Target


@dataclass(frozen=True, eq=False, repr=False)
class Parametric(AbstractTarget):
    """A family of distributions ``log_density(x, parameters)`` at given parameters.

    A kernel's step may be handed ``bound.with_data(parameters)`` with other parameters at every step; `refresh` then
    evaluates its points again.

    Parameters
    ----------
    log_density : callable
        ``(x, parameters) -> (*chains)``, batched over the leading axes of x ``(*chains, dim)``.
    parameters : tree of arrays
        Initial parameters. NumPy arrays are put into the positions' library.
    score : callable, optional
        ``(x, parameters) -> (*chains, dim)``, the gradient in x.
    gradient : GradientChoice
        How derivatives that were not given are obtained, in x and in the parameters.
    space : Space
        Space of the positions, as for `Target`: on ``Real(channels, height, width)`` the functions receive images.
    log_density_and_score : callable, optional
        ``(x, parameters)`` to both, where they share work.

    See Also
    --------
    Target : A density without parameters.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> family = xps.Parametric(
    ...     lambda x, theta: -0.5 * np.sum((x - theta["mean"]) ** 2, axis=-1),
    ...     {"mean": np.ones(2)},
    ...     score=lambda x, theta: theta["mean"] - x,
    ... )
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(family, xps.HMC(), x0, 1000, seed=1)  # of the distribution at theta = 1
    >>> bool(abs(trace.draws.mean() - 1) < 0.1)
    True
    """

    log_density: Callable[..., Array]
    parameters: Tree
    score: Callable[..., Array] | None = None
    gradient: GradientChoice = Auto()
    space: Space = Real()
    log_density_and_score: Callable[..., tuple[Array, Array]] | None = None
    _target: Target = field(init=False, repr=False)

    def __post_init__(self) -> None:
        target = Target(
            self.log_density,
            score=self.score,
            log_density_and_score=self.log_density_and_score,
            gradient=self.gradient,
            data=self.parameters,
            space=self.space,
        )
        object.__setattr__(self, "_target", target)

    def with_data(self, data: Tree) -> "Parametric":
        """Return the family at other parameters."""
        return replace(self, parameters=data)

    def place_data(self, backend: Backend, x: Array) -> Tree:
        """Return the data in the library, on the device and in the dtype of x."""
        return self._target.place_data(backend, x)

    def prepare(self, x: Array, requires: Capability) -> PreparedTarget:
        bound = self._target.prepare(x, requires)
        family = Family(self._target.of_coordinates.log_density, self.gradient, bound.backend)
        costs = bound.costs._replace(refresh=bound.costs.evaluate_lazily)
        return replace(bound, family=family, costs=costs)


def family_of(target: BoundTarget) -> Family:
    """The family that a bound target is a member of; raises CapabilityError if the target has no parameters."""
    if not isinstance(target, PreparedTarget) or target.family is None:
        raise CapabilityError("the kernel moves the parameters of its target: pass Parametric(log_density, parameters)")
    return target.family
