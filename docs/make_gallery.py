"""Draw the figures of the gallery: ``python docs/make_gallery.py [PAGE ...]`` writes ``docs/_static/gallery/*.png``.

It runs the Python blocks of the pages, each of which ends with its figure. It needs JAX and matplotlib.
"""

import os
import re
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

PAGES = Path(__file__).parent / "gallery"
OUT = Path(__file__).parent / "_static" / "gallery"


def run(page: Path) -> None:
    """Run a page in the current folder."""
    code = re.findall(
        r"^```python\n(.*?)^```$",
        page.read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    exec(compile("\n".join(code), str(page), "exec"), {"__name__": page.stem})


if __name__ == "__main__":
    names = sys.argv[1:] or sorted(
        page.stem for page in PAGES.glob("*.md") if page.stem != "index"
    )
    OUT.mkdir(parents=True, exist_ok=True)
    os.chdir(OUT)
    for name in names:
        run(PAGES.resolve() / f"{name}.md")
