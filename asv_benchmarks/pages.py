"""Record tables of pages anew: what a command prints, with the commit, the date and the versions of libraries.

``python -m asv_benchmarks.pages [NAME ...]``, from the root of the checkout; by default all of them, which takes hours.

A table is kept in ``docs/measurements/recorded/NAME.json``. Its page has the same lines, and below them one that names
date, commit and command.
"""

import argparse
import datetime
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from asv_benchmarks.commits import ROOT, git
from asv_benchmarks.record import installed

DOCS = ROOT / "docs"
KEPT = DOCS / "measurements" / "recorded"
LIBRARIES = ("numpy", "torch", "jax", "blackjax", "numpyro", "emcee")


class NotRecorded(Exception):
    """A table cannot be recorded."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Record, and write JSON and pages."""
    parser = argparse.ArgumentParser(prog="python -m asv_benchmarks.pages", description=__doc__)
    names = sorted(path.stem for path in KEPT.glob("*.json"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}; by default all")
    for name in parser.parse_args(arguments).names or names:
        record(name)
        print(f"{name}: recorded", flush=True)
    return 0


def read(name: str) -> dict[str, Any]:
    """A recorded table: its page, command, commit, date, versions and lines."""
    return json.loads((KEPT / f"{name}.json").read_text(encoding="utf-8"))


def on_page(kept: dict[str, Any]) -> str:
    """What stands on the page of a recorded table."""
    of = f"Recorded: {kept['date']} at `{kept['commit']}`, by `{kept['command']}`."
    return "\n".join([*kept["table"], "", of])


def tables(text: str) -> list[list[str]]:
    """The Markdown tables of a text, as lists of lines."""
    return [found.splitlines() for found in re.findall(r"^\|.*\|\n\|[ :|-]+\|\n(?:\|.*\|\n?)+", text, re.MULTILINE)]


def record(name: str) -> None:
    """Run the command of a table, and write what it prints to its JSON and its page."""
    kept = read(name)
    if git("status", "--porcelain", "--", "xpsample", "backends"):
        raise NotRecorded("the library has changes that no commit has: commit them first")
    page = DOCS / kept["page"]
    before = page.read_text(encoding="utf-8")
    if on_page(kept) not in before:
        raise NotRecorded(f"{kept['page']} has another table than {name}.json: take the changes back first")
    command = [sys.executable, *shlex.split(kept["command"])[1:]]
    printed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    found = [table for table in tables(printed) if table[0] == kept["table"][0]]
    if not found:
        raise NotRecorded(f"{kept['command']} prints no table with the head {kept['table'][0]}")
    today = datetime.date.today()
    now = kept | {
        "commit": git("rev-parse", "--short=7", "HEAD"),
        "date": f"{today.day} {today:%B %Y}",
        "versions": {library: of for library in LIBRARIES if (of := installed(library))},
        "table": found[0],
    }
    page.write_text(before.replace(on_page(kept), on_page(now)), encoding="utf-8")
    (KEPT / f"{name}.json").write_text(json.dumps(now, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
