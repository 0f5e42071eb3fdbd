"""Traces: the draws, statistics and recorded results of a run, as the user's own arrays, and their files."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from xpsample.core.checks import check_instance, check_path
from xpsample.core.errors import TraceError, reading
from xpsample.core.registry import to_host
from xpsample.diagnostics.diagnosis import RunStatistics as RunStatistics
from xpsample.diagnostics.diagnosis import diagnose
from xpsample.diagnostics.findings import Finding
from xpsample.trace import conversions
from xpsample.trace.content import Content
from xpsample.trace.plots import plot, plot_warmup
from xpsample.trace.stored import StoredColumns, StoredRows
from xpsample.trace.summary import INTERVAL, Summary, checked_interval, escaped, tabulate

Array = Any

SHOWN = 10_000_000  # most numbers in draws whose table a notebook shows automatically


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Content):
    """The result of a run.

    Attributes
    ----------
    draws : array or StoredRows, shape (draw, *chains, dim), or None
        Positions, in the user's library and on the user's device; None if the run did not record them. Those of a
        `Model` are unconstrained coordinates: ``trace["tau"]`` has values by name. For a target on a space with a
        shape, such as ``Real(1, 28, 28)``, ``trace["x"]`` has them in this shape. Those of a run with
        ``Draws(store=...)`` are on the disk, with its statistics and recorded values: brackets read a part,
        ``trace.draws[-1]``.
    statistics : dict of str to array, each of shape (draw, *chains)
        For example ``acceptance_probability``, ``moved``, ``diverged``, ``log_density``.
    recorded : dict of str to tree of arrays
        Results of other recorders, by recorder name.
    run_statistics : RunStatistics
        Means and counts over all steps after burn-in.
    state : tree of arrays, or None
        The kernel's state after the last step; not saved by `save`. For a run in shards a tuple with each shard's
        state.
    metadata : dict
        JSON-able: kernel, backend, dtype, device, seed, burn-in, thinning, seconds, version of xpsample. The
        optional key ``names`` names the coordinates, ``parameters`` describes a `Model`'s, and ``space`` the space of
        positions that are no vectors.
    kernel : Kernel, NotKept or None
        The kernel that made the draws, with what the warm-up tuned; a run with it, ``warmup=0`` and the state's
        positions continues where this one ended. A `NotKept` says why
        some files, or shards that were tuned apart, have none.
    warmup : dict of str to array, each of shape (step, ...), or None
        The path of the warm-up: every tuned hyperparameter, such as ``HMC.step_size``, of each group of chains
        ``(step, *groups, 1)``, or for a metric ``(step, *groups, 1, dim)`` of about 1,000 evenly spread coordinates at
        most; and ``acceptance_probability``, ``diverged`` and ``scores``, those evaluated, of each chain. In a run in
        shards, values that do not vary along the first chain axis are (step, shard, ...).
        For `AIS` the path of its pilot; for particles that tune themselves, values at every kept step, with the mean
        acceptance probability of each group. None if nothing was tuned.

    See Also
    --------
    sample : Makes one.
    load : Reads one from a file.

    Examples
    --------
    >>> import numpy as np
    >>> import xpsample as xps
    >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    >>> x0 = np.random.default_rng(0).normal(size=(4, 2))
    >>> trace = xps.sample(target, xps.HMC(), x0, 1000, seed=1)
    >>> trace.draws.shape
    (1000, 4, 2)
    >>> sorted(trace.statistics)
    ['acceptance_probability', 'diverged', 'energy', 'log_density', 'moved']
    >>> summary = trace.summary()
    >>> summary.rhat.shape
    (2,)
    """

    def __repr__(self) -> str:
        draws = "None" if self.draws is None else f"{tuple(self.draws.shape)} {self.draws.dtype}"
        kept = "".join(
            f", {field}={sorted(values)}"
            for field, values in (("statistics", self.statistics), ("recorded", self.recorded))
            if values
        )
        about = "".join(
            f", {key}={self.metadata[key]!r}" for key in ("kernel", "backend", "processes") if key in self.metadata
        )
        return f"Trace(draws={draws}{kept}{about})"

    def _repr_html_(self) -> str:
        """Contents and the table, in a notebook; the table is omitted for very many draws, since it is slow."""
        elsewhere = self.draws is None or isinstance(self.draws, StoredRows) or "processes" in self.metadata
        shown = self._running is not None if elsewhere else 0 < math.prod(self.draws.shape) <= SHOWN
        return f"<p><code>{escaped(repr(self))}</code></p>" + (self.summary()._repr_html_() if shown else "")

    def summary(self, by: int | Sequence[int] | None = None, interval: Sequence[float] = INTERVAL) -> Summary:
        """Mean, standard deviation, interval, standard error, ESS and R-hat of every coordinate, and the findings.

        Chains of the last chain axis are pooled. The other chain axes are groups, such as the settings of a sweep; each
        group has its own figures. The draws are copied to the host.

        Parameters
        ----------
        by : int or sequence of int, optional
            The chain axes that are groups, from 0; ``()`` pools all chains. All but the last when not given.
        interval : sequence of two float
            Probabilities of the quantiles that are the ends of the interval.

        Returns
        -------
        Summary
            Host arrays of shape (*groups, dim).

        Raises
        ------
        TraceError
            If the trace holds neither draws nor `Moments`, `by` or ``metadata["names"]`` does not fit them, or
            `interval` is not two increasing probabilities.

        Notes
        -----
        A run that keeps `Moments` and no draws has a summary of these, with an ESS where it keeps `BatchMeans`, too.

        ESS and R-hat are rank-normalized: Vehtari et al., Bayesian Analysis 16 (2021) 667-718. With 32 or more chains,
        nested R-hat is used: Margossian et al., Bayesian Analysis (2024). On a discrete space whose variables have more
        than two states, each state has a row, of its indicator.
        """
        ends, told, particles = checked_interval(interval), self._running, not self._known.get("chains", True)
        if told is not None:
            if by is not None:
                raise TraceError("the table of running moments has the groups of the run: omit by")
            summary = told.summary(self._labels(told.mean.shape[-1]), self.run_statistics)
            return replace(summary, findings=self.diagnose(), particles=particles, interval=ends)
        columns, labels = self._columns()
        summary = tabulate(columns, labels, self.run_statistics, self.statistics, self._known, self._angles, by, ends)
        return replace(summary, particles=particles)

    def to_dataframe(self, draws: bool = False, interval: Sequence[float] = INTERVAL) -> Any:
        """The summary or, with ``draws=True``, the draws as a pandas DataFrame.

        Parameters
        ----------
        draws : bool
            Whether to return the draws, a row for each draw and chain, in place of the summary.
        interval : sequence of two float
            As in `summary`.

        Returns
        -------
        pandas.DataFrame
            The rows of the summary are the coordinates. The columns of the draws are ``chain``, or ``chain_0``,
            ``chain_1``, ... for several chain axes, ``draw``, and the coordinates by name, such as ``x[0]``.

        Raises
        ------
        ImportError
            If pandas is not installed.
        TraceError
            If the trace holds no draws.

        Examples
        --------
        >>> import numpy as np
        >>> import xpsample as xps
        >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
        >>> trace = xps.sample(target, xps.HMC(), np.zeros((4, 2)), 1000, seed=1)
        >>> list(trace.to_dataframe(draws=True))
        ['chain', 'draw', 'x[0]', 'x[1]']
        """
        if not draws:
            return self.summary(interval=interval).to_dataframe()
        columns, labels = self._columns()
        if isinstance(columns, StoredColumns):
            columns = columns.read(slice(None), range(len(labels)))
        return conversions.frame_of_draws(columns, labels)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write the summary, findings, plots, settings and versions to one HTML file, which needs no network.

        Parameters
        ----------
        path : path
            Such as ``report.html``. An existing file is replaced when the new one is complete.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        TraceError
            If the trace holds neither draws nor `Moments`.

        Examples
        --------
        >>> import numpy as np
        >>> import xpsample as xps
        >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
        >>> trace = xps.sample(target, xps.HMC(), np.zeros((4, 2)), 1000, seed=1)
        >>> trace.report("report.html")
        """
        from xpsample.files.atomic import write_whole  # few runs need these
        from xpsample.trace.report import page

        kinds = ["trace_dist", "rank"] if self.draws is not None else []
        kinds += ["warmup"] if self.warmup else []
        plots = ((kind, partial(self.plot, kind)) for kind in kinds)
        write_whole(check_path("path", path), page(self.summary(), plots, self.metadata).encode())

    def diagnose(self) -> tuple[Finding, ...]:
        """Problems of the run. An empty result is no proof, but each finding is a reason not to use the draws.

        `sample` warns of the same findings at its end. Judged are divergences, chains that never moved, are not finite
        or stay in different modes, R-hat above 1.01, a bulk or tail ESS below 100 for each chain (400 in all for four
        chains or more), resonances of HMC, unadjusted chains that grow, an acceptance probability far from the kernel's
        optimum, extreme first draws, an E-BFMI below 0.3, and the findings of recorders.

        Returns
        -------
        tuple of Finding
            One of each kind, causes first.

        Notes
        -----
        The work is bounded. A coarse pass over about 260,000 array elements finds the coordinates that look worst; ESS
        and R-hat are exact up to 130,000 elements of these (at least four coordinates), and the ESS of 32 chains is
        scaled up to more chains. `summary` uses all draws.

        The limits follow Vehtari et al. (2021) for R-hat and ESS, of Margossian et al. (2024) for nested R-hat,
        and of Betancourt (2016) and Stan for E-BFMI.
        """
        empty = self.draws is None or 0 in self.draws.shape
        draws, names = (self.draws, ()) if empty else self._columns()
        told = self._running
        return diagnose(
            draws,
            names,
            self.run_statistics,
            self.statistics,
            self._known,
            running=None if told is None else (told.figures, told.draws, told.chains, told.batch),
            angles=self._angles,
        )

    def plot(self, kind: str = "trace_dist", names: Sequence[str] | None = None) -> Any:
        """Draw the trace with matplotlib, under ArviZ's names for plots.

        Parameters
        ----------
        kind : str
            ``"trace_dist"``, the marginal of each coordinate next to the path of its chains; ``"rank"``, the ranks of
            each chain's draws, which are even where the chains agree; ``"pair"``, each two coordinates, with divergent
            draws in red; ``"warmup"``, what was tuned, step by step.
        names : sequence of str, optional
            Coordinates, such as ``"x[0]"``, or parameters of a `Model`, such as ``"theta"`` for all of its values. The
            first 8, or 5 for ``"pair"``, when not given.

        Returns
        -------
        matplotlib.figure.Figure
            All chain axes are one. A title says how many coordinates are omitted. With more than 8 chains, 8 are
            drawn. If draws in a store have more than 16 million values, an evenly spread part is drawn.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        TraceError
            If the trace holds no draws, or no warm-up, or a name or a kind is unknown.

        Examples
        --------
        >>> import numpy as np
        >>> import xpsample as xps
        >>> target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
        >>> trace = xps.sample(target, xps.HMC(), np.zeros((4, 2)), 1000, seed=1)
        >>> figure = trace.plot("rank")
        """
        if kind == "warmup":
            if self.warmup is None:
                raise TraceError("there is no warm-up to plot: nothing was tuned in this run")
            return plot_warmup({name: to_host(values) for name, values in self.warmup.items()})
        columns, labels = self._columns()
        return plot(kind, columns, labels, names, self.statistics.get("diverged"))

    def to_arviz(
        self,
        *,
        log_likelihood: Any = None,
        posterior_predictive: Any = None,
        prior: "Trace | None" = None,
        prior_predictive: Any = None,
        observed_data: Any = None,
        dims: Mapping[str, Any] | None = None,
        coords: Mapping[str, Any] | None = None,
    ) -> Any:
        """The draws and statistics on the host, for the ArviZ that is installed, and what follows from the draws.

        All chain axes become one. The draws are ``posterior["x"]`` with dimensions (chain, draw, x_dim); those
        of a `Model` are there by name, with its `dims` and `coords`. Statistics are in ``sample_stats`` under ArviZ's
        names (``acceptance_rate``, ``diverging``, ``lp``). A slash in a name becomes a dot, since ArviZ has none.
        The metadata and the run statistics are attributes, as JSON where they are neither text nor a number. Results
        of other recorders are omitted. Walkers are chains there, with coordinates ``ensemble`` and ``walker``.

        Parameters
        ----------
        log_likelihood : array or mapping of str to array, each of shape (draw, *chains, *observations), optional
            The log density of each observation at each draw, such as ``trace.map(f)``: what `arviz.loo` and
            `arviz.compare` take. Here and below an array alone is called ``y``; a mapping has a name for each.
        posterior_predictive : array or mapping of str to array, each of shape (draw, *chains, *observations), optional
            Observations simulated at each draw.
        prior : Trace, optional
            Draws of the prior.
        prior_predictive : array or mapping of str to array, each of shape (draw, *chains, *observations), optional
            Observations simulated at each draw of `prior`.
        observed_data : array or mapping of str to array, each of shape (*observations), optional
        dims : mapping of str to str or sequence of str, optional
            Names for the axes of observations, ``{"y": "school"}``.
        coords : mapping of str to sequence, optional
            What the places along such an axis are called, where a model's own `coords` do not say it.

        Returns
        -------
        xarray.DataTree or arviz.InferenceData
            An InferenceData where ArviZ is older than 1.0, which is what PyMC before version 6 brings and takes.

        Raises
        ------
        ImportError
            If xarray is not installed.
        TraceError
            If the trace holds no draws, or what is given, or ``metadata["names"]``, does not fit them.

        Examples
        --------
        >>> import numpy as np
        >>> import xpsample as xps
        >>> y = np.array([0.3, -1.2, 0.8])
        >>> def log_likelihood(p):
        ...     return -0.5 * (y - p.mu[..., None]) ** 2
        >>> model = xps.Model(lambda p: log_likelihood(p).sum(-1), mu=xps.Real())
        >>> trace = xps.sample(model, xps.RWM(), np.zeros((4, 1)), 1000, seed=1)
        >>> data = trace.to_arviz(log_likelihood=trace.map(log_likelihood), observed_data=y)
        >>> data["log_likelihood"]["y"].shape
        (4, 1000, 3)
        """
        found = self._datatree()
        drawn = theirs = self._some_draws().shape[:-1]
        check_instance("prior", prior, Trace, "what sample returns", optional=True)
        if prior is not None:
            conversions.add_prior(found, prior._datatree())
            theirs = prior._some_draws().shape[:-1]
        elif prior_predictive is not None:
            raise TraceError("prior_predictive is simulated at draws of the prior: pass their trace as prior=")
        groups = {
            "posterior_predictive": (posterior_predictive, drawn),
            "log_likelihood": (log_likelihood, drawn),
            "prior_predictive": (prior_predictive, theirs),
            "observed_data": (observed_data, ()),
        }
        labels = {} if self._space is None else dict(self._space.coords)
        conversions.add_observations(found, groups, dims or {}, labels | dict(coords or {}))
        return conversions.as_arviz(found)

    def _datatree(self) -> Any:
        from xpsample.trace import saving  # few runs need it; below, too

        draws = self._some_draws()
        attributes = saving.as_attributes(self.metadata | {"run_statistics": dict(vars(self.run_statistics))})
        if isinstance(draws, StoredRows):
            found = saving.open_datatree(draws.where, len(draws))
            found.attrs = attributes
        else:
            space = self._space
            if space is not None:
                values, labels = {name: (self[name], space.axes(name)) for name in space.names}, dict(space.coords)
            else:
                values = {"x": (draws, ("x_dim",))}
                labels = {"x_dim": self._labels(draws.shape[-1])} if self.metadata.get("names") else {}
            found = conversions.datatree(values, labels, self.statistics, attributes, draws.ndim - 2)
        return conversions.with_walkers(found, draws.shape[-2]) if self._known.get("ensembles") else found

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
            If xarray or h5netcdf is missing for ``.nc``.
        """
        from xpsample.trace import saving
        from xpsample.trace.kernels import packed

        path = check_path("path", path)
        if isinstance(self.draws, StoredRows):
            raise TraceError(f"the draws are in {self.draws.where} already: copy that, and read it with xpsample.load")
        if path.suffix not in (".npz", ".nc"):
            raise TraceError(f"cannot save to {path.name!r}: the suffix must be .npz or .nc, not {path.suffix!r}")
        with reading(path, TraceError, "make its folder, free space, or use another path", "written", OSError):
            if path.suffix == ".nc":
                saving.write_netcdf(path, self._datatree())
                return
            fields = ("draws", "statistics", "recorded", "run_statistics", "warmup")
            kept = {name: getattr(self, name) for name in fields} | {"run_statistics": dict(vars(self.run_statistics))}
            kept["kernel"] = packed(self.kernel)
            saving.write_archive(path, kept, self.metadata)
