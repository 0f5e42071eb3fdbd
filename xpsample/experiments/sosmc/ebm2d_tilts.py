"""A family of sosmc-ebm2d that cannot represent the optimum: tilts of the blobs' density with three parameters."""

from typing import Any, NamedTuple

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.registry import to_host
from xpsample.experiments.figures import tidy
from xpsample.experiments.runner import Run
from xpsample.experiments.sosmc.ebm2d_problems import CENTRES, REWARDS, Grid, optimum
from xpsample.experiments.sosmc.methods import COLOURS, Method
from xpsample.experiments.sosmc.problems import Problem, Reward, family, start_positions
from xpsample.experiments.table import Row, columns
from xpsample.optimize.optimizers import Adam
from xpsample.particles.resampling import Systematic
from xpsample.sosmc import RewardReverseKL, SOSMCHistory
from xpsample.targets import Parametric

TILTS = "tilts"
"""Name of the family among the data sets."""
RATE, DRAWS, FALL = 0.01, 5, 0.9
BLOBS = Problem("blobs", CENTRES, 0.25, np.zeros(3), Reward((0.0, 0.0), 1.0, False), 0.0)
"""The density of the blobs before they are standardized; its reward is not used."""
COLUMNS = columns(
    "beta g | method | start .3f | model .3f | optimum .3f | particles .3f | to_90 g to 90 % | above .5f | above_sd .5f"
    " sd | above_most .5f most | gap .4f"
)
LEGEND = """\
means over 5 draws of the particles, by quadrature
start      expected reward of the blobs; model: of the tuned tilt; optimum: of the best of all distributions (Eq. 39)
to 90 %    iterations until 90 % of the fall of the loss that the family allows, median over the draws
above      loss at the end above the least one of the family; most: of the draw with the largest
gap        least loss of the family above the one of all distributions"""


def tilted(runs: int) -> Parametric:
    """Family ``p_0(x) exp(t_1 x_1 + t_2 x_2 + t_3 |x|^2 / 2)`` of the blobs' density p_0, parameters (runs, 1, 3)."""
    blobs = family(BLOBS, 0.0, 1)
    blobs_score = blobs.score
    assert blobs_score is not None

    def log_density(x: Array, theta: Array) -> Array:
        a, b = x[..., 0], x[..., 1]
        tilt = theta[..., 0] * a + theta[..., 1] * b + 0.5 * theta[..., 2] * (a * a + b * b)
        return blobs.log_density(x, 0.0 * theta) + tilt  # three logits of 0: equal weights

    def score(x: Array, theta: Array) -> Array:
        return blobs_score(x, 0.0 * theta) + theta[..., :2] + theta[..., 2:] * x

    return Parametric(log_density, np.zeros((runs, 1, 3)), score=score)


class Tilts(NamedTuple):
    """The family by quadrature on a grid: log probabilities (points,), statistics (points, 3), rewards (points,)."""

    grid: Grid
    logs: np.ndarray
    statistics: np.ndarray
    rewards: np.ndarray

    @classmethod
    def of(cls, grid: Grid, inside: Any) -> "Tilts":
        """On a grid, with the reward `inside`."""
        x = grid.points
        values = np.asarray(tilted(1).log_density(x[None], np.zeros((1, 1, 3))))[0]
        statistics = np.concatenate([x, 0.5 * np.sum(x * x, axis=-1, keepdims=True)], axis=-1)
        return cls(grid, grid.normalised(values), statistics, inside(x))

    def reward_and_loss(self, theta: np.ndarray, beta: float) -> tuple[float, float]:
        """Expected reward of a tilt (3,), and its loss: minus that, and beta times the KL divergence."""
        logs = self.grid.normalised(self.logs + self.statistics @ theta)
        shares = np.exp(logs)
        reward = float(shares @ self.rewards)
        return reward, beta * float(shares @ (logs - self.logs)) - reward

    def least(self, beta: float) -> float:
        """Least loss: the gradient is 0 where theta is the regression of R / beta on the statistics under the tilt."""
        theta = np.zeros(3)
        for _ in range(200):
            shares = np.exp(self.grid.normalised(self.logs + self.statistics @ theta))
            centred = self.statistics - shares @ self.statistics
            weighted = shares[:, None] * centred
            best = np.linalg.solve(weighted.T @ centred, weighted.T @ self.rewards / beta)
            theta = 0.5 * (theta + best)
        return self.reward_and_loss(theta, beta)[1]


