"""Draw the charts of pages whose numbers are in a table of the page.

``python docs/make_charts.py`` writes them all into ``_static``. Those of tables have a
transparent ground, for light and dark pages, and stand there with ``:class: clear``.
"""

import math
import re
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

DOCS = Path(__file__).parent
COLOURS = {"NumPy": "#00568A", "torch": "#B3440A", "JAX": "#2F7D32"}
# Those of pictures.py, and two more: on white and on black grounds.
BLUE, RED, GREY, GREEN = "#2e7ebb", "#d1495b", "#7f858f", "#3f9b6c"
ORANGE, PURPLE = "#d9822b", "#9067c6"
CLEAR: Any = {
    "text.color": GREY,
    "axes.labelcolor": GREY,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "font.size": 10,
}
WAYS = {
    "analytic": (BLUE, "-"),
    "forward differences": (GREEN, "-"),
    "central differences": (GREEN, "--"),
    "reverse": (RED, "-"),
    "forward": (ORANGE, "-"),
    "autodiff of torch": (PURPLE, "-"),
    "reverse over reverse": (RED, "--"),
    "forward over reverse": (ORANGE, "--"),
    "autodiff of jax": (PURPLE, "--"),
}
Table = list[dict[str, str]]


def table(page: str, *columns: str) -> Table:
    """Rows of the first table of a page with these columns; an empty first cell has the value of the row above."""
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    start, head = next((i, row) for i, row in enumerate(rows) if {*columns} <= {*row})
    found: Table = []
    for row in rows[start + 2 :]:
        if not row:
            return found
        found.append(dict(zip(head, row, strict=True)))
        found[-1][head[0]] = row[0] or found[-2][head[0]]
    return found


def clear(rows: int, columns: int, size: tuple[float, float], **axes: Any) -> Any:
    """A figure without a ground, and its panels."""
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False, **axes)
    for panel in panels.ravel():
        panel.spines[["top", "right"]].set_visible(False)
        panel.patch.set_visible(False)
    return figure, panels


def save(figure: Figure, name: str) -> None:
    """Write a figure without a ground."""
    figure.savefig(DOCS / "_static" / f"{name}.png", dpi=130, transparent=True)


def set_up(axes: Axes, chains: list[int]) -> None:
    """An axis of chains, in powers of ten."""
    axes.set_xscale("log")
    axes.set_xticks(chains, [f"{n:,}" for n in chains], minor=False)
    axes.minorticks_off()
    axes.set_xlabel("chains")
    axes.spines[["top", "right"]].set_visible(False)


def by_hand() -> None:
    """A step divided by the same step in code by hand, for 1 to 1,000 chains."""
    rows, chains = table("performance.md", "compared with", "MALA, 1"), [1, 100, 1000]
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for row in rows:
        library = row["compared with"].split()[0]
        for kernel, style in (("MALA", "-"), ("HMC", "--")):
            ratios = [float(row[f"{kernel}, {n:,}"]) for n in chains]
            look = {"marker": "o", "color": COLOURS[library]}
            axes.plot(chains, ratios, style, label=f"{library}, {kernel}", **look)
    axes.axhline(1.0, color="#6b6b6b", linewidth=0.8)
    set_up(axes, chains)
    axes.set_ylim(0.0, 2.0)
    axes.set_ylabel("time of a step / code by hand")
    axes.legend(
        ncols=3, frameon=False, fontsize="small", loc="lower center", handlelength=3.0
    )
    figure.savefig(DOCS / "_static" / "by-hand.png", dpi=130)


