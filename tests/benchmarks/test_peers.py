"""The comparison with peers: equal densities, equal distributions, and a table."""

import importlib
import importlib.util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from asv_benchmarks.peers import by_hand_numpy, problems, turns
from asv_benchmarks.peers.__main__ import main
from xpsample import Target
from xpsample.core.registry import to_host
from xpsample.zoo.logistic import logistic_regression

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def nothing_kept():
    """Sides are built anew for every test."""
    yield
    turns._ours.cache_clear()
    turns._theirs.cache_clear()


@pytest.mark.parametrize("problem", [problems.LOGISTIC, problems.CANCER])
@pytest.mark.parametrize("name", ["numpy", "torch", "jax"])
def test_the_densities_are_the_librarys(name, problem):
    xp = pytest.importorskip({"jax": "jax.numpy"}.get(name, name))
    density, rows = problems.densities(name), problems.signed_features(problem)
    x = problems.Work(problem, "mala", 5, 1).start
    features, labels = rows, np.ones(len(rows), dtype=int)  # the sign is in the rows
    ours: Target = logistic_regression(features, labels)
    there = [xp.asarray(a.astype("float32")) for a in (x, rows)]
    value, score = density.both(*there)
    for found, expected in (
        (value, ours.log_density(x, ours.data)),
        (density.log_density(*there), ours.log_density(x, ours.data)),
        (score, ours.score(x, ours.data)),
        (density.score(*there), ours.score(x, ours.data)),
    ):
        np.testing.assert_allclose(to_host(found), expected, rtol=2e-4, atol=2e-3)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("by_hand_numpy", "mala"),
        ("by_hand_numpy", "hmc"),
        ("by_hand_torch", "mala"),
        ("by_hand_torch", "hmc"),
        ("by_hand_jax", "hmc"),
    ],
)
def test_code_by_hand_has_our_distribution(name, kernel):
    """Moments and acceptance of 100 chains; fails by chance with probability 3e-6, were the seeds not fixed."""
    pytest.importorskip(name.removeprefix("by_hand_"))
    assert turns.check_distribution(name, problems.LOGISTIC, kernel) < turns.FURTHEST


def uncorrected(advance):
    def step(x, log_density, *rest):
        y, y_log_density, y_gradient, _ = advance(x, log_density, *rest)
        return y, y_log_density, y_gradient, y_log_density - log_density

    return step


def longer(advance):
    return lambda *args: advance(*args[:-1], 1.3 * args[-1])


@pytest.mark.parametrize("fault", [uncorrected, longer])
@pytest.mark.parametrize("kernel", ["mala", "hmc"])
def test_a_peer_with_another_distribution_is_not_timed(monkeypatch, kernel, fault):
    monkeypatch.setattr(by_hand_numpy, f"_{kernel}", fault(getattr(by_hand_numpy, f"_{kernel}")))
    with pytest.raises(turns.UnequalWork, match=f"{kernel} on logistic: moments or acceptance differ by"):
        turns.check_distribution("by_hand_numpy", problems.LOGISTIC, kernel)


def test_the_quick_table(monkeypatch, capfd):
    monkeypatch.chdir(ROOT)
    assert main(["--quick", "--peer", "by_hand_numpy", "--page", "by_hand"]) == 0
    said = capfd.readouterr()
    (row,) = [line for line in said.out.splitlines() if line.startswith("by_hand_numpy")]
    assert row.split()[1:5] == ["logistic", "mala", "analytic", "1"]
    assert row.split()[-1] == "1.5"
    assert "the distributions differ by" in said.err
    assert "| NumPy code by hand | " in said.out


def test_a_peer_that_is_not_installed_is_skipped_with_its_name(monkeypatch, capfd):
    if importlib.util.find_spec("mici") is not None:
        pytest.skip("mici is installed")
    assert main(["--quick", "--worker", "mici"]) == 0
    assert "skipped, No module named 'mici'" in capfd.readouterr().out


def test_a_ratio_is_the_median_of_neighboring_runs(monkeypatch):
    now = [0.0]

    def taking(costs):
        def run(seed):
            now[0] += costs[seed]
            return (None, None, lambda: now.__setitem__(0, now[0] + 0.25))

        return run

    def sides(name, work, scores):
        once, times = 7.5, 1 if work.draws < 1000 else turns.LONGER  # a run does something once, and a diagnosis
        sets = {"ours": [9, 1, 6, 4], "theirs": [9, 2, 1, 5]}  # the first is not counted
        return {
            (side, "analytic"): taking([0.25 + once + times * cost for cost in costs]) for side, costs in sets.items()
        }

    assert turns.draws(problems.LOGISTIC, "hmc", 3, "numpy") < 1000
    monkeypatch.setattr(turns, "_sides", sides)
    monkeypatch.setattr(turns, "time", SimpleNamespace(process_time=lambda: now[0], perf_counter=lambda: now[0]))
    (row,) = turns.compare("by_hand_numpy", problems.LOGISTIC, "hmc", 3, rounds=3)
    found = [row[f"{name}_ratio"] for name in ("cpu", "wall", "least", "most")]
    assert found == pytest.approx([0.8, 0.8, 0.5, 6])
    assert row["ours_cpu"] / row["theirs_cpu"] == pytest.approx(4 / 2)
