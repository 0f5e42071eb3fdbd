"""What of a trace tables, pictures and the diagnosis look at: columns of numbers, and what they are called."""

from collections.abc import Mapping
from typing import Any

from xpsample.core.arrays import Array
from xpsample.core.errors import TraceError
from xpsample.core.registry import backend_of
from xpsample.spaces.named import Named, named, named_from_json
from xpsample.trace.stored import StoredColumns, StoredRows


def space_of(metadata: Mapping[str, Any]) -> Named | None:
    """Where the parameters of a model live, or positions "x" that are no vectors."""
    if "space" in metadata:
        from xpsample.spaces.json_form import space_from_json  # which imports all spaces

        return named({"x": space_from_json(metadata["space"])})
    known = metadata.get("parameters")
    return None if known is None else named_from_json(known)


def columns_of(draws: Array | StoredRows, space: Named | None) -> Array | StoredColumns:
    """Columns (draw, *chains, column) of draws (draw, *chains, dim)."""
    if isinstance(draws, StoredRows):
        if space is None:
            return draws.columns()
        parts = [(draws.values[name], space.varying(name)) for name in space.names]
        return StoredColumns(parts, draws.shape[1:-1])
    return draws if space is None else space.columns(backend_of(draws).xp, draws)


def labels_of(space: Named | None, metadata: Mapping[str, Any], dim: int) -> tuple[str, ...]:
    """What the columns of draws are called."""
    if space is not None:
        return space.labels
    return names_in(metadata, dim) or tuple(f"x[{i}]" for i in range(dim))


def names_in(metadata: Mapping[str, Any], dim: int) -> tuple[str, ...]:
    """Names of so many coordinates from the metadata, or none."""
    names = tuple(map(str, metadata.get("names") or ()))
    if names and len(names) != dim:
        raise TraceError(f'metadata["names"] has {len(names)} names for {dim} coordinates')
    return names
