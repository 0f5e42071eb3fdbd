"""The comparison with peers that tune themselves: equal densities, gradients and starts, medians and ratios."""

from pathlib import Path

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from asv_benchmarks.peers import tuned, tuned_cases  # noqa: E402
from asv_benchmarks.peers.tuned_cases import Case, Outcome, density, worst_error, worst_ess  # noqa: E402
from xpsample.zoo.benchmarks import BENCHMARKS  # noqa: E402
from xpsample.zoo.curved import rosenbrock_draws  # noqa: E402

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("target", ["gaussian", "banana", "rosenbrock", "german-credit"])
def test_a_peer_gets_our_density_and_our_score(target, data_folder):
    own, x = BENCHMARKS[target].target(), Case(target, 4).start(0)
    value, score = jax.vmap(jax.value_and_grad(density(target)))(x)
    args = () if own.data is None else (own.data,)
    np.testing.assert_allclose(value, own.log_density(x.astype(float), *args), rtol=1e-5)
    expected = own.score(x.astype(float), *args)
    np.testing.assert_allclose(score, expected, rtol=1e-4, atol=1e-4 * np.max(np.abs(expected)))


def test_the_worst_ess_is_of_squares_too():
    rng = np.random.default_rng(0)
    sign, size = rng.choice([-1.0, 1.0], (1000, 4, 1)), 1.0 + np.repeat(rng.random((10, 4, 1)), 100, axis=0)
    assert worst_ess(sign * size) < 200 < worst_ess(rng.standard_normal((1000, 4, 1)))


def test_the_error_is_that_of_the_worst_mean_square():
    draws = rosenbrock_draws(4000, np.random.default_rng(1)).reshape(1000, 4, 36)
    case = Case("rosenbrock", 4)
    assert worst_error(case, draws) < 5 / np.sqrt(4000)
    draws[..., 0] *= 2.0  # its mean square is 8 and not 2; its sd is that of published 6
    assert worst_error(case, draws) == pytest.approx(6 / np.sqrt(6), rel=0.1)


def test_medians_and_ratios_of_rounds():
    def side(scale):
        draws = np.random.default_rng(2).standard_normal((100, 4, 36))
        return lambda seed: Outcome(draws, 1.0 * scale, 2.0 * scale * seed, 10.0 * scale, 30.0 * scale)

    rows = tuned.measure(Case("rosenbrock", 4), {"ours HMC": side(1.0), "theirs NUTS": side(4.0)}, rounds=3)
    ours = rows[0]
    assert (ours["warm_up"], ours["draw"]) == (1.0, 4.0)  # rounds 1, 2 and 3
    assert ours["gradients"] == pytest.approx(40 / ours["ess"])
    (pair,) = tuned.ratios(rows)
    assert (pair["ours"], pair["theirs"]) == ("HMC", "theirs NUTS")
    for key in ("warm", "drawing", "gradients", "draw_gradients"):
        assert pair[key] == pytest.approx(0.25)


@pytest.mark.release
def test_the_tables(monkeypatch, capfd):
    monkeypatch.chdir(ROOT)
    monkeypatch.setitem(tuned_cases.DRAWS, 4, 30)
    assert tuned.main(["--side", "ours", "--target", "gaussian", "--chains", "4", "--rounds", "1"]) == 0
    said = capfd.readouterr().out
    assert "ours HMC" in said and "cold ms/ESS" in said and "ours over theirs" not in said
