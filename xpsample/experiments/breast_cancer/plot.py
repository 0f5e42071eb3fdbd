"""The figure of the breast-cancer experiment."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xpsample.experiments.figures import tidy
from xpsample.experiments.runner import Run
from xpsample.experiments.table import Row
from xpsample.trace.trace import Trace

# Okabe-Ito colors, safe for color-blind readers: one hue for a base kernel, its darker neighbor with repellence.
COLOURS = {"MALA": "#E69F00", "SR-MALA": "#B3440A", "HMC": "#56B4E9", "SR-HMC": "#00568A"}
GREY = "#6b6b6b"
TRACED_CHAINS = 3
TRACED_DRAWS = 200


def plot(figure: Any, run: Run[Any], rows: Sequence[Row]) -> None:
    """Intervals, traces and errors of the first device, and the speeds of all."""
    traces, reference, names = (run.shown[key] for key in ("traces", "reference", "names"))
    figure.set_size_inches(15, 11.5)
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.05))
    _intervals(left.subplots(), traces, reference, names)
    above, below = right.subfigures(2, 1, height_ratios=(1.25, 1))
    _traces(above, traces, reference, names)
    errors, speeds = below.subplots(1, 2)
    _errors(errors, traces, reference)
    _speeds(speeds, rows)
    figure.suptitle(
        "Which measurements tell a malignant breast mass?  Bayesian logistic regression, Wisconsin data",
        fontsize=15,
        fontweight="bold",
    )


def _clean(axes: Any, title: str) -> None:
    tidy(axes)
    axes.tick_params(colors=GREY, labelcolor="black", labelsize=9)
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold")


def _intervals(axes: Any, traces: Mapping[str, Trace], reference: Any, names: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    order = np.argsort(np.abs(reference.mean))  # the largest ends on top
    rows = np.arange(len(order))
    for k, (kernel, trace) in enumerate(traces.items()):
        flat = np.reshape(trace.draws, (-1, len(names)))[:, order]
        low, quarter, middle, three_quarters, high = np.quantile(flat, (0.05, 0.25, 0.5, 0.75, 0.95), axis=0)
        y = rows + 0.3 - 0.6 * k / max(len(traces) - 1, 1)
        axes.hlines(y, low, high, color=COLOURS[kernel], linewidth=1.1)
        axes.hlines(y, quarter, three_quarters, color=COLOURS[kernel], linewidth=3.2)
        axes.plot(middle, y, ".", color="white", markersize=2.5)
    axes.vlines(reference.mean[order], rows - 0.42, rows + 0.42, color="black", linewidth=1)
    axes.axvline(0, color=GREY, linewidth=0.8, linestyle=":")
    for row in rows[::2]:
        axes.axhspan(row - 0.5, row + 0.5, color="#f4f4f4", zorder=0, linewidth=0)
    axes.set_yticks(rows, [names[i] for i in order])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel("coefficient of the standardized measurement   (benign  ←  0  →  malignant)")
    _clean(axes, f"Posterior: 50 % and 90 % intervals ({next(iter(traces.values())).metadata['backend']})")
    handles = [Line2D([], [], color=COLOURS[k], linewidth=3, label=k) for k in traces]
    handles.append(Line2D([], [], color="black", linewidth=1, label="reference mean"))
    axes.legend(handles=handles, loc="upper left", frameon=False, fontsize=10)


def _traces(figure: Any, traces: Mapping[str, Trace], reference: Any, names: Sequence[str]) -> None:
    slowest = int(np.argmin(next(iter(traces.values())).summary().ess_bulk))
    panels = np.atleast_1d(figure.subplots(len(traces), 1, sharex=True, sharey=True))
    mean, sd = reference.mean[slowest], reference.sd[slowest]
    for axes, (kernel, trace) in zip(panels, traces.items(), strict=True):
        cost = _evaluations_per_draw(trace)
        shown = trace.draws[:TRACED_DRAWS, :TRACED_CHAINS, slowest]
        axes.axhspan(mean - 1.645 * sd, mean + 1.645 * sd, color="#ececec", zorder=0, linewidth=0)
        axes.axhline(mean, color="black", linewidth=0.8)
        for chain, alpha in zip(shown.T, (1.0, 0.65, 0.4), strict=False):
            axes.plot(chain, color=COLOURS[kernel], linewidth=0.9, alpha=alpha)
        _clean(axes, "")
        axes.set_xlim(0, 1.17 * len(shown))  # room for the note
        axes.set_ylabel(kernel, color=COLOURS[kernel], fontweight="bold")
        axes.text(
            *(1, 0.5, f"{cost:.0f} evaluations\na draw"),
            transform=axes.transAxes,
            ha="right",
            va="center",
            fontsize=9,
            bbox={"facecolor": "white", "edgecolor": "none"},
        )
    panels[0].set_title(
        f"Traces of “{names[slowest]}”, the slowest coefficient: {TRACED_CHAINS} chains",
        loc="left",
        fontsize=11,
        fontweight="bold",
    )
    panels[-1].set_xlabel("draw after burn-in (gray: 90 % of the reference, as a normal)")


def _errors(axes: Any, traces: Mapping[str, Trace], reference: Any) -> None:
    for kernel, trace in traces.items():
        count = np.arange(1, len(trace.draws) + 1)
        running = np.cumsum(trace.draws, axis=0) / count[:, None, None]
        error = np.sqrt(np.mean(((running - reference.mean) / reference.sd) ** 2, axis=(1, 2)))
        axes.loglog(count * _evaluations_per_draw(trace), error, color=COLOURS[kernel], linewidth=1.8, label=kernel)
    axes.set_xlabel("scores + Hessian-vector products of one chain")
    axes.set_ylabel("rms error of one chain's means (posterior sd)")
    axes.grid(which="major", color="#e5e5e5", linewidth=0.6)
    axes.legend(frameon=False, fontsize=9)
    _clean(axes, "Error for the work done")


def _speeds(axes: Any, results: Sequence[Row]) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    homes = list(dict.fromkeys((r["backend"], r["device"], r["dtype"]) for r in results))
    kernels = list(dict.fromkeys(r["kernel"] for r in results))
    height = 0.8 / len(kernels)
    for r in results:
        at = homes.index((r["backend"], r["device"], r["dtype"])) + (kernels.index(r["kernel"]) - 1.5) * height
        axes.barh(at, r["ess_per_second"], height * 0.9, color=COLOURS[r["kernel"]])
        axes.annotate(
            f"{r['ess_per_second']:,.0f}",
            (r["ess_per_second"], at),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=GREY,
        )
    axes.set_yticks(range(len(homes)), [f"{b}\n{d}, {t}" for b, d, t in homes])
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_xlabel("effective draws a second, worst coefficient")
    _clean(axes, "Speed (compilation not counted)")


def _evaluations_per_draw(trace: Trace) -> float:
    spent = trace.run_statistics.evaluations
    return (spent["score"] + spent["hvp"]) * trace.metadata["thinning"]
