"""Tables for people, as wide as their terminal."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Row = dict[str, Any]
Spec = str | Callable[[Row], str]
Column = tuple[str, Spec]
Columns = Mapping[str, Column]
"""Key of the rows to heading and format, see `table`."""

GAP = "  "
PLUS_MINUS, INTERVAL = "+-", "(low-high)"


def columns(text: str) -> dict[str, Column]:
    """Columns in one string, such as ``"target | alpha g | mse .2e+- error"``.

    Each has the key of the rows; its format, text by default; and its heading, the key by default.
    """
    parts = ([*part.split(maxsplit=2), "", ""] for part in text.split(" | "))
    return {key: (head.strip() or key, spec or "s") for key, spec, head, *_ in parts}


def table(rows: Sequence[Row], columns: Columns, keys: Sequence[str] | None = None, width: int | None = None) -> str:
    """Rows in columns, text to the left and numbers to the right.

    Parameters
    ----------
    rows : sequence of mapping
        A key that a row lacks is shown as nothing, None and nan as ``-``.
    columns : mapping of str to (str, str or callable)
        Key of the rows to heading and format. That is a format specification such as ``".3f"``; one with ``+-`` after
        it, such as ``".3f+-"``, adds the number under ``KEY_se``, and one with ``(low-high)`` those under ``KEY_low``
        and ``KEY_high``. Or it is a function of the row, which gives the text.
    keys : sequence of str, optional
        The columns that name a row; by default the first ones of text.
    width : int, optional
        A wider table is split into blocks of columns, each with the keys before it.
    """
    if not rows:
        return "(no rows)"
    text = {key: _is_text(rows, key, spec) for key, (_, spec) in columns.items()}
    shown: dict[str, list[str]] = {}
    for key, (head, spec) in columns.items():
        cells = [head, *(_cell(row, key, spec) for row in rows)]
        wide = max(map(len, cells))
        cells.insert(1, "-" * wide)
        shown[key] = [cell.ljust(wide) if text[key] else cell.rjust(wide) for cell in cells]
    if keys is None:
        first_number = next((i for i, is_text in enumerate(text.values()) if not is_text), len(text))
        keys = list(columns)[: max(1, first_number)]
    blocks = _blocks(shown, keys, width)
    lines = ([GAP.join(cells).rstrip() for cells in zip(*map(shown.get, block), strict=True)] for block in blocks)
    return "\n\n".join("\n".join(block) for block in lines)


def _blocks(shown: Mapping[str, list[str]], keys: Sequence[str], width: int | None) -> list[list[str]]:
    """The columns of each block, as many as fit and at least one that is no key."""

    def wide(block: Sequence[str]) -> int:
        return sum(len(shown[key][0]) + len(GAP) for key in block) - len(GAP)

    if width is None:
        return [list(shown)]
    blocks = [[*keys]]
    for key in (key for key in shown if key not in keys):
        if len(blocks[-1]) > len(keys) and wide([*blocks[-1], key]) > width:
            blocks.append([*keys])
        blocks[-1].append(key)
    return blocks


def _is_text(rows: Sequence[Row], key: str, spec: Spec) -> bool:
    values = [row[key] for row in rows if row.get(key) is not None]
    return not callable(spec) and bool(values) and all(isinstance(value, str) for value in values)


def _cell(row: Row, key: str, spec: Spec) -> str:
    if callable(spec):
        return spec(row)
    value = row.get(key, "")
    if isinstance(value, str):
        return value
    if _is_nothing(value):
        return "-"
    more = next((suffix for suffix in (PLUS_MINUS, INTERVAL) if spec.endswith(suffix)), "")
    plain = spec.removesuffix(more)
    text = format(value, plain)
    if more == PLUS_MINUS and not _is_nothing(row.get(f"{key}_se")):
        return f"{text} +- {row[f'{key}_se']:{plain}}"
    if more == INTERVAL:
        return f"{text} ({row[f'{key}_low']:{plain}}-{row[f'{key}_high']:{plain}})"
    return text


def _is_nothing(value: Any) -> bool:
    return value is None or value != value


def mean_and_error(key: str, values: Any) -> dict[str, float]:
    """The mean of values along one axis, under `key`, and its standard error, under ``KEY_se``; nan for one value."""
    values = np.asarray(values, dtype=np.float64)
    error = np.std(values, ddof=1) / math.sqrt(values.size) if values.size > 1 else math.nan
    return {key: float(np.mean(values)), f"{key}_se": float(error)}


def means_and_errors(values: Mapping[str, Any]) -> dict[str, float]:
    """`mean_and_error` of the values under each key."""
    return {name: number for key, of in values.items() for name, number in mean_and_error(key, of).items()}


def interval(row: Row, key: str) -> tuple[float, float]:
    """95 % about the mean that `mean_and_error` put into a row."""
    half = 1.96 * row[f"{key}_se"]
    return row[key] - half, row[key] + half
