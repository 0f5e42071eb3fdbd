"""SRLD paper, Section 6.3 and Appendix D: Thompson sampling by networks whose weights LD, SRLD and SVGD sample.

Ten trials are one batch of chains. After every 50 contexts the chains continue with the new rows, and a context's arm
is the best one under one of the last 20 samples, picked at random.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.devices import DeviceDtype
from xpsample.core.hyperparameters import PER_CHAIN
from xpsample.core.registry import backend_of
from xpsample.experiments.figures import band
from xpsample.experiments.runner import Experiment, Run, float32
from xpsample.experiments.srld import bandit_problems as problems
from xpsample.experiments.srld.bandit_networks import NetworkPolicy, Played
from xpsample.experiments.srld.reward_network import RewardNetwork
from xpsample.experiments.table import Row, columns, interval, mean_and_error
from xpsample.kernels import ULA
from xpsample.metrics.stein import Median, PairKernel
from xpsample.particles.svgd import SVGD, AdaGrad
from xpsample.sampling.noise import Portable
from xpsample.srld import SRLD, Rolling

M, ALPHA = 20, 10.0
ETA = 5e-8
"""Step size of LD and SRLD, on both bandits, from the authors' code, whose 1e-7 is halved there; not in the paper."""

SVGD_STEP = 0.01
"""With `AdaGrad`, as Liu & Wang run it on networks; ten times their step for about a tenth of their 2,000 steps."""

REGRETS = {
    "mushroom": {"SVGD": "20.7 +- 2.0", "LD": "4.28 +- 0.09", "SRLD": "3.80 +- 0.16"},
    "wheel": {"SVGD": "91.32 +- 0.17", "LD": "38.07 +- 1.11", "SRLD": "32.08 +- 0.75"},
}
"""Results of the paper's Table 2."""
COLOURS = {
    "uniform": "#b0b0b0",
    "linear greedy": "#8fb4d9",
    "linear Thompson": "#3567A8",
    "LD": "#202020",
    "SRLD": "#B3440A",
    "SVGD": "#3B7A57",
    "attracting": "#D98A2B",
}
DEFAULT = tuple(COLOURS)[:-1]
BANDITS: dict[str, Callable[[], problems.Bandit]] = {"mushroom": problems.mushroom, "wheel": problems.Wheel}


class Size(NamedTuple):
    """Contexts, trials, rows of a batch, c, and units of a hidden layer.

    Trainings have 20 c steps at first, c fewer each time, and c from the 20th on, as in the authors' code (2,000,
    1,900, ..., 100): every one gives at least one sample.
    """

    contexts: int
    trials: int
    batch: int
    every: int
    hidden: int


PAPERS = Size(contexts=50_000, trials=10, batch=512, every=100, hidden=100)
FULL = Size(contexts=2000, trials=10, batch=64, every=10, hidden=100)
QUICK = Size(contexts=120, trials=2, batch=16, every=2, hidden=8)

COLUMNS = columns(
    "bandit | backend | policy | regret .2f+- | last .2f+- last fifth | best .3f best arm | diverged d | "
    "seconds .0f s | paper s paper's regret"
)
LEGEND = """\
regret      cumulative, in per cent of what pulling arms at random loses on the same contexts in the mean; mean over
            trials and its standard error
last fifth  the same over the last fifth of the contexts only
best arm    share of the contexts in which the best arm was pulled
diverged    trials of which a chain left the finite numbers and was frozen
attracting  SRLD with alpha = 1 and the gradient of the kernel of the wrong sign, as in the authors' code"""
PAPER = """\
Table 2, after 50,000 contexts, is in the last column: SRLD is slightly better than LD on the mushrooms and
significantly better on the wheel, and SVGD is the worst"""


def options(parser: argparse.ArgumentParser) -> None:
    """Which bandits and policies, and how many contexts."""
    parser.add_argument("--bandit", action="append", choices=tuple(BANDITS), help="may be repeated (default: both)")
    parser.add_argument(
        "--policy", action="append", choices=tuple(COLOURS), help=f"may be repeated (default: {', '.join(DEFAULT)})"
    )
    parser.add_argument("--contexts", type=int, help="another number of contexts")


