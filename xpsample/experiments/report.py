"""What experiments share: their options, the places they run on, and the files they leave behind."""

import argparse
import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xpsample.experiments.runner import one_thread
from xpsample.experiments.table import table

__all__ = ["Report", "add_common_arguments", "one_thread", "table"]


def add_common_arguments(parser: argparse.ArgumentParser, name: str, backends: str = "every installed one") -> None:
    """Add ``--backend``, ``--quick``, ``--seed`` and ``--out``; `backends` says what runs without ``--backend``."""
    parser.add_argument(
        "--backend",
        action="append",
        metavar="NAME",
        help=f"array library to run on; may be given several times (default: {backends})",
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
