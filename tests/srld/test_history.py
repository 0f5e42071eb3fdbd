"""Histories: `Rolling` is Eq. 3, its queue is a plain copy of the last M c positions, and bandwidths are not stale."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xpsample import RBF, SRLD, ULA, Replay, Target, UnderdampedLangevin, sample
from xpsample.kernels.kernel import Kernel
from xpsample.metrics.stein import Median
from xpsample.srld import Balanced, History, Rolling, Thinned
from xpsample.srld.history import Past


def score(x):
    return -x - np.sin(2 * x)


TARGET = Target(None, score=score)


class Copied(History, eq=True):
    """`Rolling` with one array of M c positions, copied at every step."""

    def begin(self, past):
        return Past(*(np.repeat(a, self.every, axis=-2) for a in past))

    def changes(self, n):
        return True

    def push(self, xp, memory, n, point):
        new = (point.x, point.score)
        rows = (np.concatenate([a[..., None, :], b[..., :-1, :]], axis=-2) for a, b in zip(new, memory, strict=False))
        return Past(*rows, memory.squared)

    def stored(self, memory, n):
        first = self.every - 1  # row i has theta_{n - 1 - i}
        return Past(*(a[..., first :: self.every, :] for a in memory)), n // self.every


class Fresh(Kernel):
    """SRLD whose bandwidth is computed anew from the M positions before every step."""

    srld: SRLD

    requires = property(lambda self: self.srld.requires)
    traits = property(lambda self: self.srld.traits)

    def init(self, target, x):
        return self.srld.init(target, x)

    def noise(self, x):
        return self.srld.noise(x)

    def step(self, target, state, noise):
        past, _ = self.srld._past(target.xp, state.past, state.n)
        return self.srld.step(target, state._replace(sigma=Median().at(target.xp, None, past.x)), noise)


def draws(kernel, x0, seed, steps):
    return sample(TARGET, kernel, x0, steps, seed=seed, progress=False).draws


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(2, 6),
    c=st.integers(1, 7),
    dim=st.integers(1, 3),
    alpha=st.floats(0, 20),
    sigma=st.none() | st.floats(0.1, 10),
    seed=st.integers(0, 99),
)
def test_rolling_is_equation_3(m, c, dim, alpha, sigma, seed):
    """An independent loop over one chain: theta_{k - jc}, j = 1..M, repel theta_k from k = M c on."""
    rng, eta, steps = np.random.default_rng(seed), 0.01, 3 * m * c
    x0, noise = rng.normal(size=dim), rng.normal(size=(steps, dim))
    thetas = [x0]
    for k in range(steps):
        x = thetas[k]
        drift = score(x)
        if k >= m * c:
            past = np.stack([thetas[k - j * c] for j in range(1, m + 1)])
            med = np.median([math.dist(past[i], past[j]) for i in range(m) for j in range(i)])
            width = sigma or med**2 / math.log(m)
            weights = np.exp(-np.sum((past - x) ** 2, axis=1) / width)
            g = np.mean(weights[:, None] * (score(past) - 2 / width * (past - x)), axis=0)
            drift = drift + alpha * g
        thetas.append(x + eta * drift + math.sqrt(2 * eta) * noise[k])
    kernel = SRLD(ULA(eta), alpha, Rolling(m, c), RBF(sigma) if sigma else RBF())
    found = draws(kernel, x0[None], Replay({"proposal": noise[:, None]}), steps)
    np.testing.assert_allclose(found[:, 0], thetas[1:], rtol=1e-7, atol=1e-9)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(2, 6),
    c=st.integers(1, 7),
    padded=st.booleans(),
    shared=st.booleans(),
    given_past=st.booleans(),
    alpha=st.floats(0, 20) | st.just(None),
    seed=st.integers(0, 99),
)
def test_the_queue_is_bit_identical_to_a_copy(m, c, padded, shared, given_past, alpha, seed):
    rng = np.random.default_rng(seed)
    x0 = rng.normal(size=(2, 3, 2))
    past = rng.normal(size=(m, 2)) if given_past else None
    strength = Balanced(5) if alpha is None else alpha
    kernels = [
        SRLD(ULA(0.01), strength, history(m, c, padded=padded), RBF(1.5), shared, past) for history in (Rolling, Copied)
    ]
    found = [draws(kernel, x0, seed, 3 * m * c + 5) for kernel in kernels]
    np.testing.assert_array_equal(*found)


@pytest.mark.first_cases(10)
@pytest.mark.parametrize("history", [Rolling, Thinned])
@pytest.mark.parametrize(("m", "c"), [(2, 3), (5, 1), (5, 4), (46, 2), (60, 1)])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_a_bandwidth_that_is_kept_is_that_of_the_past(history, m, c, padded, shared):
    """Bit for bit, also when a median has distances that were kept, and a `Thinned` past stays for c steps."""
    x0 = np.random.default_rng(m).normal(size=(4, 3))
    for base in (ULA(0.01), UnderdampedLangevin(0.1)):
        kernel = SRLD(base, 3.0, history(m, c, padded=padded), shared=shared)
        steps = 2 * m * c + 7
        np.testing.assert_array_equal(draws(kernel, x0, 1, steps), draws(Fresh(kernel), x0, 1, steps))


def test_a_thinned_past_has_its_bandwidth_computed_when_it_changes(monkeypatch):
    calls, own = [], Median.at
    monkeypatch.setattr(Median, "at", lambda self, *args: calls.append(1) or own(self, *args))
    kernel = SRLD(ULA(0.01), 3.0, Thinned(5, 10), shared=True)
    draws(kernel, np.zeros((4, 3)), 1, 200)
    few = len(calls)
    draws(kernel, np.zeros((4, 3)), 1, 300)
    assert len(calls) - 2 * few <= 10 + 2  # one of ten steps, and the start


def test_the_default_is_equation_3():
    assert SRLD(ULA(0.1), 1.0).history == Rolling(10, 10)
