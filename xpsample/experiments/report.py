"""What experiments share: their options, the places they run on, and the files they leave behind."""

import argparse
import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def add_common_arguments(parser: argparse.ArgumentParser, name: str, backends: Sequence[str] | None = None) -> None:
    """Add ``--backend``, ``--quick``, ``--seed`` and ``--out``; `backends` are what its help gives as the default."""
    parser.add_argument(
        "--backend",
        action="append",
        metavar="NAME",
        help="array library to run on; may be given several times "
        f"(default: {'every installed one' if backends is None else ', '.join(backends)})",
    )
    parser.add_argument("--quick", action="store_true", help="a small version that takes seconds, to see that it works")
    parser.add_argument("--seed", type=_seed, default=0, help="seed of the runs, not negative (default: %(default)s)")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("xpsample-out") / name,
        metavar="DIR",
        help="where the files go (default: %(default)s)",
    )


def _seed(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return value


@contextmanager
def one_thread() -> Iterator[None]:
    """Let libraries that are loaded inside start one OpenMP thread, unless the user has set OMP_NUM_THREADS.

    On the small arrays of an experiment threads gain nothing, and on a busy machine they wait for each other: a
    hundredfold loss was seen. Libraries loaded before are not affected.
    """
    if "OMP_NUM_THREADS" in os.environ:
        yield
        return
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        del os.environ["OMP_NUM_THREADS"]


class Report:
    """Prints lines as they come, and keeps them for ``report.txt``.

    Parameters
    ----------
    out : path
        The directory of all files; made if it is not there.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.lines: list[str] = []
        out.mkdir(parents=True, exist_ok=True)

    def say(self, text: str = "") -> None:
        """Print at once."""
        self.lines.append(text)
        print(text, flush=True)

    def rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write a table as ``results.csv`` and ``results.json``, numbers in full."""
        with open(self.out / "results.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        (self.out / "results.json").write_text(json.dumps(list(rows), indent=1) + "\n", encoding="utf-8")

    def close(self) -> None:
        """Write ``report.txt``."""
        (self.out / "report.txt").write_text("\n".join(self.lines) + "\n", encoding="utf-8")


def table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, tuple[str, str]]) -> str:
    """A table for people: text to the left, numbers to the right.

    Parameters
    ----------
    rows : sequence of mapping
    columns : mapping of str to (str, str)
        Key of the rows to heading and format specification, such as ``("R-hat", ".3f")``.
    """
    cells = [[format(row[key], spec) for key, (_, spec) in columns.items()] for row in rows]
    heads = [head for head, _ in columns.values()]
    left = [isinstance(rows[0][key], str) for key in columns]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]

    def line(texts: Sequence[str]) -> str:
        padded = (f"{t:<{w}}" if to_left else f"{t:>{w}}" for t, w, to_left in zip(texts, widths, left, strict=True))
        return "  ".join(padded).rstrip()

    return "\n".join([line(heads), "  ".join("-" * w for w in widths), *map(line, cells)])
