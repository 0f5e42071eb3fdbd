"""The command: finds the base, compares, prints the table, and says by its exit code whether something is slower."""

import argparse
import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory

from asv_benchmarks.commits import ROOT, NoCommit, extract, git
from asv_benchmarks.regressions.compare import LIMIT, BaseCannot, Compared, NewCannot, Seen, compare
from asv_benchmarks.tables import table

MEASURED = ("xpsample", "backends")
"""Where nothing has changed since the base, nothing is measured."""

NEAR = 0.05
"""Counts that differ by less are not told."""

COLUMNS = {
    "name": ("measure", "s"),
    "base": ("base", "s"),
    "new": ("new", "s"),
    "factor": ("factor", ".2f"),
    "least": ("least", ".2f"),
    "most": ("most", ".2f"),
    "second": ("again", "s"),
    "verdict": ("", "s"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """1 where something is slower than the base, or fails; 0 otherwise, a visible skip included."""
    parser = argparse.ArgumentParser(prog="python -m asv_benchmarks.regressions", description=__doc__)
    parser.add_argument(
        "base", nargs="?", help="a commit; by default the last one, or the one before if nothing changed"
    )
    parser.add_argument("--only", action="append", metavar="PATTERN", help="these measures, such as 'numpy-*'")
    parser.add_argument(
        "--false-alarms", type=int, metavar="TIMES", help="compare the base with itself so many times, and count alarms"
    )
    args = parser.parse_args(arguments)
    only = args.only or ["*"]
    try:
        base = args.base or ("HEAD" if changed("HEAD") else "HEAD~1")
        name = git("rev-parse", "--short", f"{base}^{{commit}}")
        if not args.false_alarms and not changed(base):
            print(f"regressions: skipped, the library is that of {name}")
            return 0
        with TemporaryDirectory() as folder:
            tree = extract(base, Path(folder))
            if args.false_alarms:
                return false_alarms(tree, only, args.false_alarms)
            found = compare(tree, ROOT, only, say=say)
    except NoCommit as error:
        print(f"regressions: skipped, there is no commit to compare with: {error}")
        return 0
    except BaseCannot as error:
        print(f"regressions: skipped, {name} cannot run these measures: {error}")
        return 0
    except NewCannot as error:
        print(f"regressions: {error}")
        return 1
    meant = git("log", "--format=%(trailers:key=Slower,valueonly)", f"{base}..HEAD").split()
    print(told(found, meant, name))
    return int(any(verdict(one, meant) == "SLOWER" for one in found))


def changed(base: str) -> bool:
    """Whether the library of the working tree is another one than that of a commit."""
    git("rev-parse", "--verify", f"{base}^{{commit}}")
    return bool(git("diff", "--name-only", base, "--", *MEASURED))


def say(line: str) -> None:
    """Tell how far it is."""
    print(line, file=sys.stderr, flush=True)


def verdict(one: Compared, meant: Sequence[str]) -> str:
    """In a word or two; `meant` are patterns of measures that may be slower."""
    if not one.suspect:
        return "faster" if one.first is not None and one.first.factor <= 1 / LIMIT else ""
    if not one.slower:
        return "not confirmed"
    return "slower, as meant" if any(fnmatch(one.name, pattern) for pattern in meant) else "SLOWER"


def told(found: Sequence[Compared], meant: Sequence[str], base: str) -> str:
    """The table, of times and of counts that differ; and what was skipped."""
    rows = [_row(one, one.first, meant) for one in found if one.first is not None and not _same(one)]
    lines = [table(rows, COLUMNS), "factor: new over base, the median of runs next to each other; again: a second look"]
    lines = lines if rows else []
    same = sum(_same(one) for one in found)
    lines += [f"{same} counts are the same, within {NEAR:.0%}."] if same else []
    lines += [f"skipped: {one.name}, {one.skipped}" for one in found if one.first is None]
    slower = [one.name for one in found if verdict(one, meant) == "SLOWER"]
    if not slower:
        return "\n".join([*lines, f"Nothing takes {LIMIT} times as much as with {base}, or more, in both looks."])
    return "\n".join(
        [
            *lines,
            f"{LIMIT} times as much as with {base}, or more, in both looks: {', '.join(slower)}.",
            f"If that is meant, say why in the commit message and end it with\n    Slower: {' '.join(slower)}",
        ]
    )


def _same(one: Compared) -> bool:
    """Whether it is a count that both sides share."""
    return one.first is not None and not one.timed and 1 / (1 + NEAR) <= one.first.factor <= 1 + NEAR


def _row(one: Compared, seen: Seen, meant: Sequence[str]) -> dict[str, object]:
    cells = [f"{1000 * value:.1f} ms" if one.timed else f"{value:.4g}" for value in (seen.base, seen.new)]
    row: dict[str, object] = {"name": one.name, "base": cells[0], "new": cells[1], "factor": seen.factor}
    row |= {"least": seen.least, "most": seen.most, "second": f"{one.second.factor:.2f}" if one.second else ""}
    return {**row, "verdict": verdict(one, meant)}


def false_alarms(tree: Path, only: Sequence[str], times: int) -> int:
    """Compare a tree with itself, and tell how often the first look, and both, took it for slower; 0."""
    first = both = 0
    for i in range(times):
        found = compare(tree, tree, only, say=say)
        suspects = [(one.name, one.first.factor, one.second.factor) for one in found if one.first and one.second]
        first, both = first + bool(suspects), both + any(one.slower for one in found)
        largest = max(one.first.factor for one in found if one.first)
        again = "; ".join(f"{name} {seen:.2f}, again {second:.2f}" for name, seen, second in suspects)
        print(f"{i + 1} of {times}: largest factor {largest:.2f}{', ' if again else ''}{again}", flush=True)
    print(f"{both} false alarms in {times} comparisons, {first} of which had a second look")
    return 0


if __name__ == "__main__":
    sys.exit(main())