def libraries() -> None:
    """Time of a step for each chain, for 1 to 10,000 chains of 10 coordinates."""
    rows = table("measurements/2026-11-libraries.md", "kernel", "dim", "library")
    chains = [1, 10, 100, 1000, 10_000]
    figure = Figure(figsize=(7.0, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, sharey=True)
    for row in (row for row in rows if row["dim"] == "10"):
        cells = [row[f"{n:,}"] for n in chains]
        times = [float(cell.strip("*").replace(",", "")) / 1000 for cell in cells]
        look = {"marker": "o", "color": COLOURS[row["library"]]}
        axes = panels[int(row["kernel"] == "HMC")]
        axes.plot(chains, times, label=row["library"], **look)
    for axes, title in zip(panels, ("MALA", "HMC, 10 leapfrog steps"), strict=True):
        set_up(axes, chains)
        axes.set_yscale("log")
        axes.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
        axes.set_title(title, fontsize="medium")
    panels[0].set_ylabel("microseconds of a step\nfor each chain")
    panels[1].legend(frameon=False)
    figure.savefig(DOCS / "_static" / "libraries.png", dpi=130)


def samplers() -> None:
    """Gradients of the samplers of this library, divided by those published for BlackJAX."""
    rows = table("experiments/samplers.md", "target", "sampler", "ours", "published")
    rows = [row for row in rows if row["ratio"]]
    targets = list(dict.fromkeys(row["target"] for row in rows))
    figure, panels = clear(1, 1, (7.0, 3.9))
    axes = panels[0, 0]
    kernels = {"HMC": BLUE, "NUTS": RED, "MAMS": GREEN, "MALA": ORANGE, "MCLMC": PURPLE}
    for i, (sampler, colour) in enumerate(kernels.items()):
        own = [row for row in rows if row["sampler"] == sampler]
        for row in own:
            published = float(row["published"].replace(",", ""))
            counts = re.findall(r"\d+", row["ours"].replace(",", ""))
            ratios = [int(count) / published for count in counts]
            y = targets.index(row["target"]) + 0.14 * (i - 2)
            axes.plot(ratios[1:], [y] * len(ratios[1:]), color=colour, linewidth=1.2)
            axes.plot(ratios[0], y, "o", color=colour, ms=5)
        axes.plot([], [], "o-", color=colour, label=sampler)
    axes.axvline(1.0, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(targets)), [name.strip("`") for name in targets])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xticks([0.1, 0.2, 0.5, 1, 2], ["0.1", "0.2", "0.5", "1", "2"])
    axes.minorticks_off()
    axes.set_xlabel("gradients / the published ones")
    figure.legend(loc="outside upper center", ncols=5, frameon=False)
    save(figure, "samplers")


def binary_networks() -> None:
    """Test log likelihoods of hiss-bnn by sampler, with the paper's and the constants."""
    rows = table("experiments/hiss-bnn.md", "sampler", "RMSE", "paper")
    data = list(dict.fromkeys(row["data, inner steps"] for row in rows))
    samplers = list(dict.fromkeys(r["sampler"].strip("*") for r in rows if r["sd"]))
    figure, panels = clear(1, len(data), (6.4, 3.4), sharey=True, sharex=True)
    for axes, name in zip(panels[0], data, strict=True):
        for row in (row for row in rows if row["data, inner steps"] == name):
            value, sampler = float(row["log likelihood"]), row["sampler"].strip("*")
            if row["sd"]:
                y = samplers.index(sampler)
                axes.errorbar(
                    value, y, xerr=float(row["sd"]), fmt="o", ms=5, color=BLUE
                )
                if row["paper"]:
                    paper = float(row["paper"].split(",")[0])
                    axes.plot(paper, y, "D", color=RED, mfc="none", ms=6)
            else:
                style = "-" if sampler == "the training mean" else ":"
                axes.axvline(value, color=GREY, linestyle=style, linewidth=1)
        axes.set_title(name.split(",")[0], fontsize="medium", loc="left")
    panels[0, 0].set_yticks(range(len(samplers)), samplers)
    panels[0, 0].invert_yaxis()
    panels[0, 1].set_xlabel("test log likelihood: better to the right")
    save(figure, "hiss-bnn")


