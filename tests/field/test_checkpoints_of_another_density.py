"""A run goes on from the checkpoint of a run of another density, and gives one half of each (numpyro#441).

The density is known by its values, so whatever it reads counts: globals, variables around the function, defaults,
objects, arrays. The same call in the same process, or in a fresh one, goes on.
"""

import re
import subprocess
import sys

import numpy as np
import pytest

import xpsample as xps
from tests.field.changing_densities import WAYS, by_global, set_centre
from xpsample.core.errors import CheckpointError

pytestmark = pytest.mark.usefixtures("as_before")


def run(folder, density, kernel=None, draws=40, seed=1, x0=None):
    target = density if isinstance(density, xps.Model) else xps.Target(density)
    x0 = np.full((4, 1), 0.5) if x0 is None else x0
    settings = {"seed": seed, "recorders": (xps.Draws(),), "checkpoint": folder, "progress": False}
    return xps.sample(target, kernel or xps.RWM(0.3), x0, draws, **settings)


def array_that_no_position_shows():
    rows = np.ones(3)
    return lambda x: -np.sum(x**2 + (x > 99) * rows[0], -1), lambda: rows.fill(5.0)


CHANGES = WAYS | {"an array that no position shows": array_that_no_position_shows}


@pytest.mark.parametrize("name", CHANGES)
def test_a_checkpoint_of_another_density_is_refused(name, tmp_path):
    """Whether or not steps remain to be made; and that of the same one goes on, in this process."""
    density, change = CHANGES[name]()
    before = run(tmp_path, density)
    assert np.array_equal(run(tmp_path, density, draws=60).draws[:40], before.draws)
    change()
    for draws in (60, 80):
        with pytest.raises(CheckpointError, match=r"another run: log density at .* was -.*, now -"):
            run(tmp_path, density, draws=draws)


def test_the_refusal_says_what_was_and_is(tmp_path):
    run(tmp_path, by_global)
    set_centre()
    with pytest.raises(CheckpointError, match=re.escape("log density at x was -0.5, now -40.5 (x are the initial")):
        run(tmp_path, by_global)


def test_other_data_of_a_model_in_place_are_refused(tmp_path):
    rows = np.ones((5,))
    model = xps.Model(lambda p, rows: -np.sum((rows - p.m[..., None]) ** 2, -1), m=xps.Real(), data=rows)
    run(tmp_path, model, x0=np.zeros((4, 1)))
    rows[3] = 2.0
    with pytest.raises(CheckpointError, match="target data array"):
        run(tmp_path, model, x0=np.zeros((4, 1)))


def test_a_warm_up_of_another_seed_is_refused_by_the_seed_that_was_given(tmp_path):
    """And not by the numbers that its noise was derived from."""
    run(tmp_path, by_global, xps.RWM())
    with pytest.raises(CheckpointError, match=r"\(noise seed: 1 there, 2 here\)"):
        run(tmp_path, by_global, xps.RWM(), seed=2)


def test_a_density_that_counts_its_calls_goes_on_in_the_same_process(tmp_path):
    calls = []

    def counted(x):
        calls.append(len(x))
        return by_global(x)

    run(tmp_path, counted)
    assert calls and run(tmp_path, counted, draws=60).draws.shape[0] == 60


SCRIPT = """
import sys, numpy as np, xpsample as xps
rng = np.random.default_rng(0)
names, rows, x0 = {"a", "b", "c", "d"}, rng.normal(size=5), rng.normal(size=(4, 1))
class Network:
    def __init__(self, seed): self.weights = np.random.default_rng(seed).normal(size=3)
    def __call__(self, x): return np.tanh(x * self.weights[0]) if "a" in names else x
network, calls = Network(int(sys.argv[2])), []
def density(x):
    calls.append(1)
    return -np.sum((network(x) - rows[0]) ** 2 + x**2, axis=-1)
trace = xps.sample(xps.Target(density), xps.RWM(0.5), x0, 50 + 10 * int(sys.argv[3]), seed=1, checkpoint=sys.argv[1])
print(len(trace.draws))
"""


@pytest.mark.slow
def test_the_same_script_goes_on_in_a_fresh_process(tmp_path):
    """With sets, objects, counters and addresses of its own; and with another network it is refused."""

    def script(*arguments):
        command = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(tmp_path / "run"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert [script("0", str(more)).stdout for more in range(2)] == ["50\n", "60\n"]
    assert "log density at x was" in script("1", "2").stderr
