"""Draws and statistics for ArviZ: a DataTree, or the InferenceData that ArviZ before 1.0 and PyMC before 6 take."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

ARVIZ_NAMES = {
    "acceptance_probability": "acceptance_rate",
    "depth": "tree_depth",
    "diverged": "diverging",
    "log_density": "lp",
}
"""Statistics that ArviZ knows by another name; the others keep theirs."""

INSTALL = 'to_arviz() needs xarray: pip install "xpsample[arviz]"'


def datatree(
    posterior: Mapping[str, tuple[np.ndarray, Sequence[str]]],
    labels: Mapping[str, Sequence[Any]],
    statistics: Mapping[str, np.ndarray],
    attributes: Mapping[str, Any],
) -> Any:
    """Draws and statistics, under ArviZ's names for groups, axes and statistics.

    Parameters
    ----------
    posterior : mapping of str to (array, sequence of str)
        Arrays ``(draw, chain, ...)``, and what their further axes are called.
    labels : mapping of str to sequence
        What the places along an axis are called; they are counted from 0 where nothing is said.
    statistics : mapping of str to array, each of shape (draw, chain, ...)
    attributes : mapping
        Of the root.

    Returns
    -------
    xarray.DataTree

    Raises
    ------
    ImportError
        If xarray is not installed.
    """
    try:
        from xarray import DataTree, Variable
    except ImportError as error:
        raise ImportError(INSTALL) from error

    def variable(values: np.ndarray, axes: Sequence[str]) -> Any:
        return Variable(("chain", "draw", *axes), np.swapaxes(values, 0, 1))

    groups = {"posterior": {name: variable(values, axes) for name, (values, axes) in posterior.items()}}
    if statistics:
        groups["sample_stats"] = {
            ARVIZ_NAMES.get(name, name): variable(own, [f"{name}_dim_{i}" for i in range(own.ndim - 2)])
            for name, own in statistics.items()
        }
    tree = DataTree.from_dict({name: _dataset(variables, labels) for name, variables in groups.items()})
    tree.attrs = dict(attributes)
    return tree


def as_arviz(tree: Any) -> Any:
    """A DataTree as what the installed ArviZ takes: itself, or an InferenceData where ArviZ is older than 1.0.

    The functions of ``arviz-base`` and ``arviz-stats`` take both.
    """
    from importlib.metadata import PackageNotFoundError, version  # which takes long to import

    try:
        old = int(version("arviz").partition(".")[0]) < 1
    except (PackageNotFoundError, ValueError):
        return tree
    if not old:
        return tree
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # it says once a day that 1.0 will be another
        from arviz import InferenceData
    found = InferenceData.from_datatree(tree)
    found.attrs = tree.attrs
    return found


def _dataset(variables: dict[str, Any], labels: Mapping[str, Sequence[Any]]) -> Any:
    from xarray import Dataset

    sizes = {axis: size for own in variables.values() for axis, size in own.sizes.items()}
    places = {axis: list(labels.get(axis, range(size))) for axis, size in sizes.items()}
    return Dataset(variables, coords={axis: (axis, np.asarray(own)) for axis, own in places.items()})
