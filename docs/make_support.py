"""Runs the conformance suite and writes `support.md`, the table on the page on array libraries.

``python docs/make_support.py`` takes some minutes. Run it after a kernel was added or changed; a test compares the
kernels and the libraries of the table with the suite.
"""

import os

os.environ.setdefault(
    "JAX_ENABLE_X64", "1"
)  # so that the table has JAX in float64, too

from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from xpsample.conformance import check_all, scenarios
from xpsample.conformance.checks import Row
from xpsample.conformance.report import line
from xpsample.core.devices import device_dtypes, missing

OUT = Path(__file__).parent / "support.md"
PACKAGES = ("xpsample", "numpy", "torch", "jax", "array-api-strict")


def main() -> None:
    """Write the table, or stop at a failure."""
    rows = list(check_all(scenarios(), device_dtypes(), quick=True))
    if failed := [line(row) for row in rows if not row.passed]:
        raise SystemExit(f"conformance failed: {failed}")
    passed = {(row.scenario.name, _place(row)) for row in rows}
    places = list(dict.fromkeys(map(_place, rows)))
    names = list(dict.fromkeys(row.scenario.name for row in rows))
    lines = [
        "| kernel | " + " | ".join(places) + " |",
        "| --- |" + " --- |" * len(places),
    ]
    lines += [
        f"| {n} | "
        + " | ".join("yes" if (n, p) in passed else "-" for p in places)
        + " |"
        for n in names
    ]
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    skipped = "".join(f"- {text}\n" for text in missing())
    OUT.write_text(
        f"{len(rows)} of {len(rows)} rows passed on {datetime.now(UTC):%Y-%m-%d}, with {versions}.\n\n"
        ":::{dropdown} The table\n"
        + "\n".join(lines)
        + "\n:::\n\nNot run, for want of a device:\n\n"
        + skipped
    )


def _place(row: Row) -> str:
    return f"{row.device.backend.name} {row.device.name} {row.device.dtype}"


if __name__ == "__main__":
    main()
