"""Findings about trainings by particles: parameters, losses and particles that run away. All arrays are the host's."""

from collections.abc import Sequence

import numpy as np

from xpsample.diagnostics.findings import Finding

# Size of a parameter; share of the coordinates that are at the ends of a box; and how many times as far as most
# particles one is from their middle, which is 1 in 30 for 500 particles with Cauchy tails.
LARGEST, AT_BOUNDS, FAR = 1e8, 0.5, 1e4

# Difference of the mean log densities of data and particles. They differ by fractions of the dimension in a training
# that follows its particles.
NATS, NATS_PER_DIMENSION = 100.0, 10.0


def judge_training(parameters: Sequence[np.ndarray], x: np.ndarray, loss: float = 0.0) -> list[Finding]:
    """Check whether training diverged, from parameters, particles (*runs, particles, dim) and the last loss."""
    lost = sum(not bool(np.all(np.abs(leaf) <= LARGEST)) for leaf in parameters)
    if lost:
        what = f"the training diverged: {lost} of {len(parameters)} parameters are above {LARGEST:g}, or not finite"
        advice = "use a smaller learning rate, or wrap the optimizer in Clipped(...)"
        return [Finding("training", what, lost, advice)]
    with np.errstate(all="ignore"):
        x = x.astype(np.float64)
        ends = [end(x, axis=(-3, -2, -1)[-min(x.ndim, 3) :], keepdims=True) for end in (np.min, np.max)]
        share = float(np.mean((x == ends[0]) | (x == ends[1])))
        distance = np.linalg.norm(x - np.median(x, axis=-2, keepdims=True), axis=-1)
        far = float(np.max(np.max(distance, axis=-1) / np.median(distance, axis=-1)))
    if share > AT_BOUNDS:
        what = (
            f"the training diverged: {share:.0%} of the particles' coordinates are at the bounds of the box "
            f"(limit {AT_BOUNDS:.0%})"
        )
        advice = (
            "the moves leave the density. Use a smaller step_size; if that is not enough, use a smaller learning rate "
            "or a gradient_penalty"
        )
        return [Finding("training", what, share, advice)]
    if not abs(loss) <= (limit := NATS + NATS_PER_DIMENSION * x.shape[-1]):
        what = f"the training diverged: its loss, of data and particles, is {loss:.3g} (limit {limit:g} in size)"
        return [
            Finding("training", what, abs(loss), "use a smaller learning rate, or a smaller step_size of the moves")
        ]
    if not far <= FAR:
        what = (
            f"the training lost particles: one is {far:.3g} times as far from the center as the median particle "
            f"(limit {FAR:g})"
        )
        advice = (
            "the density has no finite integral at these parameters, or the moves are too long. Make the energy grow "
            "in the tails, or use a smaller step_size"
        )
        return [Finding("training", what, far, advice)]
    return []
