"""A store of rows as a whole, for reading."""

import json
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.core.errors import StoreError
from xpsample.files.common import sealed, unsealed
from xpsample.files.structure import structure, template
from xpsample.trace.conversions import installed
from xpsample.trace.stored import READING, StoredRows, handling

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
    """Whether a store is at an address such as ``s3://...`` and not in a folder."""
    return "://" in where


def read_about(where: str) -> dict[str, Any] | None:
    """What a store tells of its run; None where there is none. StoreError if it is not ours, or cannot be read."""
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
    """The trace of what a store holds: the structure of its parts, their arrays by name, and the metadata.

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
            # Of rows, those that count, so that zarr knows how many chunks must be there.
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
    """What `_packed` made JSON values of."""
    return {
        name: np.frombuffer(b64decode(value[2]), value[0]).reshape(value[1]) if isinstance(value, list) else value
        for name, value in packed.items()
    }
