"""Score-MH paper, Fig. 1: the weights that samplers give two distant modes, and where they start.

The target is 0.8 N((5, 5), I) + 0.2 N((-5, -5), I). The paper reports ULA 0.52, random walk and MALA 0.79 of the first
mode, and neither starts nor step sizes. Here all start in four ways, which are one batched run, and the acceptance is
made from the density, from the true score, and by a network learned on that score.
"""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.registry import to_host
from xpsample.experiments.figures import tidy
from xpsample.experiments.runner import Experiment, Run, widest
from xpsample.experiments.score_mh.models import Training, acceptances, train_acceptances
from xpsample.experiments.table import Row, columns, mean_and_error
from xpsample.kernels import MALA, RWM, ULA, Kernel
from xpsample.score_mh import Learned, RandomWalk, acceptance_network
from xpsample.targets import Acceptance, LineIntegral, Target, Taylor
from xpsample.zoo.mixture import gaussian_mixture

WEIGHTS, MEANS = np.array([0.8, 0.2]), np.array([[5.0, 5.0], [-5.0, -5.0]])
STARTS = {
    "heavy mode": ("#B3440A", "o"),
    "both modes": ("#3567A8", "s"),
    "N(0, I)": ("#202020", "^"),
    "exact draws": ("#3B7A57", "D"),
}
"""Starts of the chains, with the color and the marker of the figure."""
WIDE = 8.0
"""Standard deviation of the random walk's proposals that reach the other mode."""
ETA = 0.5

COLUMNS = (
    columns("sampler")
    | {start: (start, ".3f+-") for start in STARTS}
    | columns("crossed .2f | acceptance_probability .3f accept | cpu_seconds .1f CPU s")
)
LEGEND = f"""\
weight     share of kept positions nearer to (5, 5), mean over chains +- its standard error; the target has 0.8
crossed    share of the chains seen near both modes, over all four starts
heavy mode all chains start at (5, 5); both modes: half of them at each; exact draws: by the mixture
wide       proposals of standard deviation {WIDE:g}; line n: the line integral of the true score with n nodes
learned    trained on the true score; direct: accepted with a(x', x), the paper's; ratio: with min(1, a / a back)"""
PAPER = {"ULA": 0.52, "RW": 0.79, "MALA": 0.79}


class Size(NamedTuple):
    """Chains for each start, steps, and of the learned acceptance width, updates and rows of data."""

    chains: int
    steps: int
    hidden: int
    updates: int
    rows: int
    nodes: tuple[int, ...] = (8, 32, 128)


FULL = Size(200, 1000, 64, 2000, 10_000)
QUICK = Size(40, 200, 8, 10, 500, (8,))


def mixture() -> Target:
    """0.8 N((5, 5), I) + 0.2 N((-5, -5), I), Section 3.4."""
    return gaussian_mixture(WEIGHTS, MEANS, 1.0)


def draw(rows: int, rng: np.random.Generator) -> np.ndarray:
    """Independent draws of the target, (rows, 2)."""
    return MEANS[rng.choice(2, rows, p=WEIGHTS)] + rng.standard_normal((rows, 2))


def starts(chains: int, rng: np.random.Generator) -> np.ndarray:
    """In the order of `STARTS`, (starts, chains, 2)."""
    heavy = np.broadcast_to(MEANS[0], (chains, 2))
    both = MEANS[np.arange(chains) % 2]
    return np.stack([heavy, both, rng.standard_normal((chains, 2)), draw(chains, rng)])


def is_heavy(x: np.ndarray) -> np.ndarray:
    """Return whether positions (..., 2) are nearer to the heavy mode."""
    return np.sum(x, axis=-1) > 0


def samplers(size: Size) -> dict[str, tuple[Kernel, Acceptance | None]]:
    """All but the learned ones, and what their acceptance is made of; None for the density, or for none."""
    lines = {f"RW wide, line {nodes}": (RWM(WIDE), LineIntegral(nodes)) for nodes in size.nodes}
    return {
        "ULA, eta = 0.005": (ULA(0.005), None),
        "ULA, eta = 0.5": (ULA(0.5), None),
        "MALA, density": (MALA(ETA), None),
        "MALA, line 8": (MALA(ETA), LineIntegral(8)),
        "MALA, Taylor": (MALA(ETA), Taylor(1)),
        "RW, sd 1, density": (RWM(1.0), None),
        "RW, sd 4, density": (RWM(4.0), None),
        "RW wide, density": (RWM(WIDE), None),
        **lines,
        "RW wide, Taylor": (RWM(WIDE), Taylor(1)),
    }


