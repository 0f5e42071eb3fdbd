"""A second run of one function goes on with values that the function read in the first one (numpyro#441).

On libraries that run a density as it is, and with steps that torch has compiled: after a change the run is that of a
fresh process. Checkpoints have a file of their own.
"""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp

import xpsample as xps
from tests.conftest import open_library
from xpsample.core.errors import XpsampleError

CENTRE = 1.0
KEPT = SimpleNamespace(centre=1.0, row=np.ones(1), rows=[1.0])


def helper():
    return CENTRE


def places(monkeypatch, like):
    """Where a density finds its centre, and how that is changed."""
    array = 1.0 + 0 * like[0]

    def in_place():
        array[...] = 5.0

    return {
        "a global": (lambda: CENTRE, lambda: monkeypatch.setitem(globals(), "CENTRE", 5.0)),
        "of a function that is called": (helper, lambda: monkeypatch.setitem(globals(), "CENTRE", 5.0)),
        "an attribute": (lambda: KEPT.centre, lambda: monkeypatch.setattr(KEPT, "centre", 5.0)),
        "a list": (lambda: KEPT.rows[0], lambda: monkeypatch.setattr(KEPT, "rows", [5.0])),
        "an array in place": (lambda: array, in_place),
    }


def density_of(xp, centre):
    return lambda x: -10 * xp.sum((x - centre()) ** 2, axis=-1)


def score_of(centre):
    return lambda x: -20 * (x - centre())


def sampled(target, kernel, x0, **settings):
    trace = xps.sample(target, kernel, x0, 200, seed=1, progress=False, **settings)
    return trace.draws


def stepped(target, kernel, x0):
    return [state.point.x for state, _ in itertools.islice(xps.steps(target, kernel, x0, seed=1), 20)][-1]


WAYS = {
    "sample": lambda target, x0: sampled(target, xps.RWM(0.3), x0),
    "by the score": lambda target, x0: sampled(target, xps.MALA(0.05), x0),
    "steps": lambda target, x0: stepped(target, xps.RWM(0.3), x0),
    "shards": lambda target, x0: sampled(target, xps.RWM(0.3), x0, shards=2),
    "a warm-up": lambda target, x0: sampled(target, xps.RWM(), x0, warmup=50),
}


@pytest.mark.parametrize("name", ["numpy", "torch"])
@pytest.mark.parametrize("place", places(None, np.ones((1, 1))))
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore::xpsample.core.errors.DiagnosisWarning")
def test_a_second_run_is_that_of_a_fresh_target(name, place, way, monkeypatch):
    """To the last bit, in every way to run."""
    if name == "torch":
        pytest.importorskip("torch")
    library = open_library(name, "float64")
    x0 = library.array(np.full((4, 1), 2.0))
    centre, change = places(monkeypatch, library.array(np.ones((1, 1))))[place]
    density, score = density_of(library.xp, centre), score_of(centre)
    target = xps.Target(density, score=score)
    first = library.host(WAYS[way](target, x0))
    change()
    second, fresh = (library.host(WAYS[way](t, x0)) for t in (target, xps.Target(density, score=score)))
    np.testing.assert_array_equal(second, fresh)
    assert not np.array_equal(first, second)


def test_a_gradient_is_checked_as_it_is_now(monkeypatch):
    """A score that was right before the density changed is found to be wrong."""
    library = open_library("numpy", "float64")
    x0 = library.array(np.full((4, 1), 2.0))
    target = xps.Target(density_of(numpy_xp, helper), score=lambda x: -20 * (x - 1.0))
    sampled(target, xps.MALA(0.05), x0, check=True)
    monkeypatch.setitem(globals(), "CENTRE", 5.0)
    with pytest.raises(XpsampleError, match="score"):
        sampled(target, xps.MALA(0.05), x0, check=True)


@pytest.mark.slow
@pytest.mark.parametrize("place", places(None, np.ones((1, 1))))
@pytest.mark.filterwarnings("ignore::xpsample.core.errors.DiagnosisWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
def test_a_compiled_step_of_torch_is_compiled_again(place, monkeypatch):
    """Also when torch has compiled as many steps as it allows; all kernels share one function, `Kernel.advance`."""
    torch = pytest.importorskip("torch")
    library = open_library("torch", "float64")
    x0 = library.array(np.full((4, 1), 2.0))
    centre, change = places(monkeypatch, library.array(np.ones((1, 1))))[place]
    target = xps.Target(density_of(torch, centre))
    for _ in range(2):
        with torch._dynamo.config.patch(recompile_limit=1):
            made = library.host(sampled(target, xps.RWM(0.3), x0, compile=True))
        np.testing.assert_allclose(made, library.host(sampled(target, xps.RWM(0.3), x0)), rtol=1e-9)
        change()
