"""Spaces from plain values, as files keep them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from xpsample.core.checks import given
from xpsample.core.errors import HyperparameterError
from xpsample.spaces.categorical import Categorical, OneHot
from xpsample.spaces.constrained import Circular, Interval, LowerBounded, Positive, UpperBounded
from xpsample.spaces.discrete import Binary, Permutations, Spins
from xpsample.spaces.integers import Integers
from xpsample.spaces.matrices import CorrelationCholesky, CovarianceCholesky
from xpsample.spaces.simplexes import Ordered, PositiveOrdered, Simplex, UnitVector, ZeroSum
from xpsample.spaces.space import Real, Space

_BY_SHAPE = (Real, Positive, Circular, Ordered, PositiveOrdered, Simplex, UnitVector, ZeroSum)
_MATRICES = (CorrelationCholesky, CovarianceCholesky)
_BOUNDED: dict[Any, tuple[str, ...]] = {LowerBounded: ("low",), UpperBounded: ("high",), Interval: ("low", "high")}
_DISCRETE: dict[Any, tuple[str, ...]] = {
    Binary: (),
    Spins: (),
    Permutations: (),
    Categorical: ("values",),
    OneHot: ("choices",),
    Integers: ("low", "high"),
}
SPACES: dict[str, Any] = {kind.__name__: kind for kind in (*_BY_SHAPE, *_MATRICES, *_BOUNDED, *_DISCRETE)}
"""The spaces that files may name."""


def space_from_json(form: Mapping[str, Any]) -> Space:
    """The space of which `form` is the `to_json`.

    Parameters
    ----------
    form : mapping
        ``{"space": "Interval", "shape": [3], "low": 0.0, "high": 1.0}``, say.
    """
    if not isinstance(form, Mapping) or form.get("space") not in SPACES:
        raise HyperparameterError(f"a space is one of {', '.join(sorted(SPACES))}; got {given(form)}")
    kind = SPACES[form["space"]]
    try:
        if kind in _DISCRETE:
            shape = {name: form[name] for name in ("shape", "n") if form.get(name) is not None}
            return kind(*(form[name] for name in _DISCRETE[kind]), **shape)
        sizes = tuple(form["shape"])
        sizes = sizes[:-1] if kind in _MATRICES else sizes
        return kind(*(np.asarray(form[name])[()] for name in _BOUNDED.get(kind, ())), *sizes)
    except (KeyError, TypeError) as error:
        raise HyperparameterError(f"{given(form)} is no space: {type(error).__name__}: {error}") from error
