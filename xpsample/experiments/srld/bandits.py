"""SRLD paper, Section 6.3 and Appendix D: Thompson sampling by networks whose weights LD, SRLD and SVGD sample.

Ten trials are one batch of chains. After every 50 contexts the chains go on with the rows that have come in, and a
context's arm is the best one under one of the last 20 samples, picked at random.
"""

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.devices import DeviceDtype, device_dtypes, missing
from xpsample.core.hyperparameters import PER_CHAIN
from xpsample.experiments.report import Report, add_common_arguments, one_thread, table
from xpsample.experiments.srld.bandit_networks import NetworkPolicy, Played
from xpsample.experiments.srld.bandit_problems import (
    Bandit,
    Game,
    Linear,
    Wheel,
    mushroom,
    play_uniform,
    regret,
    uniform_regret,
)
from xpsample.kernels import ULA
from xpsample.metrics.stein import Median, PairKernel
from xpsample.particles.svgd import SVGD, AdaGrad
from xpsample.run.noise import Portable
from xpsample.srld import SRLD, Thinned
from xpsample.zoo.reward_network import RewardNetwork

M, ALPHA = 20, 10.0
ETA = 5e-8
"""Of LD and SRLD, on both bandits: the authors' code's, whose 1e-7 is halved there. The paper gives none."""

SVGD_STEP = 0.01
"""With `AdaGrad`, as Liu & Wang run it on networks; ten times their step for about a tenth of their 2,000 steps."""

PAPER = {
    "mushroom": {"SVGD": "20.7 +- 2.0", "LD": "4.28 +- 0.09", "SRLD": "3.80 +- 0.16"},
    "wheel": {"SVGD": "91.32 +- 0.17", "LD": "38.07 +- 1.11", "SRLD": "32.08 +- 0.75"},
}
POLICIES = ("uniform", "linear greedy", "linear Thompson", "LD", "SRLD", "SVGD", "attracting")
DEFAULT = POLICIES[:-1]
BANDITS: dict[str, Callable[[], Bandit]] = {"mushroom": mushroom, "wheel": Wheel}


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

COLUMNS = {
    "bandit": ("bandit", "s"),
    "policy": ("policy", "s"),
    "regret": ("regret", ".2f"),
    "regret_se": ("+-", ".2f"),
    "last": ("last fifth", ".2f"),
    "last_se": ("+-", ".2f"),
    "best": ("best arm", ".3f"),
    "diverged": ("diverged", ".0f"),
    "seconds": ("s", ".0f"),
    "paper": ("paper's regret", "s"),
}
LEGEND = """\
regret      cumulative, in per cent of what pulling arms at random loses on the same contexts in the mean; mean over
            trials and its standard error
last fifth  the same over the last fifth of the contexts only
best arm    share of the contexts in which the best arm was pulled
diverged    trials of which a chain left the finite numbers and was frozen
attracting  SRLD with alpha = 1 and the gradient of the kernel of the wrong sign, as in the authors' code
SRLD - LD   (a line for each bandit) paired over trials, with a 95 % interval"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this experiment."""
    add_common_arguments(parser, "srld-bandits", backends="numpy")
    parser.add_argument("--paper", action="store_true", help="the paper's size: 50,000 contexts; hours on a CPU")
    parser.add_argument("--bandit", action="append", choices=tuple(PAPER), help="may be repeated (default: both)")
    parser.add_argument(
        "--policy", action="append", choices=POLICIES, help=f"may be repeated (default: {', '.join(DEFAULT)})"
    )
    parser.add_argument("--contexts", type=int, help="another number of contexts")


def run(args: argparse.Namespace) -> int:
    """Run it, print the table, and write the files."""
    with one_thread():
        return _run_all(args)


