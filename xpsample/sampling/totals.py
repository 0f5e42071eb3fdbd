"""Sums of the step infos over a run."""

import math
import time
from typing import Any

import numpy as np

from xpsample.core import tree
from xpsample.core.registry import to_host
from xpsample.diagnostics.diagnosis import RunStatistics
from xpsample.kernels.kernel import Info
from xpsample.targets.batched import REJECTIONS

MOST_WAITING, MOST_SECONDS = 16, 0.1  # Largest number of segments, and of their seconds, whose sums wait to be fetched

RAISED = "evaluations/raised"

MOST_GROUPS = 8  # Whose numbers a progress bar shows


class Totals:
    """Sums of the step infos over a run, kept on the host in float64. Steps of the `burn_in` do not count.

    A driver may return before its device is done. Fetching sums waits for the device, so the sums of short blocks are
    fetched several at a time.
    """

    def __init__(self, burn_in: int = 0) -> None:
        self.steps, self._burn_in = 0, burn_in
        self._sums: dict[str, Any] = {}
        self._waiting: list[Info] = []
        self._most, self._fetched = 1, time.perf_counter()
        self._rejections = 0

    def begin(self) -> None:
        """Count the exceptions that stand for a density of 0 from here on."""
        self._rejections = REJECTIONS.count

    def add(self, steps: int, sums: Info, end: float = math.inf) -> None:
        """Add the sums of a block of steps, as a driver returns them, which ended at step `end` of the run."""
        raised, self._rejections = REJECTIONS.count - self._rejections, REJECTIONS.count
        if not steps or end <= self._burn_in:
            return
        self.steps += steps
        self._waiting.append(sums)
        if len(self._waiting) >= self._most:
            began, count = self._fetched, len(self._waiting)
            self._fetch()  # waits, so the work is timed, not only its start
            each = (self._fetched - began) / count
            self._most = int(max(1, min(MOST_WAITING, MOST_SECONDS / max(each, 1e-6))))
        if raised:
            self.sums[RAISED] = self.sums.get(RAISED, np.asarray(0.0)) + raised

    @property
    def sums(self) -> dict[str, Any]:
        """By name, of all segments."""
        self._fetch()
        return self._sums

    @sums.setter
    def sums(self, sums: dict[str, Any]) -> None:
        self._waiting, self._sums = [], sums

    def _fetch(self) -> None:
        for sums in self._waiting:
            for path, leaf in tree.items(sums):
                self._sums[path] = self._sums.get(path, 0.0) + to_host(leaf).astype(np.float64)
        self._waiting, self._fetched = [], time.perf_counter()

    def run_statistics(self) -> RunStatistics:
        """Per-step means, and counts of divergences."""
        n, sums, unknown = max(self.steps, 1), self.sums, np.asarray(np.nan)
        accepted = sums.get("acceptance_probability/0", unknown) + sums.get("acceptance_probability/1", unknown)
        evaluations = {}
        for name in ("log_density", "score", "hvp"):
            evaluations[name] = float(np.mean(sums.get(f"evaluations/{name}", 0.0) / n))
        if RAISED in sums:
            evaluations["raised"] = float(sums[RAISED] / n / np.size(accepted))
        return RunStatistics(
            steps=self.steps,
            acceptance_probability=accepted / n,
            moved=sums.get("moved", unknown) / n,
            diverged=np.rint(sums.get("diverged", np.asarray(0.0))).astype(np.int64),
            evaluations=evaluations,
        )

    def shown(self, sums: Info, steps: int, axes: int) -> str:
        """Text of a progress bar: acceptance and divergences of each group of chains.

        The `sums` belong to the last block of `steps`. Positions have so many `axes`, (*groups, chain, dim).
        """
        coarse, fine = (to_host(part).astype(np.float64) for _, part in tree.items(sums.acceptance_probability))
        accepted = (coarse + fine) / steps
        diverged = self.sums.get("diverged", to_host(sums.diverged))
        groups = tuple(range(max(0, axes - 2), np.ndim(accepted)))  # the pooled axis, or none
        rates = np.ravel(np.mean(accepted, axis=groups))
        if np.ndim(diverged) == np.ndim(accepted):
            diverged = np.sum(diverged, axis=groups)
        counts = np.ravel(diverged)
        several = [f"{rate:.2f}" for rate in rates[:MOST_GROUPS]] + ["..."] * (len(rates) > MOST_GROUPS)
        text = f"accepts {' '.join(several)}"
        if np.any(counts):
            text += f", diverged {' '.join(f'{count:.0f}' for count in counts[:MOST_GROUPS])}"
        return text
