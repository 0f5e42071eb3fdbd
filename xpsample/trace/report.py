"""A report of a run: one HTML file with its table, findings, plots, settings and versions."""

import base64
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from typing import Any

import numpy as np

from xpsample.core.version import __version__
from xpsample.trace.conversions import installed
from xpsample.trace.summary import Summary, escaped

STYLE = """body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 62em; padding: 0 1em }
table { border-collapse: collapse } td, th { padding: 0.15em 0.7em; text-align: right }
tr { border-bottom: 1px solid #ddd } th:first-child { text-align: left } img { max-width: 100% }
.settings td { text-align: left; overflow-wrap: anywhere }"""


def page(summary: Summary, plots: Iterable[tuple[str, Callable[[], Any]]], metadata: Mapping[str, Any]) -> str:
    """The text of the file. `plots` are functions that return a figure, by the name of its kind."""
    pyplot = installed("matplotlib.pyplot", 'report() needs matplotlib: pip install "xpsample[plot]"')
    findings = "" if summary.findings else "<p>No findings.</p>"
    pictures = []
    for kind, draw in plots:
        figure, content = draw(), BytesIO()
        figure.savefig(content, format="png", dpi=100)
        pyplot.close(figure)
        encoded = base64.b64encode(content.getvalue()).decode()
        pictures.append(f'<h2>{kind}</h2><img alt="{kind}" src="data:image/png;base64,{encoded}">')
    versions = {"xpsample": __version__, "Python": platform.python_version(), "NumPy": np.__version__}
    backend = sys.modules.get(metadata.get("backend", ""))
    versions |= {} if backend in (None, np) else {metadata["backend"]: getattr(backend, "__version__", "unknown")}
    settings = {name: value for name, value in metadata.items() if name not in ("diagnosis", "parameters", "space")}
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>xpsample: report</title>'
        f"<style>{STYLE}</style></head><body><h1>{escaped(str(metadata.get('kernel', 'Report')))}</h1>"
        f"<h2>Summary</h2>{summary._repr_html_()}{findings}{''.join(pictures)}"
        f"<h2>Settings</h2>{_rows(settings)}<h2>Versions of this report</h2>{_rows(versions)}</body></html>"
    )


def _rows(values: Mapping[str, Any]) -> str:
    rows = "".join(f"<tr><th>{escaped(name)}</th><td>{escaped(str(value))}</td></tr>" for name, value in values.items())
    return f'<table class="settings">{rows}</table>'
