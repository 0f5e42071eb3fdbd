"""Thompson sampling by networks: chains that continue as rows arrive, and arms by one of the last samples."""

from collections import deque
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.backend import Schedule, StopFlag
from xpsample.core.devices import DeviceDtype
from xpsample.core.registry import to_host
from xpsample.core.specs import Uniform
from xpsample.experiments.srld.bandit_problems import Game, blocks
from xpsample.experiments.srld.reward_network import RewardNetwork, SeenMinibatch, SeenRewards
from xpsample.kernels import Kernel
from xpsample.sampling.noise import Native, Portable
from xpsample.sampling.program import Carry, Program
from xpsample.targets import BoundTarget


class Played(NamedTuple):
    """Arms (rounds, trials), and which trials have a chain that left the finite numbers, (trials,)."""

    arms: np.ndarray
    diverged: np.ndarray


@dataclass(frozen=True)
class NetworkPolicy:
    """A kernel's chains, one a trial, or a set of particles a trial.

    The kernel is on positions (trials, dim), or (trials, particles, dim), where the particles are the samples;
    otherwise one of the `kept` samples is picked for every context, and there are c = `every` steps between
    samples. Minibatches have `batch` rows. There are `initial_pulls` of each arm before the first training, and
    `pause` contexts between trainings; number k has ``c * max(longer - k, 1)`` steps, k = 0, 1, ...
    """

    network: RewardNetwork
    kernel: Kernel
    batch: int
    every: int
    kept: int
    particles: int = 0
    pause: int = 50
    longer: int = 20
    initial_pulls: int = 2

    def steps(self, training: int) -> int:
        """Steps of a training."""
        return self.every * max(self.longer - training, 1)

    def play(self, game: Game, device: DeviceDtype, seed: int) -> Played:
        """Play the rounds of a game, arrays of the host."""
        contexts, rewards = (np.moveaxis(a, 0, 1).astype(device.dtype) for a in (game.contexts, game.rewards))
        trials, rounds = contexts.shape[:2]
        picks = Portable(seed + 1).block(device.backend, {"pick": Uniform((trials,))}, 0, rounds, device.array(rewards))
        pick = np.moveaxis(to_host(picks["pick"]), 0, 1)
        arms, seen_rewards = np.zeros((trials, rounds), dtype=np.int32), np.zeros((trials, rounds), dtype=device.dtype)
        held = device.array(contexts)

        turns = blocks(rounds, self.network.arms * self.initial_pulls, self.pause)
        chains = _Chains(self, device, contexts, seed, sum(map(self.steps, range(len(turns)))))
        for training, (start, stop) in enumerate(turns):
            now = slice(start, stop)
            if start == 0:
                arms[:, now] = np.arange(stop) % self.network.arms
            else:
                arms[:, now] = self._choose(chains.samples(), held[:, now, :], pick[:, now])
            seen_rewards[:, now] = np.take_along_axis(rewards[:, now], arms[:, now, None], axis=-1)[..., 0]
            if stop < rounds:
                seen = SeenRewards(held, *(device.array(a) for a in (arms, seen_rewards, *_scalars(stop, device))))
                chains.train(seen, self.steps(training))
        frozen = to_host(chains.frozen())
        return Played(arms.T, np.any(frozen.reshape(trials, -1), axis=1))

    def _choose(self, samples: Array, contexts: Array, pick: np.ndarray) -> np.ndarray:
        """Arms (trials, rounds), each the best under one of the samples (samples, trials, dim)."""
        rewards = to_host(self.network.predict(samples, contexts))
        at = np.minimum((pick * len(rewards)).astype(np.int64), len(rewards) - 1)
        trial, round_ = np.indices(pick.shape)
        return np.argmax(rewards[at, trial, round_], axis=-1)


class _Chains:
    """Chains on a posterior whose rows grow, and their last samples."""

    def __init__(self, policy: NetworkPolicy, device: DeviceDtype, contexts: np.ndarray, seed: int, steps: int) -> None:
        self.policy, self.source, self.made = policy, Native(seed), 0
        network, trials = policy.network, len(contexts)
        kernel = SeenMinibatch(policy.kernel, policy.batch)
        sets = (policy.particles,) if policy.particles else ()
        normals = np.random.default_rng(seed).standard_normal((trials, *sets, network.dim))
        x0 = device.array(normals * np.sqrt(network.prior_variances()))
        # Bound to one row with the weight 0: the start is drawn from the prior.
        one = np.zeros((trials, 1))
        first = SeenRewards(contexts[:, :1], one.astype(np.int32), one, np.asarray(1, dtype=np.int32), np.asarray(0.0))
        self.target: BoundTarget = network.target(first).prepare(x0, kernel.requires)
        # All steps count as burn-in, which records nothing.
        self.program = Program(kernel, self.target, (), Schedule(1, burn_in=steps))
        self.carry: Carry = self.program.init(x0)
        self.last: deque[Array] = deque(maxlen=policy.kept)

    def train(self, seen: SeenRewards, steps: int) -> None:
        """Make steps on these rows; a sample is kept after every c of them."""
        target = self.target.with_data({**self.target.data, "seen": seen})
        program = replace(self.program, target=target)
        for _ in range(steps // self.policy.every):
            stop = self.made + self.policy.every
            carry, *_ = target.backend.drive(program, self.carry, None, self.source, self.made, stop, StopFlag())
            self.carry, self.made = Carry(carry.state, ()), stop
            if not self.policy.particles:
                self.last.append(1 * carry.state.point.x)  # the carry's own memory may be reused

    def samples(self) -> Array:
        """(samples, trials, dim)."""
        xp = self.target.xp
        if self.policy.particles:
            return xp.permute_dims(self.carry.state.point.x, (1, 0, 2))
        return xp.stack(list(self.last))

    def frozen(self) -> Array:
        """Which chains left the finite numbers."""
        state = self.carry.state
        return (state.base if hasattr(state, "base") else state).frozen


def _scalars(count: int, device: DeviceDtype) -> tuple[Any, Any]:
    return np.asarray(count, dtype=np.int32), np.asarray(1.0, dtype=device.dtype)
