"""A run goes on from the checkpoint of a run of another density, and gives one half of each (numpyro#441).

The density is known by its values, so whatever it reads counts: globals, variables around the function, defaults,
objects, arrays. The same call in the same process, or in a fresh one, goes on.
"""

import re
import subprocess
import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import CheckpointError

CENTRE, ROWS = 1.0, np.ones(3)
MODULE = ModuleType("settings_of_the_user")
MODULE.centre = 1.0


@dataclass(frozen=True)
class Fixed:
    centre: float = 1.0


FIXED = Fixed()


class Density:
    factor = 10.0

    def __init__(self):
        self.centre, self.calls = 1.0, 0

    def squares(self, x):
        return (x - self.centre) ** 2

    def __call__(self, x):
        self.calls += 1
        return -self.factor * np.sum(self.squares(x), axis=-1)


def by(centre):
    """A density that reads the centre from wherever the function given finds it."""
    return lambda x: -10 * np.sum((x - centre()) ** 2, axis=-1)


def named():
    return CENTRE


def run(folder, density, kernel=None, draws=40, seed=1, recorders=(xps.Draws(),), x0=None):
    target = density if isinstance(density, xps.Model) else xps.Target(density)
    x0 = np.full((4, 1), 0.5) if x0 is None else x0
    return xps.sample(
        target, kernel or xps.RWM(0.3), x0, draws, seed=seed, recorders=recorders, checkpoint=folder, progress=False
    )


def object_of_a_density():
    density = Density()
    return density, lambda: setattr(density, "centre", 5.0)


def class_of_a_density():
    return Density(), lambda: setattr(Density, "factor", 1.0)


def keyword_only():
    def density(x, *, centre=1.0):
        return -10 * np.sum((x - centre) ** 2, axis=-1)

    return density, lambda: density.__kwdefaults__.update(centre=5.0)


def around():
    centre = 1.0

    def move():
        nonlocal centre
        centre = 5.0

    return by(lambda: centre), move


def changes(monkeypatch):
    listed, mapped, settings = [1.0], {"centre": 1.0}, SimpleNamespace(centre=1.0)
    rows = np.ones(3)
    return {
        "a rebound global": (by(lambda: CENTRE), lambda: monkeypatch.setitem(globals(), "CENTRE", 5.0)),
        "of a function that is called": (by(named), lambda: monkeypatch.setitem(globals(), "CENTRE", 5.0)),
        "a frozen object": (by(lambda: FIXED.centre), lambda: monkeypatch.setitem(globals(), "FIXED", Fixed(5.0))),
        "a module": (by(lambda: MODULE.centre), lambda: monkeypatch.setattr(MODULE, "centre", 5.0)),
        "a list": (by(lambda: listed[0]), lambda: listed.__setitem__(0, 5.0)),
        "a dict": (by(lambda: mapped["centre"]), lambda: mapped.update(centre=5.0)),
        "an attribute": (by(lambda: settings.centre), lambda: setattr(settings, "centre", 5.0)),
        "an array in place": (by(lambda: rows[0]), lambda: rows.fill(5.0)),
        "an array that no position shows": (lambda x: -np.sum(x**2 + (x > 99) * rows[0], -1), lambda: rows.fill(5.0)),
        "an object": object_of_a_density(),
        "a class": class_of_a_density(),
        "a keyword-only default": keyword_only(),
        "around": around(),
    }


@pytest.mark.parametrize("name", changes(pytest.MonkeyPatch()))
def test_a_checkpoint_of_another_density_is_refused(name, tmp_path, monkeypatch):
    """Whether or not steps remain to be made; and that of the same one goes on, in this process."""
    density, change = changes(monkeypatch)[name]
    monkeypatch.setattr(Density, "factor", 10.0)
    before = run(tmp_path, density)
    assert np.array_equal(run(tmp_path, density, draws=60).draws[:40], before.draws)
    change()
    for draws in (60, 80):
        with pytest.raises(CheckpointError, match=r"another run: log density at .* was -.*, now -"):
            run(tmp_path, density, draws=draws)


def test_the_refusal_says_what_was_and_is(tmp_path, monkeypatch):
    run(tmp_path, by(named))
    monkeypatch.setitem(globals(), "CENTRE", 5.0)
    with pytest.raises(CheckpointError, match=re.escape("log density at x was -2.5, now -202.5 (x are the initial")):
        run(tmp_path, by(named))


def test_what_is_recorded_by_another_function_is_refused(tmp_path):
    one, other = (xps.Record("y", f) for f in (lambda s: s.point.x * 1.0, lambda s: s.point.x * 1000.0))
    run(tmp_path, by(named), recorders=(xps.Draws(), one))
    with pytest.raises(CheckpointError, match=r"row of y after one step from x was .*, now .*"):
        run(tmp_path, by(named), recorders=(xps.Draws(), other), draws=80)


def test_other_data_of_a_model_in_place_are_refused(tmp_path):
    rows = np.ones((5,))
    model = xps.Model(lambda p, rows: -np.sum((rows - p.m[..., None]) ** 2, -1), m=xps.Real(), data=rows)
    run(tmp_path, model, x0=np.zeros((4, 1)))
    rows[3] = 2.0
    with pytest.raises(CheckpointError, match="target data array"):
        run(tmp_path, model, x0=np.zeros((4, 1)))


def test_a_warm_up_of_another_seed_is_refused_by_the_seed_that_was_given(tmp_path):
    """And not by the numbers that its noise was derived from."""
    run(tmp_path, by(named), xps.RWM())
    with pytest.raises(CheckpointError, match=r"\(noise seed: 1 there, 2 here\)"):
        run(tmp_path, by(named), xps.RWM(), seed=2)


def test_a_density_that_counts_its_calls_goes_on_in_the_same_process(tmp_path):
    density, calls = Density(), []

    def counted(x):
        calls.append(len(x))
        return density(x)

    run(tmp_path, counted)
    assert density.calls and run(tmp_path, counted, draws=60).draws.shape[0] == 60


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
