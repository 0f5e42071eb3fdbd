"""The conformance results as tables, and a report of them with the times of steps."""

import math
import os
import platform
from collections.abc import Iterable, Sequence
from itertools import chain

from xpsample.conformance.checks import CHECKS, Outcome, Row
from xpsample.conformance.timing import DIM, Timed
from xpsample.core.devices import DeviceDtype
from xpsample.sampling.identity import made_with

HEADER = ("kernel", "backend", "device", "dtype", *CHECKS)


def cell(outcome: Outcome) -> str:
    """An outcome in a few characters."""
    mark = {True: "pass", False: "FAIL", None: "-"}[outcome.passed]
    return f"{mark} {outcome.detail}".strip() if outcome.passed is not None else mark


def line(row: Row) -> tuple[str, ...]:
    """The cells of a row."""
    device = row.device
    return (
        row.scenario.name,
        device.backend.name,
        device.name,
        device.dtype,
        *(cell(row.outcomes[name]) for name in CHECKS),
    )


def text_lines(rows: Iterable[Row]) -> Iterable[str]:
    """A header, then the rows as they come, in cells of fixed width."""
    widths = (20, 16, 8, 7, 13, 10, 16, 14, 12, 11, 14, 12, 6)
    for cells in chain([HEADER], map(line, rows)):
        yield "  ".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


def markdown(rows: Iterable[Row]) -> str:
    """A Markdown table."""
    return _table(HEADER, map(line, rows))


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    cells = chain([header, ["---"] * len(header)], rows)
    return "".join("| " + " | ".join(map(str, row)) + " |\n" for row in cells)


TIMES = ("kernel", "device", "chains", "a step, us", "a run by itself, ms", "a first run, s")


def _known(number: float) -> str:
    return "-" if math.isnan(number) else f"{number:.3g}"


def report(devices: Sequence[DeviceDtype], rows: Sequence[Row], times: Sequence[Timed], whole: bool = True) -> str:
    """Versions, devices, the table of conformance and that of times, in Markdown; it says if it is not `whole`."""
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
        (t.kernel, t.device, f"{t.chains:,}", f"{1e6 * t.step:.3g}", _known(1e3 * t.run), f"{t.first:.3g}")
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
            _table(TIMES, timed),
        ]
    )
