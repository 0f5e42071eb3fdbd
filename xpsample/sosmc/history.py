"""The course of an optimization: parameters, weights and means under them, row by row."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from xpsample.core.arrays import Array
from xpsample.core.checks import check_function, check_instance
from xpsample.core.errors import CapabilityError
from xpsample.core.fields import checked, flag, text
from xpsample.core.tree import Tree
from xpsample.kernels.kernel import Info
from xpsample.sosmc.kernel import SOSMCState
from xpsample.targets.bound import BoundTarget
from xpsample.trace.recorders import Recorder, check_rows


def _check_means(name: str, value: Any) -> Any:
    means = check_instance(name, value, Mapping, '{"reward": reward}')
    for key, function in means.items():
        check_function(f"{name}[{key!r}]", function, "(x)")
    return means


class SOSMCHistory(Recorder):
    """The course of SOSMC: a dict of arrays (draw, *runs).

    ``weight_ess``; ``resampled``; ``log_normalizer``, the estimate of log Z_theta - log Z_theta_0; ``potential``, the
    mean of U_theta under the weights, if densities are evaluated; ``step_size`` and ``rate``, if they are adapted; and
    the mean of each function, under its name. ``parameters`` is a tree of arrays (draw, ...).

    Parameters
    ----------
    means : mapping of str to callable
        ``f(x)``, from particles (*runs, particles, dim) to (*runs, particles), such as a reward.
    parameters : bool
        Whether to keep the parameters.
    """

    means: Mapping[str, Callable[[Array], Array]] = checked(_check_means, default=None, factory=lambda history: {})
    parameters: bool = flag(default=True)
    name: str = text(default="history")
    chain_axis: ClassVar[int | None] = 1

    def init(self, target: BoundTarget, state: Any) -> Tree:
        if not isinstance(state, SOSMCState):
            raise CapabilityError(f"SOSMCHistory records SOSMC runs; the state is a {type(state).__name__}")
        for name, function in self.means.items():
            check_rows(f"means[{name!r}]", function, state.point.x, state.point.x)
        return None

    def update(self, target: BoundTarget, carry: Tree, state: SOSMCState, info: Info) -> tuple[Tree, Tree]:
        xp, point = target.xp, state.point
        weights = xp.exp(state.weights.logs)

        def mean(values: Array) -> Array:
            return xp.sum(xp.where(weights > 0.0, weights * values, 0.0), axis=-1)

        row: dict[str, Any] = {
            "weight_ess": state.weights.ess,
            "resampled": state.resampled,
            "log_normalizer": state.weights.log_normalizer,
        }
        if point.log_density is not None:
            row["potential"] = -mean(point.log_density)
        if state.step_size is not None:
            row["step_size"] = state.step_size[..., 0]
        if state.rate is not None:
            row["rate"] = state.rate
        if self.parameters:
            row["parameters"] = state.parameters
        return None, row | {name: mean(f(point.x)) for name, f in self.means.items()}

    def result(self, target: BoundTarget, carry: Tree, rows: Tree) -> Any:
        return rows
