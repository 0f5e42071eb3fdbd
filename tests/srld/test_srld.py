"""SRLD against Eq. 3 with a plain list of positions, its limits and costs, and bounds that do not hold as printed."""

import math

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

from xpsample import ULA, Draws, Record, Replay, UnderdampedLangevin, sample
from xpsample.core.errors import HyperparameterError
from xpsample.metrics.stein import RBF, InverseMultiquadric, Median, MedianFromPoint
from xpsample.srld import SRLD, Balanced, Rolling, Thinned
from xpsample.srld.history import Past, empty, repeated
from xpsample.targets.point import Point
from xpsample.zoo.gaussian import gaussian

COVARIANCE = np.array([[1.0, 0.5, 0.2], [0.5, 1.2, -0.3], [0.2, -0.3, 0.8]])
PRECISION = np.linalg.inv(COVARIANCE)
TARGET = gaussian(COVARIANCE)
STEPS, CHAINS, DIM, ETA = 30, 4, 3, 0.05
START = np.random.default_rng(3).normal(size=(CHAINS, DIM))
NOISE = np.random.default_rng(1).normal(size=(STEPS, CHAINS, DIM))


def score(x):
    return -x @ PRECISION


def pairs_median(past):
    distances = [np.linalg.norm(a - b) for i, a in enumerate(past) for b in past[:i]]
    return np.median(distances) ** 2 / math.log(len(past))


def force(x, past, sigma):
    """g of Eq. 3, one chain, RBF."""
    total = np.zeros(DIM)
    for a in past:
        k = math.exp(-np.sum((a - x) ** 2) / sigma)
        total += k * score(a) - 2 * (a - x) / sigma * k
    return total / len(past)


def rolling_past(k, xs, m, c):
    return [xs[k - j * c] for j in range(1, m + 1)] if k >= m * c else None


def thinned_past(k, xs, m, c):
    stored = [xs[i] for i in range(0, k, c)]
    return stored[::-1][:m] if k >= m * c else None


