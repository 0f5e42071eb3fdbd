"""The progress bar of a run."""

import sys
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from xpsample.core.errors import XpsampleError

SILENT = 30.0  # Seconds after which a run without a bar says how far it is, once, where as long or longer is left


class Bar:
    """Callback that shows how far a run is.

    Without a bar, a long run prints one line after `SILENT` seconds, unless `progress` is False.

    Parameters
    ----------
    progress : bool or None
    total : int
        Number of steps.
    text : callable
        Text next to the bar, from the sums of a block and its number of steps.
    unit : str
    """

    def __init__(
        self,
        progress: bool | None,
        total: int,
        text: Callable[[Any, int], str] = lambda sums, steps: "",
        unit: str = "step",
    ) -> None:
        self._settings, self._text, self._bar = (progress, total, unit), text, None
        self._quiet = progress is None

    def on_start(self, run: Any) -> None:
        """Show the bar."""
        progress, total, unit = self._settings
        self._bar = progress_bar(progress, total, run.step, unit).__enter__()
        self._since, self._first = time.monotonic(), run.step

    def on_block(self, run: Any) -> None:
        """Move the bar, or print the line."""
        if self._bar is not None and run.made:
            self._bar.set_postfix_str(self._text(run.sums, run.made), refresh=False)
            self._bar.update(run.made)
        elif self._bar is None and self._quiet and (spent := time.monotonic() - self._since) > SILENT:
            self._quiet, (_, total, unit) = False, self._settings
            left = spent * (total - run.step) / max(1, run.step - self._first)
            if left > SILENT:
                done = f"{run.step} of {total} {unit}s in {spent:.0f} s, about {left / 60:.1f} min to go"
                print(f"xpsample: {done} (progress=True shows a bar, progress=False hides this line)", file=sys.stderr)

    def on_end(self, run: Any) -> None:
        """Close the bar."""
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