def binary_energies() -> None:
    """Test log likelihoods of hiss-bnn by sampler at both scales of the energy."""
    rows = table("experiments/hiss-bnn.md", "data, steps", "public code", "printed")
    data = list(dict.fromkeys(row["data, steps"] for row in rows))
    samplers = list(dict.fromkeys(row["sampler"].strip("*") for row in rows))[:-1]
    figure, panels = clear(1, len(data), (6.4, 3.6), sharey=True, sharex=True)
    scales = {"public code": (BLUE, -0.12), "printed": (ORANGE, 0.12)}
    for axes, name in zip(panels[0], data, strict=True):
        *sampled, constant = (row for row in rows if row["data, steps"] == name)
        for (scale, (colour, shift)), (y, row) in product(
            scales.items(), enumerate(sampled)
        ):
            mean, sd = map(float, row[scale].split(" ± "))
            label = scale if name == data[0] and not y else None
            axes.errorbar(
                *(mean, y + shift, None, sd), fmt="o", ms=4, color=colour, label=label
            )
        for y, row in enumerate(sampled):
            if row["paper"]:
                axes.plot(float(row["paper"]), y, "D", color=RED, mfc="none", ms=6)
        axes.axvline(float(constant["public code"]), color=GREY, linewidth=1)
        axes.set_title(name.split(",")[0], fontsize="medium", loc="left")
    panels[0, 0].set_yticks(range(len(samplers)), samplers)
    panels[0, 0].invert_yaxis()
    panels[0, 1].set_xlabel("test log likelihood: better to the right")
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    save(figure, "hiss-bnn-energies")


