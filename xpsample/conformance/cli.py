"""The command ``xpsample conformance``."""

import argparse
import difflib
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain
from pathlib import Path

from xpsample.conformance.checks import Outcome, Row, check_all, runs_on
from xpsample.conformance.namespace import lacking
from xpsample.conformance.report import Timed, failure, markdown, report, short, timed
from xpsample.conformance.scenario import Scenario
from xpsample.conformance.scenarios import loaded_cases, scenarios
from xpsample.core.devices import DeviceDtype, device_dtypes, missing
from xpsample.core.errors import HyperparameterError
from xpsample.core.registry import registered_backends
from xpsample.core.terminal import Progress, ended_by
from xpsample.files.atomic import write_whole
from xpsample.files.lines import RowsFile, opened_rows
from xpsample.sampling.identity import made_with
from xpsample.sampling.interrupts import terminable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    backend = parser.add_argument("--backend", action="append", metavar="NAME", help="only this backend (repeatable)")
    kernel = parser.add_argument(
        "--kernel",
        action="append",
        metavar="NAME",
        help="only this kernel (repeatable); package.module:NAME for a kernel, or for your own scenarios",
    )
    backend.completer = lambda **_: registered_backends()  # type: ignore[attr-defined]  # for argcomplete
    kernel.completer = lambda **_: [case.name for case in scenarios()]  # type: ignore[attr-defined]
    parser.add_argument("--quick", action="store_true", help="fewer chains in the statistical check")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table with what each check saw")
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="keep finished rows in this file; the same command skips the rows in it",
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="then time some kernels, and write versions, devices and both tables to this file, to paste into an issue",
    )
    parser.add_argument(
        "--seconds", type=float, default=600, metavar="N", help="time kernels no longer than this (default: 600)"
    )


def run(args: argparse.Namespace) -> int:
    """Print a line for each row, or a table.

    Returns 0 if all checks passed, 1 if not, 2 for an unknown kernel, and a shell's exit code if stopped.
    """
    try:
        cases = _cases(args.kernel)
    except HyperparameterError as error:
        print(f"xpsample conformance: {error}", file=sys.stderr)
        return 2
    rows: list[Row] = []

    def seen(devices: list[DeviceDtype], kept: RowsFile | None) -> Iterator[Row]:
        for case in cases:
            for device in filter(partial(runs_on, case), devices):
                with progress.doing(f"{case.name} on {device}"):
                    rows.append(_row(case, device, args.quick, kept, len(rows)))
                yield rows[-1]

    try:
        with terminable(), Progress("loading array libraries") as progress:
            devices = device_dtypes(args.backend)
            keeping = nullcontext() if args.resume is None else _kept(args, devices)
            with keeping as kept, _reported(args, devices, rows, progress):
                found = seen(devices, kept)
                for text in chain(lacking(devices), [markdown(found)] if args.markdown else map(short, found)):
                    progress.say(text)
            for text in missing(args.backend):
                progress.say(text)
    except KeyboardInterrupt as error:
        by, code = ended_by(error)
        then = "with --resume FILE they are kept" if args.resume is None else f"to go on: {args.again}"
        print(f"xpsample conformance: stopped by {by} after {len(rows)} rows; {then}", file=sys.stderr)
        return code
    if not rows:
        print("xpsample conformance: the kernels are written for none of these libraries", file=sys.stderr)
        return 2
    failed = [row for row in rows if not row.passed]
    print(f"{len(rows) - len(failed)} of {len(rows)} rows passed")
    for row in failed:
        print("FAILED:", failure(row), file=sys.stderr)
    return 1 if failed else 0


@contextmanager
def _reported(
    args: argparse.Namespace, devices: list[DeviceDtype], rows: list[Row], progress: Progress
) -> Iterator[None]:
    """Write the rows of a block, and times after it, into the report if one is requested; also if interrupted."""
    if args.report is None:
        yield
        return
    times: list[Timed] = []
    write_whole(args.report, report(devices, rows, times, False).encode())  # what cannot be written is known at once
    whole = False
    try:
        yield
        whole = True
        with progress.doing(f"timing kernels for {args.seconds:g} seconds"):
            times.extend(timed(devices, args.seconds))
    finally:
        write_whole(args.report, report(devices, rows, times, whole).encode())
    progress.say(f"{args.report} is a report to paste into an issue")


@contextmanager
def _kept(args: argparse.Namespace, devices: list[DeviceDtype]) -> Iterator[RowsFile]:
    """The file of finished rows, begun where it is not there."""
    theirs = [name.partition(":")[0] for name in args.kernel or () if ":" in name]
    identity = {"kernels": args.kernel, "quick": args.quick} | made_with(devices, theirs)
    with opened_rows(args.resume) as kept:
        if kept.begun:
            kept.check(identity)
        else:
            kept.begin(identity)
        yield kept


def _row(case: Scenario, device: DeviceDtype, quick: bool, kept: RowsFile | None, number: int) -> Row:
    """A row from the file where it is there, or made and put there."""
    if kept is not None and number < len(kept.rows):
        found = kept.rows[number]
        return Row(case, device, {check: Outcome(*outcome) for check, outcome in found["outcomes"].items()})
    (row,) = check_all([case], [device], quick)
    if kept is not None:
        kept.add({"kernel": case.name, "device": str(device), "outcomes": row.outcomes})
    return row


def _cases(chosen: list[str] | None) -> list[Scenario]:
    """The scenarios of some names, and of some ``package.module:NAME``; the library's own where none is given."""
    known = {case.name: case for case in scenarios()}
    for name in chosen or ():
        if ":" not in name and name not in known:
            near = difflib.get_close_matches(name, known)
            hint = f"did you mean {', '.join(near)}?" if near else f"there are: {', '.join(known)}"
            raise HyperparameterError(f"no kernel is called {name!r}; {hint}")
    own = [case for name, case in known.items() if not chosen or name in chosen]
    return own + [case for name in chosen or () if ":" in name for case in loaded_cases(name)]
