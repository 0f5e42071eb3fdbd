"""The rows of an experiment as csv and json."""

import csv
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xpsample.experiments.table import Row


def write_rows(file: Callable[[str], Path], rows: Sequence[Row], name: str = "results") -> None:
    """Write ``NAME.csv`` and ``NAME.json``, numbers in full; missing and non-finite values are omitted.

    `file` maps a name to a path, such as `Run.file`.
    """
    if not rows:
        return
    keys = dict.fromkeys(key for row in rows for key in row)
    plain = [{key: _finite(row.get(key)) for key in keys} for row in map(plain_row, rows)]
    with open(file(f"{name}.csv"), "w", newline="", encoding="utf-8") as table:
        writer = csv.DictWriter(table, list(keys))
        writer.writeheader()
        writer.writerows(plain)
    file(f"{name}.json").write_text(json.dumps(plain, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def plain_row(row: Row) -> Row:
    """A row with Python's numbers in place of NumPy's."""
    return {key: value.item() if isinstance(value, np.generic) else value for key, value in row.items()}


def _finite(value: Any) -> Any:
    """None for a number that JSON does not know."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
