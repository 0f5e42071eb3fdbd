"""Contextual bandits as pure functions of declared noise, their regrets, and policies that need no network.

Contexts do not depend on the arms that were pulled, so a whole game is played ahead, with the reward that every arm
would give: all policies then see the same contexts and the same luck.
"""

import itertools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from array_api_compat import device as device_of

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.core.specs import Normal, Specs, Uniform
from xpsample.experiments.data import load_dataset


class Game(NamedTuple):
    """Contexts (..., trials, features), and rewards and their means (..., trials, arms) of every arm."""

    contexts: Array
    rewards: Array
    means: Array


class Bandit(ABC):
    """An environment with so many features and arms. Final subclasses are frozen dataclasses."""

    features: int
    arms: int

    @abstractmethod
    def noise(self, trials: int) -> Specs:
        """The random numbers of one round of independent trials."""

    @abstractmethod
    def play(self, noise: dict[str, Array]) -> Game:
        """Rounds from their noise, whose arrays may have leading axes, such as (rounds, trials)."""


@dataclass(frozen=True, eq=False)
class Mushroom(Bandit):
    """Eat (arm 0) or leave (arm 1) a random mushroom (Blundell et al. 2015).

    Eating a safe one gives 5, a poisonous one 5 or -35 with equal chances; leaving it gives 0. Contexts are one-hot
    over all categories that occur in the codes (rows, attributes).
    """

    codes: np.ndarray
    poisonous: np.ndarray
    _one_hot: np.ndarray = field(init=False, repr=False)

    arms = 2

    def __post_init__(self) -> None:
        columns = [column[:, None] == np.arange(column.max() + 1) for column in self.codes.T]
        object.__setattr__(self, "_one_hot", np.concatenate(columns, axis=1).astype(np.float64))

    @property
    def features(self) -> int:  # type: ignore[override]
        """Categories of all attributes."""
        return self._one_hot.shape[1]

    def noise(self, trials: int) -> Specs:
        return {"row": Uniform((trials,)), "luck": Uniform((trials,))}

    def play(self, noise: dict[str, Array]) -> Game:
        row, luck = noise["row"], noise["luck"]
        xp, count = array_namespace(row), len(self.poisonous)
        at = xp.astype(xp.floor(row * count), xp.int32)
        at = xp.reshape(xp.where(at < count, at, count - 1), (-1,))
        arrays, home = (self._one_hot, self.poisonous.astype(np.float64)), device_of(row)
        table, poison = (xp.asarray(a, dtype=row.dtype, device=home) for a in arrays)
        contexts = xp.reshape(xp.take(table, at, axis=0), (*row.shape, self.features))
        poisonous = xp.reshape(xp.take(poison, at), row.shape) > 0
        nothing = xp.zeros_like(row)
        eaten = xp.where(poisonous & (luck < 0.5), -35.0, nothing + 5.0)
        mean = xp.where(poisonous, -15.0, nothing + 5.0)
        return Game(contexts, xp.stack([eaten, nothing], axis=-1), xp.stack([mean, nothing], axis=-1))


def mushroom() -> Mushroom:
    """The mushroom bandit on the UCI data, 117 features."""
    data = load_dataset("uci_mushroom")
    return Mushroom(data["codes"].astype(np.int64), data["y"].astype(np.int64))


@dataclass(frozen=True)
class Wheel(Bandit):
    """Points uniform in the unit disc (Riquelme et al. 2018): arm 0 is safe, one of four is best outside of `delta`.

    Arm 0 gives N(1.2, sd^2), arms 1 to 4 give N(1, sd^2); outside the radius `delta`, in (0, 1), the arm of the point's
    quadrant gives N(50, sd^2). Riquelme et al. have sd 0.01.
    """

    delta: float = 0.95
    safe: float = 1.2
    low: float = 1.0
    high: float = 50.0
    sd: float = 0.01

    features = 2
    arms = 5

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise HyperparameterError(f"delta must lie between 0 and 1; got {self.delta}")

    def noise(self, trials: int) -> Specs:
        return {"radius": Uniform((trials,)), "angle": Uniform((trials,)), "reward": Normal((trials, self.arms))}

    def play(self, noise: dict[str, Array]) -> Game:
        xp = array_namespace(noise["radius"])
        radius, angle = xp.sqrt(noise["radius"]), 2 * math.pi * noise["angle"]
        x, y = radius * xp.cos(angle), radius * xp.sin(angle)
        outside, low = radius > self.delta, xp.zeros_like(x) + self.low
        quadrants = [(x > 0) & (y > 0), (x > 0) & ~(y > 0), ~(x > 0) & (y > 0), ~(x > 0) & ~(y > 0)]
        arms = [low * 0.0 + self.safe, *(xp.where(outside & here, self.high, low) for here in quadrants)]
        means = xp.stack(arms, axis=-1)
        return Game(xp.stack([x, y], axis=-1), means + self.sd * noise["reward"], means)


