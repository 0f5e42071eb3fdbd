"""Conversions of traces: a DataTree, or the InferenceData of an older ArviZ."""

import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from xpsample.core.arrays import Array, is_array
from xpsample.core.errors import TraceError
from xpsample.core.registry import to_host
from xpsample.spaces.names import exported

ARVIZ_NAMES = {
    "acceptance_probability": "acceptance_rate",
    "depth": "tree_depth",
    "diverged": "diverging",
    "log_density": "lp",
}
"""Statistics that ArviZ knows by another name; the others keep theirs."""


def installed(module: str, advice: str) -> Any:
    """A module that not every installation has; ImportError with the advice if it is not there."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(advice) from error


Variables = Mapping[str, tuple[np.ndarray, Sequence[str]]]
"""Arrays ``(draw, chain, ...)`` by name, and what their further axes are called."""


def datatree(
    posterior: Mapping[str, tuple[Array, Sequence[str]]],
    labels: Mapping[str, Sequence[Any]],
    statistics: Mapping[str, Array],
    attributes: Mapping[str, Any],
    chain_axes: int,
) -> Any:
    """Draws and statistics as an ``xarray.DataTree``, under ArviZ's names for groups, axes and statistics.

    `labels` name the entries along an axis, which are otherwise counted from 0. Draws and statistics have so many chain
    axes, (draw, *chains, ...); the attributes go to the root.
    """
    xarray = installed("xarray", 'to_arviz() needs xarray: pip install "xpsample[arviz]"')
    draws = {name: (one_chain_axis(to_host(own), chain_axes), axes) for name, (own, axes) in posterior.items()}
    groups = {"posterior": _dataset(draws, labels)}
    if statistics:
        named = {
            ARVIZ_NAMES.get(name, name): (
                one_chain_axis(to_host(own), chain_axes),
                [f"{name}_dim_{i}" for i in range(own.ndim - 1 - chain_axes)],
            )
            for name, own in statistics.items()
        }
        groups["sample_stats"] = _dataset(named, labels)
    tree = xarray.DataTree.from_dict(groups)
    tree.attrs = dict(attributes)
    return tree


def frame_of_draws(columns: Array, labels: Sequence[str]) -> Any:
    """Columns (draw, *chains, column) as a pandas DataFrame, with a row for each draw of each chain."""
    pandas = installed("pandas", "to_dataframe() needs pandas: pip install pandas")
    host = np.moveaxis(to_host(columns), 0, -2)
    *chains, draws, dim = host.shape
    names = ["chain"] if len(chains) == 1 else [f"chain_{axis}" for axis in range(len(chains))]
    index = np.reshape(np.indices((*chains, draws)), (len(chains) + 1, -1))
    frame = pandas.DataFrame(np.reshape(host, (-1, dim)), columns=list(labels))
    for place, (name, numbers) in enumerate(zip([*names, "draw"], index, strict=True)):
        frame.insert(place, name, numbers)
    return frame


def with_walkers(tree: Any, walkers: int) -> Any:
    """A DataTree that says of every chain which ensemble it is of, and which of the walkers there."""

    def named(group: Any) -> Any:
        if "chain" not in group.sizes:
            return group
        chain = np.arange(group.sizes["chain"])
        return group.assign_coords(ensemble=("chain", chain // walkers), walker=("chain", chain % walkers))

    return tree.map_over_datasets(named)


def add_prior(tree: Any, prior: Any) -> None:
    """Add the prior draws of another DataTree to a DataTree."""
    for group, name in (("posterior", "prior"), ("sample_stats", "sample_stats_prior")):
        if group in prior:
            tree[name] = prior[group]


def add_observations(
    tree: Any,
    given: Mapping[str, tuple[Any, Sequence[int]]],
    dims: Mapping[str, Any],
    labels: Mapping[str, Sequence[Any]],
) -> None:
    """Add groups to a DataTree with a value for each observation; TraceError if a shape does not fit.

    Each is a pair of arrays, or None, and the axes ``(draw, *chains)`` of the draws that they were made from; () for
    observed data. `dims` are names for the axes of observations, and `labels` what the places along an axis are called.
    """
    unused = set(dims)
    for group, (values, drawn) in given.items():
        if values is None:
            continue
        variables = _of_observations(group, values, drawn, dims)
        if group == "log_likelihood" and any(not axes for _, axes in variables.values()):
            raise TraceError("log_likelihood has a value for each observation: do not sum over these")
        tree[group] = type(tree)(_dataset(variables, labels, bool(drawn)))
        unused -= variables.keys()
    if unused:
        raise TraceError(f"dims names the axes of {', '.join(sorted(unused))}, and nothing is given by that name")


def _of_observations(what: str, values: Any, drawn: Sequence[int], dims: Mapping[str, Any]) -> Variables:
    """Arrays of a group by observed name; a single array is called y."""
    found = {}
    for name, own in (values if isinstance(values, Mapping) else {"y": values}).items():
        host = to_host(own) if is_array(own) else np.asarray(own)
        if host.shape[: len(drawn)] != tuple(drawn):
            raise TraceError(
                f"{what} has shape (draw, *chains, *observations), here ({', '.join(map(str, drawn))}, ...); "
                f"{name} has {host.shape}"
            )
        shape = host.shape[len(drawn) :]
        given = dims.get(name, [f"{name}_dim_{i}" for i in range(len(shape))])
        axes = (given,) if isinstance(given, str) else tuple(given)
        if len(axes) != len(shape):
            raise TraceError(f"dims has {len(axes)} names for the axes of {name}, whose observations have {shape}")
        found[name] = one_chain_axis(host, len(drawn) - 1) if drawn else host, axes
    return found


def one_chain_axis(values: np.ndarray, chain_axes: int) -> np.ndarray:
    """(draw, *chains, ...) to (draw, chain, ...)."""
    chains, rest = values.shape[1 : 1 + chain_axes], values.shape[1 + chain_axes :]
    return np.reshape(values, (values.shape[0], int(np.prod(chains)), *rest))


def as_arviz(tree: Any) -> Any:
    """A DataTree as what the installed ArviZ takes: itself, or an InferenceData where ArviZ is older than 1.0.

    The functions of ``arviz-base`` and ``arviz-stats`` accept both.
    """
    from importlib.metadata import PackageNotFoundError, version  # which takes long to import

    try:
        old = int(version("arviz").partition(".")[0]) < 1
    except (PackageNotFoundError, ValueError):
        return tree
    if not old:
        return tree
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # it warns once a day that 1.0 will change
        from arviz import InferenceData
    found = InferenceData.from_datatree(tree)
    found.attrs = tree.attrs
    return found


def _dataset(variables: Variables, labels: Mapping[str, Sequence[Any]], drawn: bool = True) -> Any:
    """Variables with their coordinates; where they are not `drawn`, they have no axes of draws and chains."""
    from xarray import Dataset, Variable

    before = ("chain", "draw") if drawn else ()
    content = {
        exported(name): Variable((*before, *map(exported, axes)), np.swapaxes(values, 0, 1) if drawn else values)
        for name, (values, axes) in variables.items()
    }
    sizes = {str(axis): size for own in content.values() for axis, size in own.sizes.items()}
    named = {exported(axis): list(places) for axis, places in labels.items()}
    for axis, size in sizes.items():
        if len(named.setdefault(axis, list(range(size)))) != size:
            raise TraceError(f"the axis {axis!r} has {size} places, and {len(named[axis])} names in coords")
    return Dataset(content, coords={axis: (axis, np.asarray(named[axis])) for axis in sizes})
