"""Traces from files and checkpoints, and traces moved to another library."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from xpsample.core import tree
from xpsample.core.arrays import Array, is_array
from xpsample.core.checks import check_path
from xpsample.core.errors import TraceError, reading
from xpsample.core.hyperparameters import arguments, with_arguments
from xpsample.core.registry import backend_of
from xpsample.core.tree import template
from xpsample.diagnostics.diagnosis import RunStatistics
from xpsample.files.archives import read_arrays
from xpsample.files.common import unsealed
from xpsample.kernels.kernel import Kernel
from xpsample.sampling.checkpoint import load_folder
from xpsample.trace.kernels import unpacked
from xpsample.trace.saving import FROM_A_FILE, is_address, load_store
from xpsample.trace.stored import StoredRows
from xpsample.trace.trace import Trace


def load(path: str | os.PathLike[str], like: Array | None = None) -> Trace:
    """Read a trace that `Trace.save` wrote as ``.npz``, or what a checkpoint holds.

    Parameters
    ----------
    path : path
        The file, or the directory of a checkpoint. If the run was killed or is still running, the trace contains
        its last saved state.
    like : array, optional
        Any array of the library and device to put the draws, statistics and recorded results on; NumPy by
        default. dtypes stay as saved. The run_statistics stays on the host.

    Returns
    -------
    Trace
        Its state is None. Its kernel is the tuned one; if it holds user-defined functions or classes, or the draws are
        read from a store, a `NotKept` stands in its place. A NamedTuple among the recorded results comes
        back as one of the same name and fields.

    Raises
    ------
    TraceError
        If the file is not one of `Trace.save`'s ``.npz``, or has another schema version; if the directory holds no
        checkpoint.
    CheckpointError
        If a checkpoint cannot be read.
    FileNotFoundError
        If there is no such file.

    See Also
    --------
    Trace.save : Writes the file.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> from tempfile import TemporaryDirectory
    >>> trace = xps.sample(target, xps.MALA(), x0, 1000, seed=1)
    >>> with TemporaryDirectory() as folder:
    ...     trace.save(f"{folder}/run.npz")
    ...     saved = xps.load(f"{folder}/run.npz")
    >>> bool(np.all(saved.draws == trace.draws))
    True
    """
    where, path = str(path), check_path("path", path)
    if is_address(where) or (path / "zarr.json").exists():
        found = load_store(where)
        if found is None:
            raise TraceError(f"{where} is no store that holds draws")
        trace = _assembled(*found)
    elif path.is_dir():
        try:
            found = load_folder(path)
        except FileNotFoundError as error:
            raise TraceError(f"{path} holds no checkpoint and no store of draws") from error
        trace = _assembled(*found)
    elif path.suffix == ".nc":
        raise TraceError(f"{path.name!r} is NetCDF: read it with arviz_base.from_netcdf or xarray.open_datatree")
    elif not path.exists():
        raise FileNotFoundError(f"there is no file at the path {str(path)!r}")
    elif not path.is_file():  # to read a pipe would wait for ever
        raise TraceError(f"{path} is neither a file nor a folder: pass a file saved by Trace.save, or a checkpoint")
    else:
        with reading(path, TraceError, "it is damaged, or not a trace saved by xpsample as .npz"):
            arrays = read_arrays(path)
            header = unsealed(path, json.loads(arrays.pop("header").item()), TraceError, "sample again", "its header")
            trace = _assembled(header["structure"], arrays, header["metadata"])
    return trace if like is None else moved_to(trace, like)


def moved_to(trace: Trace, like: Array) -> Trace:
    """A trace whose arrays are the host's, with them in the library and on the device of `like`."""
    backend = backend_of(like)

    def moved(array: Any) -> Any:
        return array.on(like) if isinstance(array, StoredRows) else backend.from_host(array, like)

    kernel = trace.kernel
    if isinstance(kernel, Kernel):
        arrays = arguments(kernel, is_array)
        kernel = with_arguments(kernel, {name: moved(a) for name, a in arrays.items() if is_array(a)})
    return replace(on_arrays(trace, moved), kernel=kernel)


def on_arrays(trace: Trace, function: Callable[[Array], Array]) -> Trace:
    """Apply a function to all arrays of a trace except the kernel's arrays."""
    names = ("draws", "statistics", "recorded", "state", "warmup")
    arrays: dict[str, Any] = {name: tree.map(function, getattr(trace, name)) for name in names}
    return replace(trace, **arrays)


def _assembled(described: Any, arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> Trace:
    if not isinstance(metadata, dict):
        raise TraceError("the metadata of the trace are not a mapping of names to values: it was not saved by xpsample")
    kept = tree.fill(template(described), arrays)
    run_statistics = kept["run_statistics"]
    run_statistics["steps"] = int(run_statistics["steps"])
    run_statistics["evaluations"] = {name: float(count) for name, count in run_statistics["evaluations"].items()}
    kernel = kept.get("kernel")
    kept |= {"run_statistics": RunStatistics(**run_statistics), "kernel": (kernel and unpacked(kernel)) or FROM_A_FILE}
    return Trace(**kept, state=None, metadata=metadata)