def padded_rolling(k, xs, m, c):
    stored = [xs[k - j * c] for j in range(k // c, 0, -1)]  # oldest first
    return pad(stored, m) if stored else None


def padded_thinned(k, xs, m, c):
    stored = [xs[i] for i in range(0, k, c)]
    return pad(stored, m) if stored else None


def pad(stored, m):
    """Each repeated m // count + 1 times, the first m taken."""
    if len(stored) >= m:
        return stored[-m:]
    return [a for a in stored for _ in range(m // len(stored) + 1)][:m]


def by_hand(past_of, m, c, alpha, sigma_of, steps=STEPS):
    """Eq. 3 with a list, chain by chain."""
    draws = []
    for chain in range(CHAINS):
        xs = [START[chain]]
        for k in range(steps):
            past = past_of(k, xs, m, c)
            x = xs[k]
            drift = score(x) if past is None else score(x) + alpha * force(x, past, sigma_of(past, x))
            xs.append(x + ETA * drift + math.sqrt(2 * ETA) * NOISE[k, chain])
        draws.append(xs[1:])
    return np.stack(draws, axis=1)


def replay(library, steps=STEPS):
    return Replay({"proposal": library.array(NOISE[:steps])})


HISTORIES = {
    "rolling": (Rolling(3, 4), rolling_past),
    "rolling-every-step": (Rolling(5), rolling_past),
    "thinned": (Thinned(3, 4), thinned_past),
    "thinned-every-step": (Thinned(5), rolling_past),
    "rolling-padded": (Rolling(4, 3, padded=True), padded_rolling),
    "thinned-padded": (Thinned(4, 3, padded=True), padded_thinned),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_histories_equal_a_list_of_positions(name, library):
    history, past_of = HISTORIES[name]
    expected = by_hand(past_of, history.size, history.every, 2.0, lambda past, x: 1.5)
    kernel = SRLD(ULA(ETA), 2.0, history, RBF(1.5))
    trace = sample(TARGET, kernel, library.array(START), STEPS, seed=replay(library))
    np.testing.assert_allclose(library.host(trace.draws), expected, rtol=1e-9, atol=1e-10)


def test_the_median_rule_in_a_run(library):
    expected = by_hand(rolling_past, 3, 4, 2.0, lambda past, x: pairs_median(past))
    kernel = SRLD(ULA(ETA), 2.0, Rolling(3, 4))
    trace = sample(TARGET, kernel, library.array(START), STEPS, seed=replay(library))
    np.testing.assert_allclose(library.host(trace.draws), expected, rtol=1e-9, atol=1e-10)


def test_a_shared_past_is_that_of_all_chains(library):
    xs = [START]
    for k in range(STEPS):
        x = xs[-1]
        drift = score(x)
        if k >= 6:
            past = [a for j in (2, 4, 6) for a in xs[k - j]]
            drift = drift + 1.5 * np.stack([force(one, past, 2.0) for one in x])
        xs.append(x + ETA * drift + math.sqrt(2 * ETA) * NOISE[k])
    kernel = SRLD(ULA(ETA), 1.5, Rolling(3, 2), RBF(2.0), shared=True)
    trace = sample(TARGET, kernel, library.array(START), STEPS, seed=replay(library))
    np.testing.assert_allclose(library.host(trace.draws), np.stack(xs[1:]), rtol=1e-9, atol=1e-10)
    median = SRLD(ULA(ETA), 1.5, Rolling(3, 2), shared=True)
    moved = sample(TARGET, median, library.array(START), STEPS, seed=replay(library))
    assert np.all(np.isfinite(library.host(moved.draws)))


@pytest.mark.parametrize("kernel", [RBF(2.0), RBF()], ids=["number", "median"])
def test_a_shared_past_stays_within_its_group(library, kernel):
    """A sweep over alpha is one run for each: the rows do not repel one another."""
    alphas, noise = np.asarray([[0.5], [3.0]]), np.random.default_rng(2).normal(size=(STEPS, 2, CHAINS, DIM))
    start = np.random.default_rng(4).normal(size=(2, CHAINS, DIM))

    def run(alpha, x0, z):
        repelled = SRLD(ULA(ETA), alpha, Rolling(3, 2), kernel, shared=True)
        replayed = Replay({"proposal": library.array(z)})
        return library.host(sample(TARGET, repelled, library.array(x0), STEPS, seed=replayed).draws)

    together = run(library.array(alphas), start, noise)
    for i in range(2):
        np.testing.assert_allclose(together[:, i], run(float(alphas[i, 0]), start[i], noise[:, i]), rtol=1e-12)


def test_a_single_chain_shares_its_past_with_itself():
    replayed = Replay({"proposal": NOISE[:, 0]})
    own, shared = (
        sample(TARGET, SRLD(ULA(ETA), 1.5, Rolling(3, 2), shared=shared), START[0], STEPS, seed=replayed).draws
        for shared in (False, True)
    )
    np.testing.assert_array_equal(shared, own)


@pytest.mark.parametrize(
    ("base", "history", "first"),
    [
        (ULA(0.1), Rolling(3, 4), 12),
        (ULA(0.1), Thinned(3, 4), 12),
        (ULA(0.1), Rolling(3, 4, padded=True), 4),
        (ULA(0.1), Thinned(3, 4, padded=True), 1),
        (UnderdampedLangevin(0.3), Rolling(3, 4), 12),
    ],
)
def test_until_it_repels_it_is_the_base_bit_for_bit(base, history, first, typed_library):
    """With alpha = 0 always; whatever alpha until there is a past."""
    x0 = typed_library.array(START)

    def run(kernel, draws=20):
        return typed_library.host(sample(TARGET, kernel, x0, draws, seed=5).draws)

    plain = run(base)
    np.testing.assert_array_equal(run(SRLD(base, 0.0, history, RBF(1.0))), plain)
    repelled = run(SRLD(base, 3.0, history, RBF(1.0)))
    np.testing.assert_array_equal(repelled[:first], plain[:first])
    assert not np.array_equal(repelled[first], plain[first])
    np.testing.assert_array_equal(run(SRLD(base, 1e30, history, RBF(1.0)), first), plain[:first])


@pytest.mark.parametrize(("history", "positions"), [(Rolling(5, 7), 35), (Thinned(5, 7), 5)])
def test_memory_is_as_documented(history, positions):
    trace = sample(TARGET, SRLD(ULA(ETA), 1.0, history), START, 50, seed=1)
    pasts = trace.state.past if isinstance(history, Rolling) else (trace.state.past,)
    assert sum(past.x.size + past.score.size for past in pasts) == 2 * positions * CHAINS * DIM
    assert sum(past.squared.size for past in pasts) == 4 * positions * CHAINS


def test_balanced_is_the_ratio_over_the_steps_after_the_past_is_full(library):
    m, c, steps = 3, 2, 8
    xs = np.concatenate([START[None], by_hand(rolling_past, m, c, 0.0, lambda past, x: 1.5, m * c + steps)])
    expected = []
    for chain in range(CHAINS):
        ks = range(m * c, m * c + steps)
        forces = [force(xs[k, chain], rolling_past(k, xs[:, chain], m, c), 1.5) for k in ks]
        scores = [score(xs[k, chain]) for k in ks]
        expected.append(2 * sum(map(np.linalg.norm, scores)) / sum(map(np.linalg.norm, forces)))
    kernel = SRLD(ULA(ETA), Balanced(steps, scale=2.0), Rolling(m, c), RBF(1.5))
    trace = sample(
        TARGET,
        kernel,
        library.array(START),
        STEPS,
        seed=replay(library),
        recorders=(*sample.__kwdefaults__["recorders"], Record("alpha", lambda state: state.alpha)),
    )
    alpha = library.host(trace.recorded["alpha"])
    assert np.all(alpha[: m * c + steps] == 0)
    np.testing.assert_allclose(alpha[m * c + steps :], np.broadcast_to(expected, (STEPS - 14, CHAINS)), rtol=1e-9)
    np.testing.assert_allclose(library.host(trace.draws)[: m * c + steps], xs[1:], rtol=1e-9)


def test_repeated_is_the_authors_padding(library):
    stored = np.arange(5.0)[::-1].reshape(1, 5, 1)  # newest first: 4 3 2 1 0
    past = Past(library.array(stored), library.array(10 * stored), library.array(stored[..., :0]))
    for count in (1, 2, 3, 4, 5, 9):
        held = stored[0, :count, 0][::-1]
        full = repeated(library.xp, past, library.array(np.asarray(count, dtype=np.int32)))
        want = pad(list(held), 5) if count < 5 else list(stored[0, :, 0])
        assert sorted(library.host(full.x)[0, :, 0]) == sorted(want)
        np.testing.assert_array_equal(library.host(full.score), 10 * library.host(full.x))


def test_kernels_and_rules_run_everywhere(library32):
    for pair in (RBF(Median()), InverseMultiquadric(MedianFromPoint())):
        trace = sample(TARGET, SRLD(ULA(ETA), 1.0, Thinned(3, 2), pair), library32.array(START), 20, seed=1)
        assert np.all(np.isfinite(library32.host(trace.draws)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rolling(0), "size must be a positive integer; got 0"),
        (lambda: Thinned(3, 1.5), r"every must be a positive integer; got 1\.5"),
        (lambda: SRLD(ULA(0.1), -1.0, Rolling(3)), r"alpha must be at least 0; got -1"),
        (lambda: Balanced(0), "steps must be a positive integer; got 0"),
        (lambda: Balanced(5, -1.0), "scale must be at least 0"),
    ],
)
def test_bad_settings_say_what_would_do(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()


def test_an_empty_memory_has_two_arrays():
    past = empty(numpy_xp, START, 3)
    assert past.x is not past.score and past.x.shape == (CHAINS, 3, DIM)
    (pushed,) = Rolling(3).push(numpy_xp, (past,), np.int32(0), Point(START, None, 2 * START))
    np.testing.assert_array_equal(pushed.x[:, 0], START)
    assert not np.any(past.x)


def test_drift_is_what_the_next_step_moves_along(library):
    kernel = SRLD(ULA(ETA), 0.7, Rolling(3, 2), RBF(2.0))
    for steps in (5, 12):  # without a past, and with one
        noise = Replay({"proposal": library.array(np.concatenate([NOISE[:steps], np.zeros((1, CHAINS, DIM))]))})
        record = Record("drift", kernel.drift)
        trace = sample(TARGET, kernel, library.array(START), steps + 1, seed=noise, recorders=(Draws(), record))
        draws, drifts = library.host(trace.draws), library.host(trace.recorded["drift"])
        np.testing.assert_allclose(draws[-1] - draws[-2], ETA * drifts[-2], rtol=1e-9, atol=1e-12)
        plain = score(draws[-2])
        assert (np.max(np.abs(drifts[-2] - plain)) > 0.01) == (steps == 12)


def test_the_bound_of_the_moments_lacks_the_dimension():
    """Theorem E.2 on N(0, I), where a_1 = b_1 = 1 and K is at most 1.

    The noise adds 2 d to the derivative of the second moment (Ito). With d beside b_1 + 1 the bound holds.
    """
    dim, chains, eta, alpha, sigma = 20, 200, 0.05, 1e-3, 1.0
    x0 = 0.1 * np.random.default_rng(1).standard_normal((chains, dim))
    kernel = SRLD(ULA(eta), alpha, Thinned(2, 5), RBF(sigma))
    draws = sample(gaussian(np.eye(dim)), kernel, x0, 120, seed=2).draws
    moments = np.mean(np.sum(draws**2, axis=-1), axis=-1)
    rate = 1 - alpha * (2 + 4 / sigma)
    assert rate > 0  # the condition of the theorem
    start = np.mean(np.sum(x0**2, axis=-1))
    assert moments.max() > 5 * (start + (2 + eta) / rate)
    assert moments.max() < start + (2 + dim + eta) / rate


@pytest.mark.parametrize("size", [10.0, 100.0])
def test_a_step_of_langevin_dynamics_is_not_bounded_as_printed(size):
    """Lemma E.1 on V = 3 x^2 / 2, where a_1 = b_1 = 3: b_1 stands where its square belongs."""
    a, b, eta = 3.0, 3.0, 0.1
    after = (size - eta * b * size) ** 2
    assert after > (1 - 2 * eta * a + eta**2 * b) * size**2 + eta**2 * b + 2 * eta * b
    assert after <= (1 - 2 * eta * a + eta**2 * b**2) * size**2 + eta**2 * b**2 + 2 * eta * b
