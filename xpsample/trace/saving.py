"""Traces as files: arrays by name, and NetCDF."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from xpsample.core import tree
from xpsample.core.errors import TraceError
from xpsample.core.registry import to_host
from xpsample.files.archives import write_arrays
from xpsample.files.atomic import write_whole
from xpsample.files.common import sealed
from xpsample.files.structure import structure
from xpsample.trace.conversions import installed


def write_archive(path: Path, kept: dict[str, Any], metadata: dict[str, Any]) -> None:
    """Write all arrays of a tree to an ``.npz``, whole or not at all."""
    write_arrays(path, archived(kept, metadata))


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


def as_attributes(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata as NetCDF takes it: text and numbers of 64 bits as they are, anything else as JSON."""

    def fits(value: Any) -> bool:
        return isinstance(value, (str, float)) or (type(value) is int and abs(value) < 2**63)

    own = {key: value if fits(value) else as_json(key, value) for key, value in metadata.items()}
    return own | {"inference_library": "xpsample"}


def write_netcdf(path: Path, content: Any) -> None:
    """Write a DataTree to a file, whole or not at all."""
    installed("h5netcdf", 'writing .nc needs h5netcdf: pip install "xpsample[io]"')
    # Made in memory: where a disk is full, HDF5 ends the process when it closes its file.
    write_whole(path, content.to_netcdf(engine="h5netcdf"))


def as_json(what: str, value: Any) -> str:
    """Text, of arrays as lists."""
    try:
        return json.dumps(value, default=lambda array: to_host(array).tolist())
    except (TypeError, ValueError) as error:
        raise TraceError(f"{what} cannot be written as JSON: {error}") from error
