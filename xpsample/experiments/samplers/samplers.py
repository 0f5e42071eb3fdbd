"""Samplers that are given no number by hand: gradient evaluations until second moments are right, and their runs.

The rule is from the published comparison, see `low_error`; the figures to compare with are in `published`.
"""

import argparse
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.devices import DeviceDtype
from xpsample.core.errors import HyperparameterError
from xpsample.core.registry import to_host
from xpsample.experiments.runner import Experiment, Run
from xpsample.experiments.samplers import defaults
from xpsample.experiments.samplers.low_error import LOW_ERROR, RecordSquareErrors, draws_to_low_error
from xpsample.experiments.samplers.published import LIMITS, PUBLISHED
from xpsample.experiments.table import Columns, Row, columns
from xpsample.kernels import HMC, MALA, MAMS, MCLMC, NUTS, Kernel
from xpsample.targets import Target
from xpsample.zoo.benchmarks import BENCHMARKS, Benchmark

SAMPLERS: Mapping[str, Callable[[], Kernel]] = {
    "HMC": HMC,
    "NUTS": NUTS,
    "MAMS": MAMS,
    "MALA": MALA,
    "MCLMC": MCLMC,
}

FIRST_DRAWS = 500
"""Draws of the first run of each case. The error falls with the draws, which says how many more it takes."""

LOW_SINCE = 0.75
"""A run ends when the error has been low since this share of its draws."""


def _gradients(row: Row) -> str:
    if not math.isfinite(row["gradients"]):
        return "never"
    return f"{row['gradients']:,.0f} ({row['gradients_low']:,.0f}-{row['gradients_high']:,.0f})"


def _published(row: Row) -> str:
    if row["published"] != row["published"]:
        return "-"
    return f"{row['published']:,.0f}" if math.isfinite(row["published"]) else "never"


COLUMNS: Columns = {
    **columns("target | sampler"),
    "gradients": ("gradients/100", _gradients),
    "published": ("published", _published),
    **columns(
        "ratio .2f | limit .2g | reached s | warm_up .0f warm-up/100 | per_draw .1f grads/draw | acceptance .2f accept "
        "| diverged .2g | bias .3f | seconds .0f"
    ),
}
LEGEND = """\
gradients   of one chain after the warm-up, over 100, until the error is low for good: median over the seeds, and range
published   the same of BlackJAX in sampler-benchmarks; ratio is ours over it, and limit what it should not exceed
never       not within the gradients that a run is given
reached     in how many of the seeds; gradients are of those
warm-up     gradients of one chain in the warm-up, over 100
diverged    share of the steps
bias        of the mean square over all chains at the end, in standard deviations of the square, the worst coordinate;
            above 0.1 the error of one chain stays high however long it runs"""


PARTS = ("gradients", "defaults")


class Size(NamedTuple):
    """Targets, samplers, chains, seeds, and the most gradients of a chain after the warm-up.

    ``plain`` are the samplers and the chains of the part ``defaults``, which has one seed.
    """

    targets: tuple[str, ...]
    samplers: tuple[str, ...]
    chains: int
    seeds: int
    most: int
    plain: tuple[tuple[str, ...], tuple[int, ...]]


FULL = Size(tuple(BENCHMARKS), tuple(SAMPLERS), 128, seeds=3, most=2_000_000, plain=(("HMC", "NUTS"), (4, 128)))
QUICK = Size(("gaussian", "banana"), ("HMC", "NUTS", "MALA"), 16, seeds=1, most=10_000, plain=(("HMC",), (4,)))


def options(parser: argparse.ArgumentParser) -> None:
    """Which part and cases, and how many chains, seeds and gradients."""
    parser.add_argument(
        "--part",
        choices=PARTS,
        default=PARTS[0],
        help="gradients until second moments are right, or whether a run of 1,000 draws from defaults is right",
    )
    parser.add_argument("--target", action="append", choices=list(BENCHMARKS), help="these only")
    parser.add_argument("--sampler", action="append", choices=list(SAMPLERS), help="these only")
    parser.add_argument("--chains", type=int, help=f"chains (default: {FULL.chains}; 4 and 128)")
    parser.add_argument("--seeds", type=int, help=f"runs of each case, from --seed on (default: {FULL.seeds}; 1)")
    parser.add_argument(
        "--most", type=int, help=f"gradients of a chain after which a run gives up (default: {FULL.most:,})"
    )