def measure(run: Run[Size]) -> Iterator[Row]:
    """All policies on the same games; cumulative regrets (context, trial) are left for the figure."""
    size = run.size._replace(contexts=run.args.contexts or run.size.contexts)
    last = slice(-(size.contexts // 5), None)
    run.say(
        f"{size.trials} trials of {size.contexts} contexts; two layers of {size.hidden}, M = {M}, alpha = {ALPHA:g}, "
        f"c = {size.every}, eta = {ETA:g}, batches of {size.batch}"
    )
    for name in run.args.bandit or BANDITS:
        bandit = BANDITS[name]()
        game = play_ahead(bandit, size.trials, size.contexts, run.seed)
        loss = problems.uniform_regret(game.means)
        run.say(f"{name}: {bandit.features} features, {bandit.arms} arms; uniform loses {loss.mean():.3f} a context")
        for device in run.devices:
            curves = run.shown[f"{name}, {device}"] = {}
            for policy in run.args.policy or DEFAULT:
                with run.step(f"{device}, {policy}"):
                    played = run.once(partial(_play, policy, bandit, game, size, device, run.seed + 1))
                lost = problems.regret(game.means, played["arms"])
                curves[policy] = 100 * np.cumsum(lost, axis=0) / np.sum(loss, axis=0)
                yield (
                    {"bandit": name, "backend": device.backend.name, "policy": policy}
                    | mean_and_error("regret", 100 * np.sum(lost, axis=0) / np.sum(loss, axis=0))
                    | mean_and_error("last", 100 * np.sum(lost[last], axis=0) / np.sum(loss[last], axis=0))
                    | {"best": np.mean(lost == 0), "diverged": np.sum(played["diverged"])}
                    | {"seconds": float(played["seconds"]), "paper": REGRETS[name].get(policy, "")}
                )
    run.save("curves", **{f"{name}/{policy}": x for name, of in _of_one_device(run) for policy, x in of.items()})


def _of_one_device(run: Run[Size]) -> list[tuple[str, dict[str, np.ndarray]]]:
    """By bandit, the cumulative regrets of the policies on the first device, in per cent of uniform's in the end."""
    return [(title.partition(",")[0], of) for title, of in list(run.shown.items())[:: len(run.devices)]]


def play_ahead(bandit: problems.Bandit, trials: int, rounds: int, seed: int) -> problems.Game:
    """A game on the host: contexts and the rewards of all arms, (rounds, trials, ...), the same on every backend."""
    like = np.zeros(1)
    return bandit.play(Portable(seed).block(backend_of(like), bandit.noise(trials), 0, rounds, like))


@dataclass(frozen=True, eq=False)
class Attracting(PairKernel):
    """`RBF` with the gradient of K of the wrong sign."""

    checked: ClassVar[bool] = False
    bandwidth: Any = field(default=Median(), metadata=PER_CHAIN)

    def profile(self, xp: Any, u: Array) -> tuple[Array, Array, Array]:
        f = xp.exp(-u)
        return f, f, f


def _play(
    policy: str, bandit: problems.Bandit, game: problems.Game, size: Size, device: DeviceDtype, seed: int
) -> dict[str, Any]:
    """The arms, which trials diverged, and how long it took."""
    began = time.perf_counter()
    if policy not in ("uniform", "linear greedy", "linear Thompson"):
        network = RewardNetwork(bandit.features, bandit.arms, size.hidden)
        played = network_policy(policy, network, size).play(game, device, seed)
    else:
        linear = problems.Linear(greedy=policy == "linear greedy")
        arms = problems.play_uniform(game, seed) if policy == "uniform" else linear.play(game, seed)
        played = Played(arms, np.zeros(size.trials, dtype=np.bool_))
    return {**played._asdict(), "seconds": time.perf_counter() - began}


def network_policy(name: str, network: RewardNetwork, size: Size) -> NetworkPolicy:
    """LD, SRLD, SVGD or the attracting control; SVGD makes one step for M of the others', with M gradients each."""
    if name == "SVGD":
        svgd = SVGD(SVGD_STEP, adagrad=AdaGrad())
        return NetworkPolicy(network, svgd, size.batch, max(1, size.every // M), M, particles=M)
    base, past = ULA(ETA), Rolling(M, size.every)
    kernels = {"LD": base, "SRLD": SRLD(base, ALPHA, past), "attracting": SRLD(base, 1.0, past, Attracting())}
    return NetworkPolicy(network, kernels[name], size.batch, size.every, M)


def conclude(run: Run[Size], rows: list[Row]) -> str:
    """The best policy of each bandit, and the difference of SRLD and LD, paired over trials, with a 95 % interval."""
    lines = []
    for title, curves in run.shown.items():
        best = min(curves, key=lambda policy: np.mean(curves[policy][-1]))
        lines.append(f"{title}: lowest regret {np.mean(curves[best][-1]):.2f} ({best})")
        if "LD" in curves and "SRLD" in curves:
            gain = mean_and_error("gain", curves["SRLD"][-1] - curves["LD"][-1])
            low, high = interval(gain, "gain")
            lines[-1] += f"; SRLD - LD: {gain['gain']:.2f} ({low:.2f}, {high:.2f})"
    return "\n".join(lines)


def plot(figure: Any, run: Run[Size], rows: list[Row]) -> None:
    """Cumulative regret against the contexts seen, a panel for each bandit."""
    shown = _of_one_device(run)
    figure.set_size_inches(6 * len(shown), 4)
    for axes, (bandit, curves) in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        for policy, values in curves.items():
            band(axes, np.arange(1, len(values) + 1), values, 1, COLOURS[policy], policy)
        axes.set(title=bandit, xlabel="contexts", ylabel="cumulative regret, % of uniform's")
        axes.legend(frameon=False, fontsize=8)


EXPERIMENT = Experiment(
    name="srld-bandits",
    title="Contextual bandits; SRLD paper, Section 6.3 and Appendix D",
    settings={"full": FULL, "quick": QUICK, "paper": PAPERS},
    measure=measure,
    columns=COLUMNS,
    legend=LEGEND,
    conclude=conclude,
    paper=PAPER,
    figures={"plot": plot},
    options=options,
    devices=float32,
)