def regret(means: np.ndarray, arms: np.ndarray) -> np.ndarray:
    """Expected loss of each round against the best arm: means (..., arms) and pulled arms (...) to (...)."""
    pulled = np.take_along_axis(means, arms[..., None], axis=-1)[..., 0]
    return np.max(means, axis=-1) - pulled


def uniform_regret(means: np.ndarray) -> np.ndarray:
    """Mean loss of a policy that pulls each arm with equal chances, (...)."""
    return np.max(means, axis=-1) - np.mean(means, axis=-1)


# ---- policies --------------------------------------------------------------------------------------------------------


def play_uniform(game: Game, seed: int) -> np.ndarray:
    """Arms (rounds, trials) pulled at random."""
    return np.random.default_rng(seed).integers(game.means.shape[-1], size=game.means.shape[:-1])


@dataclass(frozen=True)
class Linear:
    """Thompson sampling with a Bayesian linear regression for each arm, of unknown noise ("LinFull", Riquelme et al.).

    There are `initial_pulls` of each arm before the first choice, and so `every` many rounds between updates. The
    normal-inverse-gamma prior has a precision, shape and rate; Riquelme et al. have 0.25, 6 and 6. A greedy one takes
    the posterior mean instead of a draw.
    """

    every: int = 50
    initial_pulls: int = 2
    precision: float = 0.25
    shape: float = 6.0
    rate: float = 6.0
    greedy: bool = False

    def play(self, game: Game, seed: int) -> np.ndarray:
        """Arms (rounds, trials); arrays of the host."""
        rng = np.random.default_rng(seed)
        ones = np.ones((*game.contexts.shape[:-1], 1))
        x = np.moveaxis(np.concatenate([np.asarray(game.contexts, dtype=np.float64), ones], axis=-1), 0, 1)
        rewards = np.moveaxis(np.asarray(game.rewards, dtype=np.float64), 0, 1)
        trials, rounds, count, dim = *x.shape[:2], rewards.shape[-1], x.shape[-1]
        pulled = np.zeros((trials, rounds), dtype=np.int64)
        products = np.broadcast_to(self.precision * np.eye(dim), (trials, count, dim, dim)).copy()
        responses, squares, pulls = np.zeros((trials, count, dim)), np.zeros((trials, count)), np.zeros((trials, count))
        for start, stop in blocks(rounds, count * self.initial_pulls, self.every):
            now = slice(start, stop)
            if start == 0:
                pulled[:, now] = np.arange(stop) % count
            else:
                pulled[:, now] = self._choose(rng, x[:, now], products, responses, squares, pulls)
            hot = (pulled[:, now, None] == np.arange(count)).astype(np.float64)
            r = hot * rewards[:, now]
            products += np.einsum("tna,tni,tnj->taij", hot, x[:, now], x[:, now], optimize=True)
            responses += np.einsum("tna,tni->tai", r, x[:, now])
            squares, pulls = squares + np.sum(r * r, axis=1), pulls + np.sum(hot, axis=1)
        return pulled.T

    def _choose(self, rng: Any, x: np.ndarray, products: Any, responses: Any, squares: Any, pulls: Any) -> np.ndarray:
        """Choose arms for contexts x (trials, rounds, dim), each by an independent draw."""
        mean = np.linalg.solve(products, responses[..., None])[..., 0]
        expected = np.einsum("tni,tai->tna", x, mean)
        if self.greedy:
            return np.argmax(expected, axis=-1)
        rate = self.rate + 0.5 * np.maximum(squares - np.sum(mean * responses, axis=-1), 0.0)
        shape = (self.shape + 0.5 * pulls)[:, None]
        variance = rate[:, None] / rng.gamma(np.broadcast_to(shape, expected.shape))
        # x . beta of one draw is normal with variance sigma^2 x P^-1 x, which is all that one choice sees.
        half = np.linalg.solve(np.linalg.cholesky(products), np.swapaxes(x, 1, 2)[:, None])
        spread = np.sqrt(variance * np.moveaxis(np.sum(half * half, axis=-2), 1, 2))
        return np.argmax(expected + spread * rng.standard_normal(expected.shape), axis=-1)


def blocks(rounds: int, initial: int, every: int) -> list[tuple[int, int]]:
    """The rounds between updates: the initial pulls, then `every` at a time."""
    edges = [0, *range(min(initial, rounds), rounds, every), rounds]
    return [(a, b) for a, b in itertools.pairwise(edges) if b > a]