def tune_tilts(run: Run[Any], methods: dict[str, Method]) -> list[Row]:
    """A row for each method and beta, over `DRAWS` draws of the particles; all draws and betas are one batched run."""
    size, device = run.size, run.devices[0]
    inside, betas = REWARDS[run.args.reward], np.repeat(size.betas, DRAWS)
    exact = Tilts.of(Grid.of(size.cells), inside)
    x0 = device.array(start_positions(BLOBS, len(betas), size.particles, run.seed))
    loss, rows = RewardReverseKL(inside, device.array(betas[:, None])), []
    for name, method in methods.items():
        trace = run.sample(
            *(tilted(len(betas)), method.kernel(loss, Adam(RATE), Systematic()), x0, size.iterations),
            recorders=(SOSMCHistory({"reward": inside}),),
            label=f"{TILTS}, {name}",
        )
        kept = trace.recorded["history"]
        thetas = to_host(kept["parameters"]).astype(np.float64)[:, :, 0]
        for r, beta in enumerate(size.betas):
            own = slice(r * DRAWS, (r + 1) * DRAWS)
            pairs = np.array([[exact.reward_and_loss(theta, beta) for theta in draws] for draws in thetas[:, own]])
            begin, losses = exact.reward_and_loss(np.zeros(3), beta), pairs[:, :, 1]
            least, best = exact.least(beta), optimum(begin[0], beta)
            reached = losses <= begin[1] - FALL * (begin[1] - least)
            first = np.where(np.any(reached, axis=0), np.argmax(reached, axis=0) + 1.0, np.inf)
            run.shown[f"{TILTS} {name} {beta:g}"] = losses - least
            rows.append(
                {
                    "dataset": TILTS,
                    "method": name,
                    "beta": beta,
                    "start": begin[0],
                    "model": np.mean(pairs[-1, :, 0]),
                    "optimum": best.reward,
                    "particles": np.mean(to_host(kept["reward"])[-1, own]),
                    "to_90": np.median(first),
                    "above": np.mean(losses[-1] - least),
                    "above_sd": np.std(losses[-1], ddof=1),
                    "above_most": np.max(losses[-1]) - least,
                    "gap": least - best.loss,
                    "seconds": trace.metadata["seconds"],
                }
            )
    return rows


def plot_tilts(figure: Any, run: Run[Any], rows: list[Row]) -> None:
    """For each beta the loss above the least one of the family, against the iteration: all draws of each method."""
    own = [row for row in rows if row["dataset"] == TILTS]
    if not own:
        return
    betas = list(dict.fromkeys(row["beta"] for row in own))
    figure.set_size_inches(3.4 * len(betas), 2.9)
    panels = figure.subplots(1, len(betas), squeeze=False)[0]
    for axes, beta in zip(panels, betas, strict=True):
        for name in dict.fromkeys(row["method"] for row in own):
            losses = run.shown[f"{TILTS} {name} {beta:g}"]
            for draw, course in enumerate(losses.T):
                label = None if draw else name
                axes.plot(1 + np.arange(len(course)), course, color=COLOURS[name], lw=0.8, label=label)
        axes.set(yscale="log", xlabel="iteration", title=f"beta = {beta:g}: loss above the least")
    tidy(*panels)
    panels[0].legend(frameon=False, fontsize=8)
