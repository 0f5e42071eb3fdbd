"""A past that is given to SRLD: it is as if the chain had been there, and it pushes the chain to where it was not."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.srld.test_srld import CHAINS, DIM, ETA, NOISE, START, STEPS, TARGET, force, score
from xpsample import ACS, RBF, ULA, Replay, Target, sample
from xpsample.core.errors import DivergenceWarning, HyperparameterError
from xpsample.core.hyperparameters import of_chains
from xpsample.kernels.discrete.cycles import Table
from xpsample.srld import SRLD, Balanced, Rolling, Thinned

PAST = np.random.default_rng(6).normal(size=(3, CHAINS, DIM))


def run(library, kernel, x0=START, noise=NOISE):
    replayed = Replay({"proposal": library.array(noise)})
    return library.host(sample(TARGET, kernel, library.array(x0), len(noise), seed=replayed).draws)


@pytest.mark.parametrize("history", [Thinned(3, 4), Rolling(3)], ids=str)
def test_a_chain_goes_on_from_the_positions_of_an_earlier_run(history, library):
    whole = run(library, SRLD(ULA(ETA), 2.0, history, RBF(1.5)))
    done = history.size * history.every
    past = library.array(np.concatenate([START[None], whole])[: done : history.every])
    for same in (history, replace(history, padded=True)):
        later = SRLD(ULA(ETA), 2.0, same, RBF(1.5), past=past)
        found = run(library, later, whole[done - 1], NOISE[done:])
        np.testing.assert_allclose(found, whole[done:], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shared", [False, True])
def test_the_steps_between_have_been_at_the_position_before(shared, library):
    """Eq. 3 with a list in which each position of the past stands for c steps; the same past for all chains."""
    c, past = 4, PAST[:, 0]
    xs = [np.broadcast_to(a, START.shape) for a in past for _ in range(c)] + [START]
    for k in range(STEPS):
        x, at = xs[-1], [len(xs) - 1 - j * c for j in (1, 2, 3)]
        near = [[a for i in at for a in xs[i]] if shared else [xs[i][chain] for i in at] for chain in range(CHAINS)]
        drift = np.stack([score(one) + 2.0 * force(one, others, 1.5) for one, others in zip(x, near, strict=True)])
        xs.append(x + ETA * drift + math.sqrt(2 * ETA) * NOISE[k])
    kernel = SRLD(ULA(ETA), 2.0, Rolling(3, c), RBF(1.5), shared=shared, past=library.array(past))
    np.testing.assert_allclose(run(library, kernel), np.stack(xs[-STEPS:]), rtol=1e-9, atol=1e-10)


def test_a_strength_is_measured_from_the_first_step_on(library):
    kernel = SRLD(ULA(ETA), Balanced(5), Thinned(3, 100), RBF(1.5), past=library.array(PAST))
    found, plain = run(library, kernel), run(library, ULA(ETA))
    np.testing.assert_array_equal(found[:5], plain[:5])
    assert not np.array_equal(found[5], plain[5])


def test_a_past_waits_for_the_end_of_the_warm_up():
    kernel = SRLD(ULA(), 2.0, Thinned(3, 50), RBF(1.5), past=PAST)
    trace = sample(TARGET, kernel, START, 20, seed=1, warmup=60)
    stored = trace.state.past.x[..., ::-1, :]  # the first position of the chain has taken the place of the oldest
    np.testing.assert_array_equal(np.moveaxis(stored[:, :2], 1, 0), PAST[1:])


@pytest.mark.parametrize(
    ("past", "message"),
    [
        (np.zeros(3), r"past must be an array \(M, dim\) or \(M, \*chains, dim\) with the M = 3 positions"),
        (np.zeros((2, DIM)), r"M = 3 positions of the history; got the shape \(2, 3\)"),
        ([[0.0] * DIM] * 3, "make an array of it"),
        (np.full((3, DIM), np.nan), "past must be"),
        (np.zeros((3, CHAINS + 1, DIM)), "does not broadcast against the positions"),
        (np.zeros((3, DIM), np.float32), "past is float32, the positions float64"),
    ],
)
def test_bad_pasts_say_what_would_do(past, message):
    with pytest.raises(HyperparameterError, match=message):
        sample(TARGET, SRLD(ULA(ETA), 1.0, Thinned(3, 4), past=past), START, 2, seed=1)


def test_rows_are_no_chains_because_they_are_as_many():
    """Of a run that is cut into shards."""
    kernels = [
        SRLD(ULA(ETA), 1.0, Thinned(3, 4), past=PAST[:, 0]),
        SRLD(ULA(ETA), 1.0, Thinned(3, 4), past=PAST[:, :3]),
    ]
    cut = [of_chains(kernel, 1, 3, slice(1, 3)) for kernel in kernels]
    np.testing.assert_array_equal(cut[0].past, PAST[:, 0])
    np.testing.assert_array_equal(cut[1].past, PAST[:, 1:3])
    table = Table(np.asarray([0.1, 0.2, 0.3]), np.asarray([[0.5, 0.6, 0.7]] * 3))
    found = of_chains(ACS(table), 1, 3, slice(1, 3)).cycle
    assert found.step_sizes is table.step_sizes
    np.testing.assert_array_equal(found.balances, table.balances[:, 1:])


def test_a_past_where_the_target_has_no_score_is_reported():
    target = Target(lambda x: np.sum(np.log(x), axis=-1), score=lambda x: np.where(x > 0, 1 / x, np.nan))
    kernel = SRLD(ULA(1e-4), 1.0, Thinned(2, 100), RBF(1.0), past=np.asarray([[1.0], [-1.0]]))
    with pytest.warns(DivergenceWarning, match="frozen by a non-finite value"):
        sample(target, kernel, np.ones((2, 1)), 30, seed=1)
