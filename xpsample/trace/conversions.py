"""What traces become elsewhere: arrays by name in a file, and a DataTree or the InferenceData of an older ArviZ."""

import json
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from xpsample.core import tree
from xpsample.core.errors import TraceError
from xpsample.core.registry import to_host
from xpsample.files.archives import structure
from xpsample.files.common import sealed

ARVIZ_NAMES = {
    "acceptance_probability": "acceptance_rate",
    "depth": "tree_depth",
    "diverged": "diverging",
    "log_density": "lp",
}
"""Statistics that ArviZ knows by another name; the others keep theirs."""


def installed(module: str, advice: str) -> Any:
    """A module that not every installation has.

    Raises
    ------
    ImportError
        With the advice, if it is not there.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(advice) from error


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
    xarray = installed("xarray", 'to_arviz() needs xarray: pip install "xpsample[arviz]"')

    def variable(values: np.ndarray, axes: Sequence[str]) -> Any:
        return xarray.Variable(("chain", "draw", *axes), np.swapaxes(values, 0, 1))

    groups = {"posterior": {name: variable(values, axes) for name, (values, axes) in posterior.items()}}
    if statistics:
        groups["sample_stats"] = {
            ARVIZ_NAMES.get(name, name): variable(own, [f"{name}_dim_{i}" for i in range(own.ndim - 2)])
            for name, own in statistics.items()
        }
    tree = xarray.DataTree.from_dict({name: _dataset(variables, labels) for name, variables in groups.items()})
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


def archived(kept: dict[str, Any], metadata: dict[str, Any]) -> dict[str, np.ndarray]:
    """All arrays of a tree on the host by slash-separated name, and its structure and metadata under ``header``."""
    try:
        described = {"structure": structure(kept), "metadata": metadata}
    except TypeError as error:
        raise TraceError(str(error)) from error
    header = sealed(json.loads(as_json("metadata", described)))
    arrays = {"header": np.asarray(json.dumps(header))}
    for name, leaf in tree.items(kept):
        array = to_host(leaf)
        if array.dtype.kind not in "biufc":
            raise TraceError(f"{name} has dtype {array.dtype}, which .npz cannot hold without pickle; cast it first")
        if name in arrays:
            raise TraceError(f"two arrays would both be saved as {name!r}; avoid '/' in the names of results")
        arrays[name] = array
    return arrays


def fits_attribute(value: Any) -> bool:
    """Whether NetCDF takes `value` as it is: text or a number of 64 bits."""
    return isinstance(value, (str, float)) or (type(value) is int and abs(value) < 2**63)


def as_json(what: str, value: Any) -> str:
    """Text, of arrays as lists."""
    try:
        return json.dumps(value, default=lambda array: to_host(array).tolist())
    except (TypeError, ValueError) as error:
        raise TraceError(f"{what} cannot be written as JSON: {error}") from error
