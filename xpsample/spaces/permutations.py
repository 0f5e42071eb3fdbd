"""Orders of n things: the space of permutations."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.backend import Backend
from xpsample.core.errors import PositionError
from xpsample.core.tree import dtype_name
from xpsample.spaces.space import Space, as_floating, check_shape


@dataclass(frozen=True)
class Permutations(Space):
    """Positions ``(*chains, n)`` that hold each of 0 .. n - 1 once, as integers or floating numbers.

    Attributes
    ----------
    places : array of int32, shape (n,)
        0 .. n - 1 where the positions live; None until bound.

    See Also
    --------
    TwoOpt : A kernel on them.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -np.sum(np.abs(x - np.arange(5)), axis=-1), space=xps.Permutations())
    >>> x0 = np.array([np.random.default_rng(k).permutation(5) for k in range(4)])
    >>> xps.sample(target, xps.TwoOpt(), x0, 2000, seed=1).draws.shape
    (2000, 4, 5)
    """

    places: Any = field(default=None, repr=False, compare=False)

    def check(self, xp: Any, x: Array) -> None:
        if not xp.isdtype(x.dtype, ("integral", "real floating")):
            raise PositionError(f"positions must be integers or real floating numbers; got dtype {dtype_name(x)}")
        check_shape(xp, x)
        ordered = xp.sort(as_floating(xp, x), axis=-1)
        count = xp.cumulative_sum(xp.ones_like(ordered), axis=-1) - 1.0
        if not bool(xp.all(ordered == count)):
            raise PositionError(f"positions must hold each of 0 .. {x.shape[-1] - 1} once along the last axis")

    def to_json(self) -> dict[str, Any]:
        """The space as plain values of JSON; `space_from_json` reads them."""
        return {"space": "Permutations"}

    def bind(self, backend: Backend, x: Array) -> Space:
        return replace(self, places=backend.from_host(np.arange(x.shape[-1], dtype=np.int32), x))
