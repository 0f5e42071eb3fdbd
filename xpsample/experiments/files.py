"""The rows of an experiment as csv and json."""

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xpsample.experiments.table import Row


def write_rows(out: Path, rows: Sequence[Row], name: str = "results") -> None:
    """``NAME.csv`` and ``NAME.json``, numbers in full; what a row lacks, and what is not finite, is left out."""
    if not rows:
        return
    keys = dict.fromkeys(key for row in rows for key in row)
    plain = [{key: _plain(row.get(key)) for key in keys} for row in rows]
    with open(out / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(keys))
        writer.writeheader()
        writer.writerows(plain)
    (out / f"{name}.json").write_text(json.dumps(plain, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    """A number of a row as Python's, None for one that JSON does not know."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