def learned(run: Run[Size]) -> dict[str, tuple[Kernel, Acceptance | None]]:
    """Wide random walks by an acceptance network that is trained here, on the true score."""
    target, how = mixture(), Training(run.size.hidden, 3, run.size.updates, 256, 5e-4)
    data = draw(run.size.rows, np.random.default_rng(run.seed))
    trained = train_acceptances(run, data, RandomWalk(WIDE), target.score, target.data, 1, how)
    ways = acceptances(Learned(acceptance_network, trained.parameters, RandomWalk(WIDE)))
    return {f"RW wide, learned, {name}": (RWM(WIDE), ways[name]) for name in ("direct", "ratio")}


def measure(run: Run[Size]) -> Iterator[Row]:
    """A row for each sampler, of the second half of its chains."""
    size, (device,) = run.size, run.devices
    run.say(f"{size.chains} chains from each start, {size.steps} steps, the first half dropped")
    x0 = device.array(starts(size.chains, np.random.default_rng(run.seed)))
    for name, (kernel, acceptance) in (samplers(size) | learned(run)).items():
        target, began = mixture(), time.process_time()
        if acceptance is not None:
            target = Target(None, score=target.score, data=target.data, acceptance=acceptance)
        trace = run.sample(target, kernel, x0, size.steps // 20, thinning=10, burn_in=size.steps // 2)
        heavy, row = is_heavy(to_host(trace.draws)), {"sampler": name}
        for start, shares in zip(STARTS, np.mean(heavy, axis=0), strict=True):
            row |= mean_and_error(start, shares)
        yield row | {
            "crossed": np.mean(np.any(heavy[1:] != heavy[:-1], axis=0)),
            "acceptance_probability": np.mean(to_host(trace.run_statistics.acceptance_probability)),
            "cpu_seconds": time.process_time() - began,
        }


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """Samplers that leave a mode at all, and samplers with correct weights from all starts."""
    error = {row["sampler"]: max(abs(row[start] - WEIGHTS[0]) for start in STARTS) for row in rows}
    best, local = min(error, key=error.__getitem__), sum(row["crossed"] == 0 for row in rows)
    return (
        f"of a million exact draws {np.mean(is_heavy(draw(10**6, np.random.default_rng(1)))):.3f} are near (5, 5)\n"
        f"{local} of {len(rows)} samplers never cross, and keep the weights of their starts\n"
        f"nearest to 0.8 from all starts: {best}, at most {error[best]:.3f} from it"
    )


def plot(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """The weight of the heavy mode by sampler and start, with the paper's figures where it has them."""
    figure.set_size_inches(8.5, 0.34 * len(rows) + 1.2)
    axes, names = figure.subplots(), [row["sampler"] for row in rows]
    axes.axvline(WEIGHTS[0], color="#909090", lw=1)
    for start, (colour, marker) in STARTS.items():
        shares, errors = [row[start] for row in rows], [2 * row[f"{start}_se"] for row in rows]
        look = {"fmt": marker, "color": colour, "ms": 5, "lw": 1, "mfc": "none"}
        axes.errorbar(shares, range(len(rows)), xerr=errors, label=f"start: {start}", **look)
    as_in_paper = [i for i, name in enumerate(names) if name.startswith(("ULA, ", "MALA, d", "RW, "))]
    weights = [PAPER[names[i].split(",")[0]] for i in as_in_paper]
    axes.plot(weights, as_in_paper, "x", color="#C7A008", ms=8, mew=2, label="paper")
    axes.set(xlabel="weight of the heavy mode, 0.8 in truth", xlim=(0.45, 1.03))
    axes.set_yticks(range(len(rows)), names)
    axes.invert_yaxis()
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    tidy(axes)


EXPERIMENT = Experiment(
    name="score-mh-weights",
    title="The weights of two distant modes; Score-MH paper, Fig. 1",
    settings={"full": FULL, "quick": QUICK},
    measure=measure,
    columns=COLUMNS,
    legend=LEGEND,
    conclude=conclude,
    paper=", ".join(f"{name} {weight}" for name, weight in PAPER.items()) + "; starts and step sizes are not given",
    figures={"plot": plot},
    devices=lambda found: widest(found)[:1],
)
