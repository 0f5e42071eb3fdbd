"""Checkpoints: a directory of npz files, and one JSON file that lists those that count.

``run.json`` is replaced atomically and last, so a run that is killed at any moment leaves the previous checkpoint
intact. Nothing is pickled.
"""

import hashlib
import json
import time
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import is_array
from xpsample.core.atomic_files import replacing
from xpsample.core.checks import check_number, check_path, settle
from xpsample.core.errors import CheckpointError
from xpsample.core.registry import to_host
from xpsample.targets.point import Point

SCHEMA = 1


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a run is saved.

    Parameters
    ----------
    path : path
        A directory, made where missing.
    every : float
        Seconds between saves, at least; saves happen at block boundaries, and at the end.
    """

    path: str | Path
    every: float = 60.0

    def __post_init__(self) -> None:
        settle(self, "path", check_path)
        settle(self, "every", check_number, 0, closed=True, infinite=True)


class Saved(NamedTuple):
    """What a checkpoint holds, on the host."""

    step: int
    carry: dict[str, np.ndarray]
    statistics_steps: int
    run_statistics: dict[str, np.ndarray]
    rows: dict[str, list[np.ndarray]]


class Store:
    """A run's checkpoint directory."""

    def __init__(self, settings: Checkpoint, identity: dict[str, Any], start: Point) -> None:
        self.path, self.every = Path(settings.path), settings.every
        self.identity = identity
        self.start = _summary(start)
        self.shards: list[list[Any]] = []
        self.last = time.monotonic()
        self.step = -1

    def load(self) -> Saved | None:
        """The checkpoint there, or None.

        Raises
        ------
        CheckpointError
            If it belongs to another run, or cannot be read.
        """
        index = self.path / "run.json"
        if not index.exists():
            return None
        try:
            content = json.loads(index.read_text())
            schema = content["schema"]
        except (OSError, ValueError, KeyError) as error:
            raise CheckpointError(f"{index} cannot be read as a checkpoint: {error}") from error
        if schema != SCHEMA:
            raise CheckpointError(f"{index} has schema version {schema}; this xpsample reads {SCHEMA}")
        theirs, mine = content["identity"], json.loads(json.dumps(self.identity))
        different = [key for key in mine if mine[key] != theirs.get(key)]
        if different:
            lines = "; ".join(f"{key}: {theirs.get(key)} there, {mine[key]} here" for key in different)
            raise CheckpointError(
                f"{self.path} holds the checkpoint of another run ({lines}); remove it, or use another path"
            )
        if not np.allclose(content["start"], self.start, rtol=1e-4):
            raise CheckpointError(
                f"{self.path} holds the checkpoint of another target: at the start positions its log density (or "
                f"score) averaged {content['start']}, now {self.start}; remove it, or use another path"
            )
        self.shards, self.step = content["shards"], content["step"]
        state = _read(self.path / content["state"])
        rows: dict[str, list[np.ndarray]] = {}
        for name, _, _ in self.shards:
            for key, array in _read(self.path / name).items():
                rows.setdefault(key, []).append(array)
        carry = {key: array for key, array in state.items() if key.startswith("carry/")}
        return Saved(
            content["step"],
            {key.removeprefix("carry/"): _laid_out(a, state.get(f"order/{key}")) for key, a in carry.items()},
            content["tally_steps"],
            {k.removeprefix("run_statistics/"): v for k, v in state.items() if k.startswith("run_statistics/")},
            rows,
        )

    def save(self, step: int, carry: Any, totals: Any, buffers: Any, rows: int, final: bool) -> None:
        """Save after `step` steps with `rows` rows recorded, if it is time to."""
        if step == self.step or not (final or time.monotonic() - self.last >= self.every):
            return
        self.path.mkdir(parents=True, exist_ok=True)
        saved = self.shards[-1][2] if self.shards else 0
        shards = list(self.shards)
        new = {key: to_host(array[saved:rows, ...]) for key, array in tree.items(buffers)}
        if rows > saved and new:
            name = f"rows-{saved:012d}-{rows:012d}.npz"
            _write(self.path / name, new)
            shards.append([name, saved, rows])
        state = f"state-{step:012d}.npz"
        arrays = {f"carry/{key}": to_host(leaf) for key, leaf in tree.items(carry)}
        orders = {f"order/{key}": _order(array) for key, array in arrays.items()}
        arrays |= {key: order for key, order in orders.items() if np.any(np.diff(order) < 0)}
        arrays |= {f"run_statistics/{key}": np.asarray(value) for key, value in totals.sums.items()}
        _write(self.path / state, arrays)
        content = {
            "schema": SCHEMA,
            "identity": self.identity,
            "start": self.start,
            "step": step,
            "tally_steps": totals.steps,
            "state": state,
            "shards": shards,
        }
        with replacing(self.path / "run.json") as temporary:
            temporary.write_text(json.dumps(content, indent=1))
        self.shards, self.step = shards, step
        for old in (*self.path.glob("state-*.npz"), *self.path.glob(".*.tmp")):  # the second are left by killed writes
            if old.name != state:
                old.unlink()
        self.last = time.monotonic()


def describe(value: Any) -> Any:
    """A setting as JSON values, to compare it with another: arrays by a digest, dataclasses by their fields."""
    if is_dataclass(value) and not isinstance(value, type):
        shown = {f.name: describe(getattr(value, f.name)) for f in fields(value) if f.init}
        return {"type": type(value).__name__, **shown}
    if is_array(value):
        host = np.ascontiguousarray(to_host(value))
        digest = hashlib.sha256(host.tobytes()).hexdigest()[:16]
        return {"array": digest, "shape": list(host.shape), "dtype": str(host.dtype)}
    if isinstance(value, (tuple, list)):
        return [describe(v) for v in value]
    if callable(value):
        return getattr(value, "__qualname__", type(value).__name__)
    return value if isinstance(value, (int, float, str, bool, type(None))) else repr(value)


def _summary(point: Point) -> list[float]:
    """A target's values at the start positions, to notice that it changed.

    They tolerate the rounding of another machine.
    """
    values = point.log_density if point.log_density is not None else point.score
    host = to_host(values).astype(np.float64)
    return [float(host.mean()), float(np.abs(host).mean())]


def _order(array: np.ndarray) -> np.ndarray:
    """The axes of an array, from the slowest to the fastest in memory."""
    return np.argsort([-stride for stride in array.strides], kind="stable")


def _laid_out(array: np.ndarray, order: np.ndarray | None) -> np.ndarray:
    """An array with its axes in the given order in memory, on which the rounding of sums depends in some libraries."""
    return array if order is None else np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))


def _read(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error


def _write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