def chosen(run: Run[Size]) -> Size:
    """The settings, with what the options say."""
    args, size = run.args, run.size
    if args.part == "defaults":
        size = size._replace(samplers=size.plain[0], seeds=1)
    size = size._replace(targets=tuple(args.target or size.targets), samplers=tuple(args.sampler or size.samplers))
    for name in ("chains", "seeds", "most"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise HyperparameterError(f"--{name} must be a positive integer; got {value}")
        size = size._replace(**{name: value or getattr(size, name)})
    return size


def measure(run: Run[Size]) -> Iterator[Row]:
    """A row for each device, target, sampler and seed; and number of chains, where defaults are looked at."""
    size = chosen(run)
    if run.args.part == "defaults":
        yield from _measure_defaults(run, size)
        return
    run.say(f"{size.chains} chains, seeds from {run.seed} on, {size.seeds} of them; nothing tuned by hand")
    run.say(f"a run gives up after {size.most:,} gradients of a chain")
    for device in run.devices:
        for name in size.targets:
            benchmark = BENCHMARKS[name]
            target = benchmark.target()
            for sampler in size.samplers:
                for seed in range(run.seed, run.seed + size.seeds):
                    with run.doing(f"{device} {name} {sampler}, seed {seed}"):
                        row = until_low(run, device, benchmark, target, SAMPLERS[sampler](), seed, size)
                    run.say(
                        f"  {name} {sampler}, seed {seed}: {row['gradients']:,.0f} after {row['warm_up']:,.0f} of the "
                        f"warm-up, acceptance {row['acceptance']:.2f}, {row['diverged']:.2g} diverged"
                    )
                    yield {"target": name, "sampler": sampler, "seed": seed, "device": str(device)} | row


def _measure_defaults(run: Run[Size], size: Size) -> Iterator[Row]:
    for name, sampler in itertools.product(size.targets, size.samplers):
        for chains in [run.args.chains] if run.args.chains else size.plain[1]:
            for device, seed in itertools.product(run.devices, range(run.seed, run.seed + size.seeds)):
                with run.doing(f"{device} {name} {sampler}, {chains} chains, seed {seed}"):
                    row = defaults.run_of(
                        run, device, name, BENCHMARKS[name], (sampler, SAMPLERS[sampler]()), chains, seed
                    )
                run.say(f"  {name} {sampler}, {chains} chains, {device}, seed {seed}: {row['outcome']}")
                yield row


def until_low(
    run: Run[Size], device: DeviceDtype, benchmark: Benchmark, target: Target, kernel: Kernel, seed: int, size: Size
) -> Row:
    """Run until the error has been low for the last quarter of all draws, or too many gradients are spent."""
    moments = benchmark.moments()
    x = device.array(benchmark.start(np.random.default_rng(seed), size.chains))
    errors, since, draws, runs, settings = np.empty((0, size.chains)), None, FIRST_DRAWS, 0, {}
    spent, warm_up, diverged, seconds = 0.0, 0.0, 0, 0.0
    while True:
        recorder = RecordSquareErrors(moments.square, moments.square_variance, benchmark.parameters, since)
        trace = run.sample(
            target, kernel, x, draws, seed=1000 * seed + runs, recorders=(recorder,), quiet=True, **settings
        )
        since, statistics = trace.recorded[recorder.name], trace.run_statistics
        if not len(errors):
            path = {} if trace.warmup is None else trace.warmup
            warm_up = float(np.sum(to_host(path["scores"]))) / size.chains if path else 0.0
        errors = np.concatenate([errors, to_host(since.errors)])
        spent += statistics.evaluations["score"] * statistics.steps
        diverged += int(np.sum(statistics.diverged))
        seconds += trace.metadata["seconds"]
        needed, per_draw = draws_to_low_error(errors), spent / len(errors)
        wanted = len(errors) * float(np.median(errors[-1])) / LOW_ERROR / LOW_SINCE - len(errors)
        most = min(8 * len(errors), size.most / per_draw - len(errors))
        draws = int(min(max(wanted, 0.5 * len(errors)), most))
        if needed <= LOW_SINCE * len(errors) or draws < 1:
            break
        # The rest is a run of the tuned kernel, from where the chains are.
        kernel, x, runs, settings = trace.kernel, trace.state.point.x, runs + 1, {"warmup": 0}
    pooled = np.mean(to_host(since.total) / float(to_host(since.count)), axis=0)
    return {
        "gradients": needed * per_draw / 100,
        "draws": needed,
        "per_draw": per_draw,
        "warm_up": warm_up / 100,
        "acceptance": float(np.mean(statistics.acceptance_probability)),
        "diverged": diverged / errors.size,
        "bias": float(np.max(np.abs(pooled - moments.square) / np.sqrt(moments.square_variance))),
        "made": len(errors),
        "error": float(np.median(errors[-1])),
        "seconds": seconds,
    }


def cases(rows: list[Row]) -> list[Row]:
    """Medians and ranges over the seeds, with the published figures."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row["target"], row["sampler"]), []).append(row)
    return [_case(target, sampler, own) for (target, sampler), own in found.items()]


def _case(target: str, sampler: str, rows: list[Row]) -> Row:
    reached = [row["gradients"] for row in rows if math.isfinite(row["gradients"])]
    published = PUBLISHED.get(target, {}).get(sampler, math.nan)
    case: Row = {"target": target, "sampler": sampler, "published": published, "limit": LIMITS.get(sampler)}
    case |= {"reached": f"{len(reached)} of {len(rows)}", "all_reached": len(reached) == len(rows)}
    for name in ("warm_up", "per_draw", "acceptance", "diverged", "bias", "seconds"):
        case[name] = median(row[name] for row in rows)
    if not reached:
        return case | dict.fromkeys(("gradients", "gradients_low", "gradients_high"), math.inf)
    typical = median(reached)
    ratio = typical / published if math.isfinite(published) else math.nan
    return case | {
        "gradients": typical,
        "gradients_low": min(reached),
        "gradients_high": max(reached),
        "ratio": ratio,
    }


def tell(run: Run[Size], rows: list[Row]) -> None:
    """A line for each case."""
    if run.args.part == "defaults":
        run.table(rows, defaults.COLUMNS, keys=("target", "sampler", "chains"), legend=defaults.LEGEND)
        return
    run.table(cases(rows), COLUMNS, keys=("target", "sampler"), legend=LEGEND)


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """Number of cases within their limit, and the cases beyond it."""
    if run.args.part == "defaults":
        return "\n".join(defaults.conclude(rows))
    held, broken = 0, []
    for case in cases(rows):
        if case["limit"] is None or not math.isfinite(case["published"]):
            continue
        within = case["all_reached"] and case["ratio"] <= case["limit"]
        held += within
        if not within:
            broken.append(f"{case['sampler']} on {case['target']} ({case.get('ratio', math.inf):.2f})")
    lines = [f"{held} of {held + len(broken)} cases with a limit keep to it in all seeds"]
    return "\n".join([*lines, *([f"not: {', '.join(broken)}"] if broken else [])])


def plot(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """Ours against the published figures, both in gradients over 100."""
    from xpsample.experiments.figures import tidy

    if run.args.part == "defaults":
        return
    axes = figure.subplots()
    for sampler in dict.fromkeys(row["sampler"] for row in rows):
        pairs = [(c["published"], c["gradients"]) for c in cases(rows) if c["sampler"] == sampler]
        pairs = [pair for pair in pairs if all(map(math.isfinite, pair))]
        if pairs:
            axes.loglog(*zip(*pairs, strict=True), "o", label=sampler)
    if axes.lines:
        ends = axes.get_xlim()
        axes.plot(ends, ends, color="0.7", lw=1)
        axes.legend()
    axes.set(xlabel="published gradients / 100", ylabel="ours")
    tidy(axes)


EXPERIMENT = Experiment(
    name="samplers",
    title="Samplers that nobody has tuned: gradients until second moments are right, and runs from defaults",
    settings={"full": FULL, "quick": QUICK},
    measure=measure,
    tell=tell,
    conclude=conclude,
    figures={"plot": plot},
    options=options,
)
