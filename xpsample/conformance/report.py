"""The conformance results as tables."""

from collections.abc import Iterable
from itertools import chain

from xpsample.conformance.checks import CHECKS, Outcome, Row

HEADER = ("kernel", "backend", "device", "dtype", *CHECKS)
WIDTHS = (20, 16, 8, 7, 13, 10, 16, 14, 12, 11, 14, 12, 6)


def cell(outcome: Outcome) -> str:
    """An outcome in a few characters."""
    mark = {True: "pass", False: "FAIL", None: "-"}[outcome.passed]
    return f"{mark} {outcome.detail}".strip() if outcome.passed is not None else mark


def line(row: Row) -> tuple[str, ...]:
    """The cells of a row."""
    device = row.device
    return (
        row.scenario.name,
        device.backend.name,
        device.name,
        device.dtype,
        *(cell(row.outcomes[name]) for name in CHECKS),
    )


def text_lines(rows: Iterable[Row], width: int) -> Iterable[str]:
    """A header, then the rows as they come, in cells of fixed width; a narrow terminal gets several lines for each."""
    for cells in chain([HEADER], map(line, rows)):
        lines = [""]
        for cell_text, cell_width in zip(cells, WIDTHS, strict=True):
            if len(lines[-1]) + cell_width > width:
                lines.append("    ")
            lines[-1] += f"{cell_text:{cell_width}}  "
        yield "\n".join(text.rstrip() for text in lines)


def markdown(rows: Iterable[Row]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(HEADER) + " |", "|" + " --- |" * len(HEADER)]
    lines += ["| " + " | ".join(line(row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"