def _run_all(args: argparse.Namespace) -> int:
    began = time.perf_counter()
    size = QUICK if args.quick else PAPERS if args.paper else FULL
    size = size._replace(contexts=args.contexts or size.contexts)
    report, names = Report(args.out), args.backend or ["numpy"]
    report.say("Contextual bandits; SRLD paper, Section 6.3 and Appendix D")
    for line in missing(names):
        report.say(line)
    report.say(
        f"{size.trials} trials of {size.contexts} contexts; two layers of {size.hidden}, M = {M}, alpha = {ALPHA:g}, "
        f"c = {size.every}, eta = {ETA:g}, batches of {size.batch}, seed {args.seed}"
    )
    rows: list[dict[str, Any]] = []
    curves: dict[str, dict[str, np.ndarray]] = {}
    # One float32 place for each backend: the networks need no more digits.
    where = [device for device in device_dtypes(names) if device.dtype == "float32"]
    for name in args.bandit or BANDITS:
        bandit = BANDITS[name]()
        game = play_ahead(bandit, size.trials, size.contexts, args.seed)
        loss = uniform_regret(game.means)
        report.say(f"{name}: {bandit.features} features, {bandit.arms} arms; uniform loses {loss.mean():.3f} a context")
        for device in where:
            relative: dict[str, np.ndarray] = {}
            for policy in args.policy or DEFAULT:
                start = time.perf_counter()
                played = _play(policy, bandit, game, size, device, args.seed)
                lost = regret(game.means, played.arms)
                relative[policy] = 100 * np.sum(lost, axis=0) / np.sum(loss, axis=0)
                last = slice(-(size.contexts // 5), None)
                rows.append(
                    {"bandit": name, "backend": device.backend.name, "policy": policy}
                    | _mean("regret", relative[policy])
                    | _mean("last", 100 * np.sum(lost[last], axis=0) / np.sum(loss[last], axis=0))
                    | {
                        "best": float(np.mean(lost == 0)),
                        "diverged": int(np.sum(played.diverged)),
                        "seconds": time.perf_counter() - start,
                        "paper": PAPER[name].get(policy, ""),
                    }
                )
                report.say(f"  {policy}: {rows[-1]['regret']:.2f} +- {rows[-1]['regret_se']:.2f}")
                if device is where[0]:
                    curves.setdefault(name, {})[policy] = 100 * np.cumsum(lost, axis=0) / np.sum(loss, axis=0)
            if "LD" in relative and "SRLD" in relative:
                gain = _mean("gain", relative["SRLD"] - relative["LD"])
                low, high = (gain["gain"] + side * 1.96 * gain["gain_se"] for side in (-1, 1))
                report.say(f"  SRLD - LD: {gain['gain']:.2f} ({low:.2f}, {high:.2f})")
    report.say("\n" + table(rows, COLUMNS) + "\n\n" + LEGEND)
    report.rows(rows)
    arrays: dict[str, Any] = {f"{b}/{p}": curve for b, of in curves.items() for p, curve in of.items()}
    np.savez_compressed(report.out / "curves.npz", **arrays)
    _plot(report, curves)
    report.say(f"files are in {report.out}; the whole took {time.perf_counter() - began:.0f} s")
    report.close()
    return 0


def play_ahead(bandit: Bandit, trials: int, rounds: int, seed: int) -> Game:
    """A game on the host: contexts and the rewards of all arms, (rounds, trials, ...), the same on every backend."""
    device = next(device for device in device_dtypes([np.__name__]) if device.dtype == "float64")
    like = np.zeros(1)
    return bandit.play(Portable(seed).block(device.backend, bandit.noise(trials), 0, rounds, like))


@dataclass(frozen=True, eq=False)
class Attracting(PairKernel):
    """`RBF` with the gradient of K of the wrong sign.

    Parameters
    ----------
    bandwidth : float, array or Bandwidth
        sigma, positive, in units of x squared; an array broadcasts against the chain axes.
    """

    bandwidth: Any = field(default=Median(), metadata=PER_CHAIN)

    def profile(self, xp: Any, u: Array) -> tuple[Array, Array, Array]:
        f = xp.exp(-u)
        return f, f, f


def _play(policy: str, bandit: Bandit, game: Game, size: Size, device: DeviceDtype, seed: int) -> Played:
    none = np.zeros(size.trials, dtype=np.bool_)
    if policy == "uniform":
        return Played(play_uniform(game, seed + 1), none)
    if policy.startswith("linear"):
        return Played(Linear(greedy=policy == "linear greedy").play(game, seed + 1), none)
    return network_policy(policy, RewardNetwork(bandit.features, bandit.arms, size.hidden), size).play(
        game, device, seed + 1
    )


def network_policy(name: str, network: RewardNetwork, size: Size) -> NetworkPolicy:
    """LD, SRLD, SVGD or the attracting control; SVGD makes one step for M of the others', with M gradients each."""
    if name == "SVGD":
        return NetworkPolicy(
            network, SVGD(SVGD_STEP, adagrad=AdaGrad()), size.batch, max(1, size.every // M), M, particles=M
        )
    kernel: Any = ULA(ETA)
    if name == "SRLD":
        kernel = SRLD(kernel, ALPHA, Thinned(M, size.every))
    elif name == "attracting":
        kernel = SRLD(kernel, 1.0, Thinned(M, size.every), Attracting())
    return NetworkPolicy(network, kernel, size.batch, size.every, M)


def _mean(name: str, values: np.ndarray) -> dict[str, float]:
    return {name: float(np.mean(values)), f"{name}_se": float(np.std(values, ddof=1) / math.sqrt(len(values)))}


def _plot(report: Report, curves: dict[str, dict[str, np.ndarray]]) -> None:
    try:
        from xpsample.experiments.srld.bandits_plot import plot
    except ImportError:
        report.say('no plot: it needs matplotlib, pip install "xpsample[plot]"')
        return
    plot(report.out / "plot.png", curves)
