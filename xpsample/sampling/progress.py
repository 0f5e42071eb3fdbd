"""The progress bar of a run."""

import sys
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from xpsample.core.errors import XpsampleError
from xpsample.sampling.loop import View

SILENT = 30.0
"""Seconds after which a run without a bar says how far it is, once, where as long or longer is left."""


class Bar:
    """A watcher that shows how far a run is, and what ``text(view)`` says beside."""

    def __init__(
        self, progress: bool | None, total: int, unit: str = "step", text: Callable[[View], str] = lambda view: ""
    ) -> None:
        self._settings, self._text, self._bar = (progress, total, unit), text, None
        self._quiet = progress is None

    def begin(self, view: View) -> None:
        """Show it, if it is wanted."""
        progress, total, unit = self._settings
        self._bar = progress_bar(progress, total, view.step, unit).__enter__()
        self._since, self._first = time.monotonic(), view.step

    def between(self, view: View) -> None:
        """Move it."""
        if self._bar is not None and view.made:
            self._bar.set_postfix_str(self._text(view), refresh=False)
            self._bar.update(view.made)
        elif self._bar is None and self._quiet and (spent := time.monotonic() - self._since) > SILENT:
            self._quiet, (_, total, unit) = False, self._settings
            left = spent * (total - view.step) / max(1, view.step - self._first)
            if left > SILENT:
                told = f"{view.step} of {total} {unit}s in {spent:.0f} s, about {left / 60:.1f} min to go"
                print(f"xpsample: {told} (progress=True has a bar, False has no such line)", file=sys.stderr)

    def end(self, view: View) -> None:
        """Close it."""
        if self._bar is not None:
            self._bar.close()


def progress_bar(progress: bool | None, total: int, done: int = 0, unit: str = "step") -> Any:
    """A context with a tqdm bar, or with None if no bar is wanted or tqdm is not installed."""
    shown = sys.stderr.isatty() or "ipykernel" in sys.modules  # a terminal or a notebook
    if not (shown if progress is None else progress):
        return nullcontext()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a notebook without ipywidgets has the bar of terminals
            from tqdm.auto import tqdm
    except ImportError:
        if progress:
            raise XpsampleError('progress=True needs tqdm: pip install "xpsample[progress]"') from None
        return nullcontext()
    return tqdm(total=total, initial=done, unit=unit, file=sys.stderr)
