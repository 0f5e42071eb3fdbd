"""The traces of shards as one."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import Array
from xpsample.metrics.arrival import side_by_side
from xpsample.trace.diagnosis import own_findings
from xpsample.trace.recorders import Recorder
from xpsample.trace.summary import RunStatistics
from xpsample.trace.trace import Trace


class Start(NamedTuple):
    """What tells, at the start positions of all chains, which arrays are of the chains: those that are cut with them.

    ``chains`` is the length of the first chain axis; ``recorded`` has a row of each `Record`, by name, and ``warmup``
    one of the path of the warm-up, or None.
    """

    chains: int
    recorded: Mapping[str, tree.Tree]
    warmup: Mapping[str, Array] | None


def join(traces: Sequence[Trace], recorders: Sequence[Recorder], start: Start) -> Trace:
    """The traces of shards as one, with their chains side by side."""
    first = traces[0]
    chains = [np.shape(trace.run_statistics.moved)[0] for trace in traces]

    def joined(parts: Sequence[Any], axis: int | None) -> Any:
        return None if parts[0] is None else tree.map(partial(_side_by_side, axis, 0), *parts)

    def compared(rows: tree.Tree, parts: Sequence[tree.Tree], path: bool = False) -> Any:
        """Parts (draw, ...) put side by side where rows of all chains are as long as these are many, and parts, too."""

        def one(row: Array, *own: np.ndarray) -> np.ndarray:
            lengths = row.shape[:1], [part.shape[1:2] for part in own]
            pooled = path and lengths == ((1,), [(1,) for _ in own])
            of_chains = pooled or lengths == ((start.chains,), [(n,) for n in chains])
            return _side_by_side(1 if of_chains else None, 1 if path else 0, *own)

        return tree.map(one, rows, *parts)

    recorded = {}
    for recorder in recorders:
        if recorder.name in first.recorded:
            parts, row = [trace.recorded[recorder.name] for trace in traces], start.recorded.get(recorder.name)
            recorded[recorder.name] = joined(parts, recorder.chain_axis) if row is None else compared(row, parts)
    paths = [trace.warmup for trace in traces]
    state = tuple(trace.state for trace in traces)
    found = own_findings([r for r in recorders if r.name in recorded], recorded, state)
    begins = np.cumsum([0, *chains])
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
        run_statistics=_statistics([trace.run_statistics for trace in traces], chains),
        state=state,
        metadata=first.metadata | {"shards": len(traces), "diagnosis": known},
        warmup=joined(paths, 1) if start.warmup is None else compared(start.warmup, paths, path=True),
    )


def _side_by_side(axis: int | None, shards: int, *leaves: np.ndarray) -> np.ndarray:
    """Arrays of shards side by side along an axis.

    Where they have none, the shards get an axis of their own, `shards`; a number that is the same in all of them stays.
    """
    if axis is not None and np.ndim(leaves[0]) > axis:
        return np.concatenate(leaves, axis=axis)
    same = np.ndim(leaves[0]) == 0 and all(np.array_equal(leaf, leaves[0]) for leaf in leaves)
    return leaves[0] if same else np.stack(leaves, axis=shards)


def _statistics(parts: Sequence[RunStatistics], chains: Sequence[int]) -> RunStatistics:
    """Means over steps side by side, and means over chains averaged."""
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
