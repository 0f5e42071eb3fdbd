"""Traces: the draws, statistics and recorded results of a run, as the user's own arrays, and their files."""

import json
import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xpsample.core import tree
from xpsample.core.archives import read_arrays, reading, structure, template, write_arrays
from xpsample.core.atomic_files import replacing
from xpsample.core.checks import check_path
from xpsample.core.errors import TraceError
from xpsample.core.registry import backend_of, to_host
from xpsample.run.checkpoint import load_folder
from xpsample.run.summary import RunStatistics, Summary, summarize

Array = Any

SCHEMA = 1
"""Version of the `.npz` layout. Raised when a file of the new layout could be misread by the old reader."""

ARVIZ_NAMES = {"acceptance_probability": "acceptance_rate", "diverged": "diverging", "log_density": "lp"}
"""Statistics that ArviZ knows by another name; the others keep theirs."""


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """The result of a run.

    Attributes
    ----------
    draws : array, shape (draw, *chains, dim), or None
        Positions, in the user's library and on the user's device; None if the run did not record them.
    statistics : dict of str to array, each of shape (draw, *chains)
        For example ``acceptance_probability``, ``moved``, ``diverged``, ``log_density``.
    recorded : dict of str to tree of arrays
        Results of other recorders, by recorder name.
    run_statistics : RunStatistics
        Means and counts over all steps after burn-in.
    state : tree of arrays, or None
        The kernel's state after the last step; not saved by `save`.
    metadata : dict
        JSON-able: kernel, backend, dtype, device, seed, burn-in, thinning, seconds, version of xpsample. The
        optional key ``names`` names the coordinates.
    """

    draws: Any
    statistics: dict[str, Array]
    recorded: dict[str, Any]
    run_statistics: RunStatistics
    state: Any
    metadata: dict[str, Any]

    def __repr__(self) -> str:
        draws = "None" if self.draws is None else f"{tuple(self.draws.shape)} {self.draws.dtype}"
        kept = "".join(
            f", {field}={sorted(values)}"
            for field, values in (("statistics", self.statistics), ("recorded", self.recorded))
            if values
        )
        about = "".join(f", {key}={self.metadata[key]!r}" for key in ("kernel", "backend") if key in self.metadata)
        return f"Trace(draws={draws}{kept}{about})"

    def summary(self) -> Summary:
        """Mean, standard deviation, standard error, ESS and R-hat of every coordinate, over all chains.

        With arviz-stats installed the bulk and tail ESS and R-hat are rank-normalised; without it they are
        those of `xpsample.metrics.convergence`, with the tail ESS taken from the indicators of both tails.
        `Summary.method` says which. The draws are copied to the host.

        Returns
        -------
        Summary
            Host arrays of shape (dim,).

        Raises
        ------
        TraceError
            If the trace holds no draws, or ``metadata["names"]`` does not fit them.

        Notes
        -----
        Vehtari, Gelman, Simpson, Carpenter and Bürkner, Bayesian Analysis 16 (2021) 667-718.
        """
        draws = self._host_draws().astype(np.float64)
        names = self._names(draws.shape[-1]) or tuple(f"x[{i}]" for i in range(draws.shape[-1]))
        return summarize(draws, names, self.run_statistics)

    def to_arviz(self) -> Any:
        """The draws and statistics as an ArviZ DataTree, on the host.

        All chain axes become one. The draws are ``posterior["x"]`` with dimensions (chain, draw, x_dim);
        statistics are in ``sample_stats`` under ArviZ's names (``acceptance_rate``, ``diverging``, ``lp``).
        The metadata and the run statistics are attributes, as JSON where they are neither text nor a number. Results
        of other recorders are left out.

        Returns
        -------
        xarray.DataTree

        Raises
        ------
        ImportError
            If arviz-base is not installed.
        TraceError
            If the trace holds no draws, or ``metadata["names"]`` does not fit them.
        """
        draws = self._host_draws()
        names = self._names(draws.shape[-1])
        try:
            from arviz_base import from_dict
        except ImportError as error:
            raise ImportError('to_arviz() needs arviz-base: pip install "xpsample[arviz]"') from error

        groups = {"posterior": {"x": np.swapaxes(draws, 0, 1)}}
        if self.statistics:
            groups["sample_stats"] = {
                ARVIZ_NAMES.get(name, name): np.swapaxes(_one_chain_axis(to_host(values)), 0, 1)
                for name, values in self.statistics.items()
            }
        attributes = {
            key: value if _fits_attribute(value) else _json(key, value)
            for key, value in (self.metadata | {"run_statistics": dict(vars(self.run_statistics))}).items()
        }
        return from_dict(
            groups,
            dims={"x": ["x_dim"]},
            coords={"x_dim": list(names)} if names else None,
            attrs={"/": attributes | {"inference_library": "xpsample"}},
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to a file, whole or not at all: a killed write leaves the old file.

        Parameters
        ----------
        path : path
            ``*.npz`` keeps everything but the state, and is read back by `load`. ``*.nc`` is `to_arviz` as
            NetCDF, for ArviZ and xarray.

        Raises
        ------
        TraceError
            If the suffix is another one, or something in the trace cannot be written.
        ImportError
            If ``.nc`` is asked for without arviz-base or h5netcdf.
        """
        path = check_path("path", path)
        if path.suffix == ".npz":
            write_arrays(path, self._arrays())
        elif path.suffix == ".nc":
            datatree = self.to_arviz()
            try:
                import h5netcdf  # noqa: F401
            except ImportError as error:
                raise ImportError('writing .nc needs h5netcdf: pip install "xpsample[io]"') from error
            # Made in memory: where a disk is full, HDF5 ends the process when it closes its file.
            content = datatree.to_netcdf(engine="h5netcdf")
            with replacing(path) as temporary:
                temporary.write_bytes(content)
        else:
            raise TraceError(f"cannot save to {path.name!r}: the suffix must be .npz or .nc, not {path.suffix!r}")

    def _arrays(self) -> dict[str, np.ndarray]:
        """All arrays on the host by slash-separated name, and the rest as JSON under ``header``."""
        kept = {
            "draws": self.draws,
            "statistics": self.statistics,
            "recorded": self.recorded,
            "run_statistics": dict(vars(self.run_statistics)),
        }
        try:
            header = {"schema": SCHEMA, "structure": structure(kept), "metadata": self.metadata}
        except TypeError as error:
            raise TraceError(str(error)) from error
        arrays = {"header": np.asarray(_json("metadata", header))}
        for name, leaf in tree.items(kept):
            array = to_host(leaf)
            if array.dtype.kind not in "biufc":
                raise TraceError(
                    f"{name} has dtype {array.dtype}, which .npz cannot hold without pickle; cast it first"
                )
            if name in arrays:
                raise TraceError(f"two arrays would both be saved as {name!r}; avoid '/' in the names of results")
            arrays[name] = array
        return arrays

    def _host_draws(self) -> np.ndarray:
        """Draws on the host, of shape (draw, chain, dim)."""
        if self.draws is None or 0 in self.draws.shape:
            raise TraceError(
                f"this trace holds no draws (recorded: {sorted(self.recorded) or 'nothing'}), so it has no "
                "summary and no ArviZ output: run again and record draws, with steps beyond the burn-in"
            )
        draws = to_host(self.draws)
        return np.reshape(draws, (draws.shape[0], int(np.prod(draws.shape[1:-1])), draws.shape[-1]))

    def _names(self, dim: int) -> tuple[str, ...]:
        """Names of the coordinates from the metadata, or none."""
        names = tuple(map(str, self.metadata.get("names") or ()))
        if names and len(names) != dim:
            raise TraceError(f'metadata["names"] has {len(names)} names for {dim} coordinates')
        return names


def load(path: str | os.PathLike[str], like: Array | None = None) -> Trace:
    """Read a trace that `Trace.save` wrote as ``.npz``, or what a checkpoint holds.

    Parameters
    ----------
    path : path
        The file, or the directory of a checkpoint. Of a run that was killed, or still goes on, the trace has what was
        saved last.
    like : array, optional
        Any array of the library and device to put the draws, statistics and recorded results on; NumPy by
        default. dtypes stay as saved. The run_statistics stays on the host.

    Returns
    -------
    Trace
        Its state is None. A NamedTuple among the recorded results comes back as one of the same name and
        fields.

    Raises
    ------
    TraceError
        If the file is not one of `Trace.save`'s ``.npz``, or has another schema version; if the directory holds no
        checkpoint.
    CheckpointError
        If a checkpoint cannot be read.
    FileNotFoundError
        If there is no such file.
    """
    path = check_path("path", path)
    if path.is_dir():
        try:
            found = load_folder(path)
        except FileNotFoundError as error:
            raise TraceError(f"{path} holds no checkpoint") from error
        trace = _assembled(*found)
    elif path.suffix == ".nc":
        raise TraceError(f"{path.name!r} is NetCDF: read it with arviz_base.from_netcdf or xarray.open_datatree")
    elif not path.exists():
        raise FileNotFoundError(f"there is no file at the path {str(path)!r}")
    else:
        with reading(path, TraceError, "it is damaged, or not a trace saved by xpsample as .npz"):
            arrays = read_arrays(path)
            header = json.loads(arrays.pop("header").item())
            if header["schema"] != SCHEMA:
                raise TraceError(
                    f"{path} has schema version {header['schema']} and this version of xpsample reads {SCHEMA}: "
                    "use the version of xpsample that wrote it"
                )
            trace = _assembled(header["structure"], arrays, header["metadata"])
    if like is None:
        return trace
    backend = backend_of(like)

    def moved(part: tree.Tree) -> tree.Tree:
        return tree.map(lambda array: backend.from_host(array, like), part)

    return replace(trace, draws=moved(trace.draws), statistics=moved(trace.statistics), recorded=moved(trace.recorded))


def _assembled(described: Any, arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> Trace:
    kept = tree.fill(template(described), arrays)
    run_statistics = kept["run_statistics"]
    run_statistics["steps"] = int(run_statistics["steps"])
    run_statistics["evaluations"] = {name: float(count) for name, count in run_statistics["evaluations"].items()}
    return Trace(**kept | {"run_statistics": RunStatistics(**run_statistics)}, state=None, metadata=metadata)


def _one_chain_axis(values: np.ndarray) -> np.ndarray:
    """(draw, *chains) to (draw, chain)."""
    return np.reshape(values, (values.shape[0], int(np.prod(values.shape[1:]))))


# ---- files -------------------------------------------------------------------------------------------------


def _fits_attribute(value: Any) -> bool:
    """Whether NetCDF takes `value` as it is: text or a number of 64 bits."""
    return isinstance(value, (str, float)) or (type(value) is int and abs(value) < 2**63)


def _json(what: str, value: Any) -> str:
    try:
        return json.dumps(value, default=lambda array: to_host(array).tolist())
    except (TypeError, ValueError) as error:
        raise TraceError(f"{what} cannot be written as JSON: {error}") from error
