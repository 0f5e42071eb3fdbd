"""Traces on a disk: archives of arrays by name, NetCDF, rows in a store; and what has no kernel there."""

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.errors import StoreError, TraceError
from xpsample.core.registry import to_host
from xpsample.core.tree import structure, template
from xpsample.files.archives import write_arrays
from xpsample.files.atomic import write_whole
from xpsample.files.common import sealed, unsealed
from xpsample.trace.conversions import installed
from xpsample.trace.stored import READING, StoredRows, handling


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


ADVICE = "trace.metadata['kernel'] shows it, to be written again, and citation takes that text"


class NotKept:
    """Placeholder that reports, on any access, why there is no kernel."""

    def __init__(self, why: str) -> None:
        self._why = why

    def __repr__(self) -> str:
        return f"<no kernel: {self._why}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # what copies and notebooks look for
            raise AttributeError(name)
        raise TraceError(f"trace.kernel has no {name}, for {self._why}: {ADVICE}")


FROM_A_FILE = NotKept("files hold no kernel with user code")
OF_SHARDS = NotKept("each shard was tuned for itself")


METADATA = "zarr.json"
"""The file of each array and group."""

ABOUT = "xpsample"
"""The attribute of the root that tells of the run, as JSON."""


def attributes(about: dict[str, Any]) -> dict[str, str]:
    """The attributes of the root."""
    return {ABOUT: json.dumps(sealed(about))}


def zarr3() -> Any:
    """The zarr package; ImportError if it is not installed."""
    advice = 'a store of draws needs zarr 3: pip install "xpsample[io]"'
    installed("zarr.dtype", advice)
    return installed("zarr", advice)


def is_address(where: str) -> bool:
    """Return whether a store is at an address such as ``s3://...`` and not in a folder."""
    return "://" in where


def read_about(where: str) -> dict[str, Any] | None:
    """Metadata of a store's run; None if there is none. StoreError if it is not ours, or cannot be read."""
    zarr = zarr3()
    with handling(where, "read", READING):
        try:
            attributes = zarr.open_group(where, mode="r", zarr_format=3).attrs.asdict()
        except FileNotFoundError:  # zarr's word for a group that says to be something else, too
            if not is_address(where) and (Path(where) / METADATA).exists():
                raise
            return None
        if ABOUT not in attributes:
            raise StoreError(f"{where} is a zarr group of something else: use another path")
        return unsealed(where, json.loads(attributes[ABOUT]), StoreError, "another path", METADATA)


def load_store(where: str) -> tuple[Any, dict[str, Any], dict[str, Any]] | None:
    """Return the trace in a store: the structure of its parts, their arrays by name, and the metadata.

    None where it holds no draws; a run may be making it just now.
    """
    about = read_about(where)
    if about is None or about["rows"] == 0:
        return None
    arrays = stored_rows(where, about, about["rows"])
    kept = tree.fill(template(about["structure"]), arrays) | {"run_statistics": _unpacked(about["run_statistics"])}
    return structure(kept), dict(tree.items(kept)), about["metadata"]


def stored_rows(where: str, about: dict[str, Any], rows: int, like: Array | None = None) -> dict[str, StoredRows]:
    """The first rows of a store's arrays, by their names in a trace."""
    with handling(where, "read", READING):
        zarr, nodes = zarr3(), {}
        group = zarr.open_group(where, mode="r", zarr_format=3)
        for node, known in about["nodes"].items():
            array, labels = group[node], known["shape"][0] > 0
            found = {
                "shape": [*array.shape] if labels else [0, *array.shape[1:]],
                "chunks": [*array.chunks],
                "dtype": "string" if array.dtype.kind in "OT" else str(array.dtype),
                "dimension_names": [*(array.metadata.dimension_names or ())],
            }
            if found != known:
                raise ValueError(f"{node}/{METADATA} is not as it was written")
            if labels and array.nchunks_initialized != array.nchunks:
                raise ValueError(f"parts of {node} are missing")
            if not labels and array.shape[0] < rows:
                raise ValueError(f"it has {array.shape[0]} rows of {node}, and {rows} were counted")
            # Only the valid rows, so that zarr knows how many chunks must be there.
            shape = array.shape if labels else (rows, *array.shape[1:])
            nodes[node] = zarr.Array.from_dict(array.store_path, array.metadata.to_dict() | {"shape": shape})

        def view(name: str, place: Sequence[Any], values: dict[str, StoredRows] | None = None) -> StoredRows:
            node, shape = place
            return StoredRows(where, name, nodes[node], (rows, *shape), like, values)

        values = {name: view(name, place) for name, place in about["values"].items()}
        return {name: view(name, place, values if name == "draws" else None) for name, place in about["arrays"].items()}


def complete_rows(where: str, about: dict[str, Any], rows: int) -> None:
    """Raise StoreError unless a store has all chunks of its first rows."""
    for own in stored_rows(where, about, rows).values():
        for part in (own, *own.values.values()):
            part.check()


def open_datatree(where: str, rows: int) -> Any:
    """A store as an ``xarray.DataTree`` for ArviZ, whose numbers are read when they are used."""
    xarray = installed("xarray", 'to_arviz() needs xarray: pip install "xpsample[arviz]"')
    with handling(where, "read", READING):
        about = read_about(where)
        assert about is not None
        complete_rows(where, about, rows)
        groups: dict[str, list[str]] = {}
        for node, _ in (*about["arrays"].values(), *about["values"].values()):
            group, _, name = node.rpartition("/")
            groups.setdefault(group, []).append(name)

        def dataset(group: str, names: list[str], kept: list[str]) -> Any:
            """Some of the arrays of a group, and the labels of their axes."""
            left_out = [name for name in names if name not in kept]
            settings: dict[str, Any] = {"consolidated": False, "chunks": None, "drop_variables": left_out}
            return xarray.open_dataset(where, engine="zarr", group=group, **settings).isel(draw=slice(rows))

        def datasets(group: str, names: list[str]) -> Any:
            try:
                return dataset(group, names, names)
            except ValueError:  # some have rows already that do not count, and the others have not
                parts = {name: dataset(group, names, [name]) for name in names}
                return parts[names[0]].assign({name: part[name] for name, part in parts.items()})

        return xarray.DataTree.from_dict({group: datasets(group, names) for group, names in groups.items()})


def _unpacked(packed: dict[str, Any]) -> dict[str, Any]:
    """Inverse of `_packed`."""
    return {
        name: np.frombuffer(b64decode(value[2]), value[0]).reshape(value[1]) if isinstance(value, list) else value
        for name, value in packed.items()
    }
