"""``python -m xpsample conformance``."""

import argparse
import sys
from collections.abc import Iterator

from xpsample.conformance.checks import Row, check_all
from xpsample.conformance.report import line, markdown, text_lines
from xpsample.conformance.scenarios import scenarios
from xpsample.core.devices import device_dtypes, missing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--backend", action="append", metavar="NAME", help="only this backend (repeatable)")
    parser.add_argument("--kernel", action="append", metavar="NAME", help="only this kernel (repeatable)")
    parser.add_argument("--quick", action="store_true", help="fewer chains in the statistical check")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")


def run(args: argparse.Namespace) -> int:
    """Print the table. Gives 0 if all checks passed, 1 if not, 2 for an unknown kernel."""
    cases = scenarios()
    known = [case.name for case in cases]
    for name in args.kernel or ():
        if name not in known:
            print(f"unknown kernel {name!r}; known: {', '.join(known)}", file=sys.stderr)
            return 2
    cases = [case for case in cases if not args.kernel or case.name in args.kernel]
    rows: list[Row] = []

    def kept() -> Iterator[Row]:
        for row in check_all(cases, device_dtypes(args.backend), args.quick):
            rows.append(row)
            yield row

    if args.markdown:
        print(markdown(kept()))
    else:
        for text in text_lines(kept()):
            print(text, flush=True)
    for text in missing(args.backend):
        print(text)
    failed = [row for row in rows if not row.passed]
    print(f"{len(rows) - len(failed)} of {len(rows)} rows passed")
    for row in failed:
        print("FAILED:", *line(row), file=sys.stderr)
    return 1 if failed else 0
