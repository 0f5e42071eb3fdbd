"""Joining the traces of shards."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.diagnostics.diagnosis import RunStatistics, own_findings
from xpsample.diagnostics.lagging import side_by_side
from xpsample.trace.recorders import Recorder
from xpsample.trace.trace import Trace


def join(
    traces: Sequence[Trace],
    recorders: Sequence[Recorder],
    chains: int,
    rows: Mapping[str, tree.Tree],
    path: Mapping[str, Array] | None,
) -> Trace:
    """Join the traces of shards, with their chains side by side.

    A row of a recorder without a declared chain axis (by name, in `rows`) and a row of the warm-up `path`, both at the
    initial positions of all ``chains``, show which axis has the chains: the one that is shorter in the shards.
    """
    first = traces[0]
    own = [np.shape(trace.run_statistics.moved)[0] for trace in traces]

    def compared(rows: tree.Tree, parts: Sequence[tree.Tree], shard_axis: int) -> Any:
        def one(row: Array, *leaves: np.ndarray) -> np.ndarray:
            """Join arrays (draw, ...); a row is (...)."""
            lengths = ((n, [leaf.shape[axis] for leaf in leaves]) for axis, n in enumerate(row.shape, 1))
            found = [axis for axis, length in enumerate(lengths, 1) if length == (chains, own)]
            return _side_by_side(found[0] if found else None, shard_axis, *leaves)

        return tree.map(one, rows, *parts)

    def joined(parts: Sequence[Any], axis: int | None) -> Any:
        return None if parts[0] is None else tree.map(partial(_side_by_side, axis, 0), *parts)

    recorded = {}
    for recorder in recorders:
        if recorder.name in first.recorded:
            parts, row = [trace.recorded[recorder.name] for trace in traces], rows.get(recorder.name)
            recorded[recorder.name] = joined(parts, recorder.chain_axis) if row is None else compared(row, parts, 0)
    paths = [trace.warmup for trace in traces]
    state = tuple(trace.state for trace in traces)
    found = own_findings([r for r in recorders if r.name in recorded], recorded, state)
    begins = np.cumsum([0, *own])
    told = zip(begins, traces, strict=False)
    of_shards = [(int(i), f) for i, trace in told for f in trace.metadata["diagnosis"].get("findings", ())]
    on_the_way = [f for _, f in of_shards if f["kind"] == "warmup"]
    late = side_by_side([(i, f) for i, f in of_shards if f["kind"] == "behind"])
    found = [*(f.to_json() for f in late), *sorted(on_the_way, key=lambda f: -f["value"])[:1], *found]
    known = first.metadata["diagnosis"] | {"findings": list({json.dumps(f): f for f in found}.values())}
    return Trace(
        draws=joined([trace.draws for trace in traces], 1),
        statistics=joined([trace.statistics for trace in traces], 1),
        recorded=recorded,
        run_statistics=_statistics([trace.run_statistics for trace in traces], own),
        state=state,
        metadata=first.metadata | {"shards": len(traces), "diagnosis": known},
        warmup=joined(paths, 1) if path is None else compared(path, paths, 1),
    )


def _side_by_side(axis: int | None, shard_axis: int, *leaves: np.ndarray) -> np.ndarray:
    """Concatenate arrays of shards along an axis; without one, stack them along a new `shard_axis`.

    A number that is the same in all shards stays a number.
    """
    if axis is not None and np.ndim(leaves[0]) > axis:
        return np.concatenate(leaves, axis=axis)
    same = np.ndim(leaves[0]) == 0 and all(np.array_equal(leaf, leaves[0]) for leaf in leaves)
    return leaves[0] if same else np.stack(leaves, axis=shard_axis)


def _statistics(parts: Sequence[RunStatistics], chains: Sequence[int]) -> RunStatistics:
    """Concatenate statistics per chain, and average means over the chains."""
    fields = ("acceptance_probability", "moved", "diverged")
    weights = np.asarray(chains) / sum(chains)
    return RunStatistics(
        steps=parts[0].steps,
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in fields},
        evaluations={
            name: float(weights @ [part.evaluations.get(name, 0.0) for part in parts])
            for name in dict.fromkeys(name for part in parts for name in part.evaluations)
        },
    )
