"""Tables for people."""

from collections.abc import Mapping, Sequence
from typing import Any


def table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, tuple[str, str]]) -> str:
    """Rows as aligned text: text to the left, numbers to the right.

    `columns` maps keys of the rows to a heading and a format specification, such as ``("ratio", ".2f")``.
    """
    cells = [[format(row[key], spec) for key, (_, spec) in columns.items()] for row in rows]
    heads = [head for head, _ in columns.values()]
    left = [isinstance(rows[0][key], str) for key in columns]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]

    def line(texts: Sequence[str]) -> str:
        padded = (f"{t:<{w}}" if to_left else f"{t:>{w}}" for t, w, to_left in zip(texts, widths, left, strict=True))
        return "  ".join(padded).rstrip()

    return "\n".join([line(heads), "  ".join("-" * w for w in widths), *map(line, cells)])
