"""Hyperparameters with a value for each step of a schedule, and kernels with the values of one."""

from dataclasses import replace
from typing import Any

from xpsample.core.arrays import Array, is_array
from xpsample.core.hyperparameters import settings
from xpsample.kernels.kernel import Kernel
from xpsample.spaces.discrete import as_index


def row(xp: Any, rows: Array, n: Array) -> Array:
    """The row of step n (0-d) of an array (steps, ...), shape (...); after the last step the last one."""
    last = rows.shape[0] - 1
    return xp.take(rows, as_index(xp, xp.where(n < last, n, last))[None], axis=0)[0, ...]


def at_step(xp: Any, kernel: Any, n: Array, axes: int) -> Any:
    """A kernel with the values of step n (0-d) of those hyperparameters that have one for each step.

    These are arrays with one more axis in front than values for each chain, or for each group of chains, have:
    ``(steps, *chains)``; of a metric ``(steps, *groups, 1, dim)`` or ``(steps, *groups, dim, dim)``. `axes` is the
    number of chain axes of the positions.
    """
    changed = kernel
    for f, given in settings(kernel):
        value = getattr(kernel, f"_{f.name}", given)
        if isinstance(value, Kernel):
            new = at_step(xp, value, n, axes)
        elif f.metadata.get("per_chain") or "coordinates" in f.metadata:
            new = _at_step(xp, value, n, axes + bool(f.metadata.get("rows")) + ("coordinates" in f.metadata))
        else:
            continue
        if new is not value:
            changed = with_field(changed, f.name, new)
    return changed


def with_field(kernel: Any, name: str, value: Any) -> Any:
    """Set the field `name` of a kernel, or a value derived from it; unchecked, since it may be traced."""
    changed = object.__new__(type(kernel))
    names = {f.name: held for f, held in settings(kernel)}
    for other, held in names.items():
        object.__setattr__(changed, other, held)
    object.__setattr__(changed, f"_{name}" if f"_{name}" in names else name, value)
    return changed


def _at_step(xp: Any, value: Any, n: Array, axes: int) -> Any:
    """A value, or a covariance, whose arrays with `axes` axes and one more have a row for each step."""
    parts = {f.name: part for f, part in settings(value)}
    if parts:
        new = {name: _at_step(xp, part, n, axes) for name, part in parts.items()}
        return replace(value, **new) if any(new[name] is not part for name, part in parts.items()) else value
    return row(xp, value, n) if is_array(value) and len(value.shape) == axes + 1 else value
