"""Checkpoint of a training."""

import hashlib
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import is_array
from xpsample.core.checks import errors_of_functions, given
from xpsample.core.errors import CheckpointError, CheckpointWarning, reading
from xpsample.core.hyperparameters import is_frozen, settings
from xpsample.core.registry import repeated, to_host
from xpsample.core.tree import dtype_name
from xpsample.files.folder import ADVICE, INDEX, Folder, Keeper
from xpsample.sampling.checkpoint import Checkpoint
from xpsample.sampling.identity import environment


class SavedTraining:
    """Checkpoint of a training: state and losses in a file of a `Folder`, with what identifies the training."""

    def __init__(self, checkpoint: str | Path | Checkpoint, training: Any) -> None:
        own = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
        self.path, self.every, self.keeper = Path(own.path), own.every, Keeper(Path(own.path))
        self.training, self.noise = training, training.noise(0, 1)
        self.probe = repeated(training.backend, training.probe)
        self.tolerance = 1e-9 if dtype_name(training.like) == "float64" else 1e-4
        # Without the metadata of a trace `load` says that this is a training.
        self.content: dict[str, Any] = {"identity": _plain(training.identity), "metadata": None}
        self.content["environment"] = environment(training.like)
        self.step, self.last = -1, time.monotonic()

    def values(self, state: Any) -> list[float]:
        """Return the numbers by which functions are known."""
        return to_host(self.probe(state, self.training.data, self.noise)).tolist()

    def load(self, state: Any, losses: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return the saved state and losses, or those before the first epoch if nothing is saved.

        Raises CheckpointError if another training is saved, if files are damaged, or if epochs are left and cannot be
        made or saved here.
        """
        with errors_of_functions("the training failed at its first parameters"):
            self.content["start"] = self.values(state)
        with reading(self.path / INDEX, CheckpointError, ADVICE):
            try:
                folder = Folder(self.path)
            except (FileNotFoundError, NotADirectoryError):
                folder = None
        if folder is not None:
            there, arrays = folder.content, folder.state()
            self._check_same("identity", there, "holds the checkpoint of another training")
            self._check_values("first", there["start"], self.content["start"])
            leaves, found = dict(tree.items(state, "state")), {}
            for name in (name for name in arrays if name.startswith("state/")):
                found[name] = arrays[name].transpose(np.argsort(there["axes"][name]))
            if {n: a.shape for n, a in found.items()} != {n: tuple(leaf.shape) for n, leaf in leaves.items()}:
                raise CheckpointError(f"{self.path} holds another kind of state; remove it, or use another path")
            found = {name: self.training.backend.from_host(array, leaves[name]) for name, array in found.items()}
            state, losses, self.step = tree.fill(state, found, "state"), arrays["losses"], there["step"]
            self._check_values("saved", there["now"], self.values(state))
            self.keeper.go_on(folder)
        if not self.training.finished(state):
            if folder is not None:
                self._check_same("environment", folder.content, "was made on another system, where epochs could differ")
            if self.keeper.failure is not None:
                raise CheckpointError(f"{self.path} cannot be written to ({self.keeper.failure}): use another path")
        return state, losses

    def _check_same(self, part: str, there: dict[str, Any], message: str) -> None:
        old, new = there[part], self.content[part]
        names = [name for name in new | old if str(old.get(name)) != str(new.get(name))]
        lines = [f"{name}: {given(old.get(name))} there, {given(new.get(name))} here" for name in names]
        if names:
            raise CheckpointError(f"{self.path} {message} ({'; '.join(lines)}); remove it, or use another path")

    def _check_values(self, which: str, theirs: list[float], mine: list[float]) -> None:
        # Absolute to the values at the first parameters: at the end, a gradient may consist of rounding errors.
        room = self.tolerance * np.abs(self.content["start"])
        if not np.all(np.isclose(theirs, mine, rtol=self.tolerance, atol=room, equal_nan=True)):
            raise CheckpointError(
                f"{self.path} holds the checkpoint of another training: loss, gradient norm and update norm of the "
                f"{which} parameters were {theirs}, now {mine}. Remove it, or use another path."
            )

    def save(self, state: Any, losses: np.ndarray) -> None:
        """Save what is not saved yet. A failure is a warning: the training is worth more."""
        step, arrays, axes = losses.shape[1], {"losses": losses}, {}
        if step == self.step:
            return
        for name, leaf in tree.items(state, "state"):
            host = to_host(leaf)
            # The order of axes in memory is kept: how some libraries round sums depends on it.
            axes[name] = np.argsort([-stride for stride in host.strides], kind="stable").tolist()
            arrays[name] = np.asarray(host.transpose(axes[name]), order="C")
        content = self.content | {"step": step, "now": self.values(state), "axes": axes}
        try:
            self.keeper.save(step, arrays, {}, 0, content)
            self.step = step
        except (OSError, MemoryError) as error:
            warnings.warn(
                f"the training could not be saved to {self.path} after {step} epochs ({error}). It continues; what was "
                "saved before stays as it is",
                CheckpointWarning,
                stacklevel=3,
            )
        self.last = time.monotonic()


def _plain(values: tree.Tree, prefix: str = "") -> dict[str, Any]:
    """Settings by path as JSON values: arrays by a digest, functions and other objects by the name of their type."""
    found: dict[str, Any] = {}
    for path, leaf in tree.items(values, prefix):
        if is_array(leaf):
            host = np.asarray(to_host(leaf), order="C")
            found[path] = f"{host.dtype} {host.shape} {hashlib.sha256(host.tobytes()).hexdigest()[:16]}"
        elif isinstance(leaf, (bool, int, float, str)):
            found[path] = leaf
        else:
            found[path] = type(leaf).__name__
            if is_frozen(leaf):
                found |= _plain({f.name: value for f, value in settings(leaf)}, path)
    return found