def small_spaces() -> None:
    """Errors and evaluations of the samplers of hiss-bernoulli and hiss-ising."""
    kinds = {
        "along gradients": (BLUE, ("GWG", "DMALA", "ACS")),
        "tempering": (ORANGE, ("PT",)),
        "HiSS": (RED, ("HiSS",)),
        "without a score": (GREEN, ("single", "Gibbs", "uniform")),
    }
    for name in ("hiss-bernoulli", "hiss-ising"):
        rows = table(f"experiments/{name}.md", "TVD", "pooled TVD", "NFE per draw")
        samplers = [row[""] for row in rows]
        figure, panels = clear(1, 2, (6.2, 4.3), sharey=True, width_ratios=(2, 1))
        errors, costs = panels[0]
        for kind, (colour, starts) in kinds.items():
            for row in (row for row in rows if row[""].startswith(starts)):
                y = samplers.index(row[""])
                error, spread = map(float, row["TVD"].split(" ± "))
                errors.errorbar(error, y, xerr=spread, fmt="o", ms=5, color=colour)
                costs.barh(y, int(row["NFE per draw"]), 0.5, color=colour)
            errors.plot([], [], "o", ms=5, color=colour, label=kind)
        floor = float(rows[-1]["TVD"].split(" ± ")[0])
        errors.axvline(floor, color=GREY, linewidth=0.8)
        errors.plot(floor, len(rows) - 1, "o", ms=5, color=GREY)
        errors.set_yticks(range(len(rows)), samplers)
        errors.invert_yaxis()
        errors.set_xscale("log")
        low, high = errors.get_xlim()
        ticks = [t for t in (0.02, 0.05, 0.1, 0.2, 0.5, 1) if low < t < high]
        errors.set_xticks(ticks, [f"{t:g}" for t in ticks])
        errors.minorticks_off()
        errors.set_xlabel("total variation distance:\nbetter to the left")
        costs.tick_params(left=False)
        most = max(int(row["NFE per draw"] or 0) for row in rows)
        costs.set_xticks([0, most // 2, most])
        costs.set_xlabel("evaluations\nper draw")
        figure.legend(
            loc="outside upper center", ncols=4, frameon=False, handlelength=0.7
        )
        save(figure, name)


def tours() -> None:
    """Lengths of the tours of hiss-tsp by sampler, with the paper's and the shortest."""
    rows = table("experiments/hiss-tsp.md", "sampler", "mean cost", "at the end", "PMC")
    figure, panels = clear(1, 1, (6.2, 3.9))
    axes = panels[0, 0]
    lengths = [float(row["mean cost"]) for row in rows]
    best = [float(row["best"].strip("*")) for row in rows]
    cells = [row[next(key for key in row if "paper" in key)] for row in rows]
    paper = [float(cell.split(",")[0]) if cell else math.nan for cell in cells]
    y = range(len(rows))
    axes.hlines(y, best, lengths, color=BLUE, linewidth=1.2)
    axes.plot(best, y, "|", color=BLUE, ms=11, mew=2, label="best")
    axes.plot(lengths, y, "o", color=BLUE, ms=6, label="mean")
    axes.plot(paper, y, "D", color=RED, mfc="none", ms=6, label="mean in the paper")
    axes.axvline(min(best), color=GREY, lw=0.8, zorder=0, label="shortest tour")
    axes.set_yticks(y, [row["sampler"].strip("*") for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("length of the tours: better to the left")
    figure.legend(loc="outside upper center", ncols=4, frameon=False, columnspacing=1.4)
    save(figure, "hiss-tsp")


def regression_networks() -> None:
    """What self-repulsion changes in srld-bnn, by data set, with the paper's figures."""
    rows = table("experiments/srld-bnn.md", "set", "splits", "paper, RMSE")
    figure, panels = clear(1, 2, (6.2, 0.9 + 0.55 * len(rows)), sharey=True)
    for axes, key in zip(panels[0], ("RMSE", "log likelihood"), strict=True):
        for y, row in enumerate(rows):
            value, spread = map(float, row[key].split(" ± "))
            axes.errorbar(value, y, xerr=spread, fmt="o", ms=5, color=BLUE)
            paper = float(row[f"paper, {key}"])
            axes.plot(paper, y, "D", color=RED, mfc="none", ms=6, zorder=3)
        axes.axvline(0.0, color=GREY, linewidth=0.8)
        better = "left" if key == "RMSE" else "right"
        axes.set_xlabel(f"difference in {key}:\nbetter to the {better}")
    axes = panels[0, 0]
    axes.plot([], [], "o-", color=BLUE, ms=5, label="here")
    axes.plot([], [], "D", color=RED, mfc="none", label="in the paper")
    labels = [f"{row['set']}, {row['splits']} splits" for row in rows]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.6, -0.4)
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    save(figure, "srld-bnn")


def hvps() -> None:
    """The cost of Hessian-vector products in every way, before and with the plain loop."""
    for page in ("2026-11-hvps", "2026-11-hvps-plain-loop"):
        rows = table(f"measurements/{page}.md", "data", "library", "way", "1 chain")
        figure, panels = clear(2, 3, (6.8, 5.6), sharex=True, sharey=True)
        ways: dict[str, Any] = {}
        for line, data in zip(panels, ("100 x 10", "455 x 31"), strict=True):
            for axes, library in zip(line, COLOURS, strict=True):
                for row in rows:
                    way = re.sub('[*`"]', "", row["way"]).replace(
                        "Via(", "autodiff of "
                    )
                    way = way.rstrip(")")
                    if (row["data"], row["library"]) != (data, library) or "(" in way:
                        continue
                    costs = [
                        float(row[key]) for key in ("1 chain", "10", "100", "1,000")
                    ]
                    costs = [cost if cost > 0 else math.nan for cost in costs]
                    colour, style = WAYS[way]
                    (ways[way],) = axes.plot(
                        [1, 10, 100, 1000], costs, style, marker="o", ms=4, color=colour
                    )
                axes.axhline(1.0, color=GREY, linewidth=0.8)
                set_up(axes, [1, 10, 100, 1000])
                axes.set_xlabel("chains" if data == "455 x 31" else "")
                axes.set_yscale("log")
                axes.set_yticks(
                    [0.3, 1, 3, 10, 30, 100], ["0.3", "1", "3", "10", "30", "100"]
                )
                axes.minorticks_off()
                axes.set_title(f"{library}, {data}", fontsize="medium", loc="left")
        figure.supylabel("time of a product / time of a score", fontsize="medium")
        order = [way for way in WAYS if way in ways]
        figure.legend(
            [ways[way] for way in order],
            order,
            loc="outside upper center",
            ncols=3,
            frameon=False,
        )
        save(figure, page[8:])


def peers() -> None:
    """Every ratio of a step's time to the time of another library or of code by hand."""
    rows = table("measurements/2026-11-performance.md", "peer", "dim", "our score")
    names = list(dict.fromkeys(row["peer"] for row in rows))
    figure, panels = clear(1, 1, (6.2, 4.2))
    axes = panels[0, 0]
    groups = [(k, s) for k in ("MALA", "HMC") for s in ("analytic", "autodiff")]
    for i, (kernel, score) in enumerate(groups):
        own = [r for r in rows if (r["kernel"], r["our score"]) == (kernel, score)]
        points = [
            (float(row[key]), names.index(row["peer"]) + 0.2 * (i - 1.5))
            for row in own
            for key in ("1 chain", "10", "100", "1,000")
            if row[key]
        ]
        axes.plot(
            *zip(*points, strict=True),
            "o" if kernel == "MALA" else "s",
            color=BLUE if score == "analytic" else ORANGE,
            mfc="none",
            ms=5,
            label=f"{kernel}, our score {'by autodiff' if score == 'autodiff' else score}",
        )
    axes.axvline(1.0, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xticks([0.05, 0.1, 0.2, 0.5, 1.0], ["0.05", "0.1", "0.2", "0.5", "1"])
    axes.minorticks_off()
    axes.set_xlabel("our time of a step / theirs")
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    save(figure, "peers")


def repellence() -> None:
    """The error of the mean with an unset alpha, by target and base."""
    rows = table(
        "measurements/2026-11-repellence.md", "target", "base", "error of the mean"
    )
    targets = list(dict.fromkeys(row["target"] for row in rows))
    figure, panels = clear(1, 1, (6.2, 5.0))
    axes = panels[0, 0]
    bases = {"MALA": BLUE, "HMC": RED, "RWM": GREEN, "ULA, `Exact`": PURPLE}
    for i, (base, colour) in enumerate(bases.items()):
        own = [row for row in rows if row["base"] == base]
        cells = [re.findall(r"\d+\.\d+", row["error of the mean"]) for row in own]
        ratio, low, high = zip(*[map(float, cell) for cell in cells], strict=True)
        y = [targets.index(row["target"]) + 0.18 * (i - 1.5) for row in own]
        below = [a - b for a, b in zip(ratio, low, strict=True)]
        above = [b - a for a, b in zip(ratio, high, strict=True)]
        label = base.replace("`", "")
        axes.errorbar(
            ratio, y, xerr=(below, above), fmt="o", ms=4, color=colour, label=label
        )
    axes.axvline(1.0, color=GREY, linewidth=0.8)
    axes.set_yticks(
        range(len(targets)), [t.replace("abs(i-j)", "|i-j|") for t in targets]
    )
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xticks([0.3, 0.5, 1, 2, 3], ["0.3", "0.5", "1", "2", "3"])
    axes.minorticks_off()
    axes.set_xlabel("error of the mean / the base kernel's, with 95 % intervals")
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    save(figure, "repellence")


if __name__ == "__main__":
    by_hand()
    libraries()
    matplotlib.rcParams.update(CLEAR)
    binary_energies()
    binary_networks()
    hvps()
    peers()
    regression_networks()
    repellence()
    samplers()
    small_spaces()
    tours()
