"""The command ``xpsample conformance``."""

import argparse
import difflib
import sys
from collections.abc import Iterator

from xpsample.conformance.checks import Row, check_all
from xpsample.conformance.report import line, markdown, text_lines
from xpsample.conformance.scenario import Scenario
from xpsample.conformance.scenarios import scenarios
from xpsample.conformance.third_party import loaded_cases
from xpsample.core.devices import DeviceDtype, device_dtypes, missing
from xpsample.core.errors import HyperparameterError
from xpsample.core.registry import registered_backends
from xpsample.core.terminal import Progress, fit, terminal_width

KERNEL_HELP = "only this kernel (repeatable); package.module:NAME for a kernel, or for scenarios, of your own"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    backend = parser.add_argument("--backend", action="append", metavar="NAME", help="only this backend (repeatable)")
    kernel = parser.add_argument("--kernel", action="append", metavar="NAME", help=KERNEL_HELP)
    parser.add_argument("--quick", action="store_true", help="fewer chains in the statistical check")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    for option, known in ((backend, registered_backends), (kernel, _kernels)):
        option.completer = lambda known=known, **_: known()  # type: ignore[attr-defined]  # for argcomplete


def run(args: argparse.Namespace) -> int:
    """Print the table. Gives 0 if all checks passed, 1 if not, 2 for an unknown kernel."""
    try:
        cases = _cases(args.kernel)
    except HyperparameterError as error:
        print(fit(f"xpsample conformance: {error}", terminal_width()), file=sys.stderr)
        return 2
    rows: list[Row] = []

    def kept(devices: list[DeviceDtype]) -> Iterator[Row]:
        for case in cases:
            for device in devices:
                with progress.doing(f"{case.name} on {device}"):
                    found = list(check_all([case], [device], args.quick))
                rows.extend(found)
                yield from found

    with Progress("loading array libraries") as progress:
        seen = kept(device_dtypes(args.backend))
        for text in [markdown(seen)] if args.markdown else text_lines(seen, terminal_width()):
            progress.say(text)
        for text in missing(args.backend):
            progress.say(fit(text, terminal_width()))
    if not rows:
        print("xpsample conformance: the kernels are written for none of these libraries", file=sys.stderr)
        return 2
    failed = [row for row in rows if not row.passed]
    print(f"{len(rows) - len(failed)} of {len(rows)} rows passed")
    for row in failed:
        print("FAILED:", *line(row), file=sys.stderr)
    return 1 if failed else 0


def _cases(chosen: list[str] | None) -> list[Scenario]:
    """The scenarios of some names, and of some ``package.module:NAME``; the library's own where none is given."""
    if not chosen:
        return scenarios()
    for name in chosen:
        if ":" not in name and name not in _kernels():
            near = difflib.get_close_matches(name, _kernels())
            hint = f"did you mean {', '.join(near)}?" if near else f"there are: {', '.join(_kernels())}"
            raise HyperparameterError(f"no kernel is called {name!r}; {hint}")
    own = [case for case in scenarios() if case.name in chosen]
    return own + [case for name in chosen if ":" in name for case in loaded_cases(name)]


def _kernels() -> list[str]:
    return [case.name for case in scenarios()]
