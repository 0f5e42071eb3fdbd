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
from xpsample.files.common import digest_of, unsealed
from xpsample.files.structure import structure, template
from xpsample.trace.conversions import installed
from xpsample.trace.stored import READING, StoredRows, handling

METADATA = "zarr.json"
"""The file of each array and group."""

ABOUT = "xpsample"
"""The attribute of the root that tells of the run, as JSON."""


def content_of(group: Any, key: str) -> Any:
    """What the store of a group has under a key, as zarr's buffer."""
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    found = sync(group.store.get(key, default_buffer_prototype()))
    if found is None:
        raise FileNotFoundError(f"{key} is missing")
    return found


def put_content(store: Any, key: str, content: Any) -> None:
    """Put a buffer of zarr's into one of its stores."""
    from zarr.core.sync import sync

    sync(store.set(key, content))


def node_digest(group: Any, node: str) -> str:
    """A digest of the metadata of an array or a group, but for how many rows an array has room for."""
    content = json.loads(content_of(group, f"{node}/{METADATA}").to_bytes())
    if content["node_type"] == "array":
        content["shape"] = content["shape"][1:]
    return digest_of(content)


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
    """The arrays of a store, by their names in a trace."""
    with handling(where, "read", READING):
        group = zarr3().open_group(where, mode="r", zarr_format=3)
        for node, digest in about["nodes"].items():
            if node_digest(group, node) != digest:
                raise ValueError(f"{node}/{METADATA} is not as it was written")

        def view(name: str, place: Sequence[Any], values: dict[str, StoredRows] | None = None) -> StoredRows:
            node, shape = place
            return StoredRows(where, name, group[node], (rows, *shape), like, values)

        values = {name: view(name, place) for name, place in about["values"].items()}
        return {name: view(name, place, values if name == "draws" else None) for name, place in about["arrays"].items()}


def open_datatree(where: str, rows: int) -> Any:
    """A store as an ``xarray.DataTree`` for ArviZ, whose numbers are read when they are used."""
    xarray = installed("xarray", 'to_arviz() needs xarray: pip install "xpsample[arviz]"')
    with handling(where, "read", READING):
        about = read_about(where)
        assert about is not None
        for own in stored_rows(where, about, rows).values():
            own.check()
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
