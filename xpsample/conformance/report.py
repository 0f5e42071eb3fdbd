"""The results of the suite as tables, and a report of them with the times of steps on this machine."""

import itertools
import math
import os
import platform
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.conformance.checks import CHECKS, Row
from xpsample.core.devices import DeviceDtype
from xpsample.kernels import HMC, MALA, NUTS, RWM, Kernel
from xpsample.sampling.identity import made_with
from xpsample.sampling.sampler import sample
from xpsample.targets import Target

HEADER = ("kernel", "backend", "device", "dtype", *CHECKS)


def line(row: Row) -> tuple[str, ...]:
    """The cells of a row."""
    marks = {True: "pass", False: "FAIL"}
    outcomes = (row.outcomes[name] for name in CHECKS)
    cells = ("-" if o.passed is None else f"{marks[o.passed]} {o.detail}".strip() for o in outcomes)
    return (row.scenario.name, row.device.backend.name, row.device.name, row.device.dtype, *cells)


def short(row: Row) -> str:
    """A row in one short line: how many checks passed, or which failed."""
    failed = [name for name, outcome in row.outcomes.items() if outcome.passed is False]
    passed = sum(outcome.passed is True for outcome in row.outcomes.values())
    summary = f"FAILED {', '.join(failed)}" if failed else f"{passed} checks passed"
    return f"{row.scenario.name:22}  {row.device!s:28}  {summary}"


def failure(row: Row) -> str:
    """The failed checks of a row, each error once."""
    errors: dict[str, list[str]] = {}
    for name, outcome in row.outcomes.items():
        if outcome.passed is False:
            errors.setdefault(outcome.detail, []).append(name)
    checks = {error: "every check" if len(n) == len(row.outcomes) else ", ".join(n) for error, n in errors.items()}
    seen = "; ".join(": ".join(filter(None, (names, error))) for error, names in checks.items())
    device = row.device
    return f"{row.scenario.name} {device.backend.name} {device.name} {device.dtype}: {seen}"


def markdown(rows: Iterable[Row]) -> str:
    """A Markdown table."""
    return _table(HEADER, map(line, rows))


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    cells = itertools.chain([header, ["---"] * len(header)], rows)
    return "".join("| " + " | ".join(map(str, row)) + " |\n" for row in cells)


def report(devices: Sequence[DeviceDtype], rows: Sequence[Row], times: "Sequence[Timed]", whole: bool = True) -> str:
    """Versions, devices, and the tables of conformance and times, in Markdown; notes if it is not `whole`."""
    made = made_with(devices)
    models = {f"{d.backend.name} {found.name}": found.model for d in devices for found in d.backend.devices()}
    about = [
        *made["versions"].items(),
        ("machine", f"{platform.platform()}, {os.cpu_count()} cores"),
        *((name, model or "no model is known") for name, model in models.items()),
        *((f"code of {package}", digest) for package, digest in made["code"].items()),
    ]
    passed, end = sum(row.passed for row in rows), "" if whole else ", then the suite was stopped"
    timed = [
        (
            t.kernel,
            t.device,
            f"{t.chains:,}",
            f"{1e6 * t.step:.3g}",
            f"{1e3 * t.run:.3g}".replace("nan", "-"),
            f"{t.first:.3g}",
        )
        for t in times
    ]
    return "\n".join(
        [
            "# xpsample on this machine\n",
            _table(("", ""), about),
            f"## Conformance\n\n{passed} of {len(rows)} rows passed{end}.\n",
            markdown(rows),
            f"## Times\n\nOn a standard normal of {DIM} coordinates, whose score is given; nothing is recorded. A step",
            "is the difference of two runs, divided by that of their steps. A run by itself is what is left of the",
            "shorter one, and - where nothing is left, since the machine was busy. A first run may compile.\n",
            _table(("kernel", "device", "chains", "a step, us", "a run by itself, ms", "a first run, s"), timed),
        ]
    )


DIM = 10
# On a standard normal of `DIM` coordinates, so that the library takes the time and not the density.
KERNELS: dict[str, Kernel] = {
    "RWM": RWM(0.5),
    "MALA": MALA(0.8),
    "HMC, 10 steps": HMC(0.3, steps=10),
    "HMC by length": HMC(0.3, length=3.0),
    "NUTS": NUTS(0.5, max_depth=5),
}

SHORT = 8  # Steps of the short run


class Timed(NamedTuple):
    """Seconds of a step, of a run without its steps, and of a first run, which may compile.

    The second is nan if the steps of the long run took longer than the whole short run: the machine was busy.
    """

    kernel: str
    device: DeviceDtype
    chains: int
    step: float
    run: float
    first: float


def timed(devices: Sequence[DeviceDtype], seconds: float) -> Iterator[Timed]:
    """Times of all kernels, in float32 where a device has it: with more and more chains, until the time is up.

    Measurements that would exceed the remaining time, judged by a tenth of the chains, are skipped.
    """
    end = time.monotonic() + seconds
    expected: dict[tuple[str, str, str], float] = {}
    widest_first = sorted(devices, key=lambda device: device.dtype, reverse=True)
    places = {(device.backend.name, device.name): device for device in widest_first}
    for chains, name, place in itertools.product([10**power for power in range(7)], KERNELS, places):
        begun = time.monotonic()
        if expected.get((name, *place), 0.0) >= end - begun:
            continue
        found = _time(name, places[place], chains)
        yield found
        # With ten times the chains. A measurement takes about 20 short runs when steps take all of its time.
        expected[name, *place] = time.monotonic() - begun + 10 * found.step * SHORT * 20


def _time(name: str, device: DeviceDtype, chains: int) -> Timed:
    x0 = device.array(np.random.default_rng(0).standard_normal((chains, DIM)))
    target = Target(lambda x: -0.5 * array_namespace(x).sum(x * x, axis=-1), score=lambda x: -x)

    def run(steps: int) -> float:
        """Seconds of a run that records nothing."""
        begun = time.perf_counter()
        trace = sample(target, KERNELS[name], x0, steps, seed=1, recorders=(), progress=False)
        device.backend.synchronize(trace.state)
        return time.perf_counter() - begun

    first, short, long, steps = run(SHORT), run(SHORT), 0.0, SHORT
    while long < 2 * short + 0.2 and steps < 2**18:  # seconds, so that the clock is fine enough
        steps *= 8
        long = run(steps)
    short, long = min(short, run(SHORT)), min(long, run(steps))
    step = (long - short) / (steps - SHORT)
    alone = short - SHORT * step
    return Timed(name, device, chains, step, alone if alone > 0 else math.nan, first)
